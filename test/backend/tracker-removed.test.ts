/** A backend that is removed under a tracker: nothing that was on the host is lost, and the tracker goes on. */
import '@tensorflow/tfjs';
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';
import { TensortallyError } from '../../src/errors.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

const backend = await testBackend();

/** An export of a window that may be told once of what was lost on a device. */
async function exported(tracker: StatsTracker): Promise<Record<string, number>> {
  try {
    return await tracker.export();
  } catch (error) {
    expect(error).toBeInstanceOf(TensortallyError);
    return tracker.export();
  }
}

test('masks that go with their backend cost no number, and wedge nothing', async () => {
  const trackers = Array.from({ length: 4 }, () => new StatsTracker());
  const [paired, unpaired, disposed, running] = trackers as [
    StatsTracker,
    StatsTracker,
    StatsTracker,
    StatsTracker,
  ];
  const m = deviceTensor({ shape: [64], values: Array.from({ length: 64 }, (_, i) => i % 2), dtype: 'bool' });
  const v = deviceTensor({ shape: [64], values: Array.from({ length: 64 }, (_, i) => i) });
  for (const tracker of trackers) {
    tracker.denominator({ m });
    tracker.stat({ v }, { denominator: 'm', reduceType: 'sum' });
    tracker.scalar({ s: 3 });
    await tracker.export({ reset: false });
  }
  unpaired.denominator({ m });
  const handle = unpaired.denominator('h', m);
  const open = running.export();
  tf.removeBackend(backend);

  const all = { m: 32, s: 3, s__count: 1, v: 1024 };
  expect(await open).toEqual(all);
  expect(await paired.export()).toEqual(all);
  disposed.dispose();
  expect(await disposed.export()).toEqual({});
  expect(() => {
    unpaired.stat({ v }, { denominator: 'm', reduceType: 'sum' });
  }).toThrow(TensortallyError);
  handle[Symbol.dispose]();
  expect(await exported(unpaired)).toMatchObject({ s: 3, s__count: 1, v: 1024 });
  expect(unpaired.memory()).toMatchObject({ keys: 0, heldMasks: 0, unreadLaunches: 0, deviceBytes: 0 });
  unpaired.scalar({ s: 4 });
  expect(await unpaired.export()).toEqual({ s: 4, s__count: 1 });
});
