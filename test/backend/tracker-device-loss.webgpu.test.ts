/** The loss of the webgpu device under a tracker: what it costs, who hears of it, and that recording goes on. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';
import { BackendError } from '../../src/errors.js';
import { initBackend } from '../../src/kernels/index.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

/** Two selected elements of three. */
function record(tracker: StatsTracker, ...values: [number, number, number]): void {
  const m = deviceTensor({ shape: [3], values: [1, 0, 1], dtype: 'bool' });
  const v = deviceTensor({ shape: [3], values });
  tracker.denominator({ m });
  tracker.stat({ v }, { denominator: 'm', reduceType: 'sum' });
  tf.dispose([m, v]);
}

test('a lost device costs what was on it, every window hears of it once, and the next device goes on', async () => {
  const tracker = new StatsTracker('', { windows: ['step', 'epoch'] });
  record(tracker, 1, 9, 2);
  expect(await tracker.export({ reset: false })).toEqual({ m: 2, v: 3 });
  record(tracker, 10, 9, 20);
  tracker.scalar({ s: 1 });
  // Its count is launched by the export alone, on a device that is gone by then.
  const unused = deviceTensor({ shape: [2], values: [1, 1], dtype: 'bool' });
  tracker.denominator({ unused });
  (tf.backend() as unknown as { device: { destroy(): void } }).device.destroy();

  const left = { m: 2, s: 1, s__count: 1, unused: 0, v: 3 };
  await expect(tracker.export()).rejects.toThrow(BackendError);
  expect(await tracker.export()).toEqual(left);
  await expect(tracker.export({ window: 'epoch' })).rejects.toThrow(BackendError);
  expect(await tracker.export({ window: 'epoch' })).toEqual(left);

  await initBackend('webgpu');
  record(tracker, 5, 9, 6);
  expect(await tracker.export()).toEqual({ m: 2, v: 11 });
  expect(await tracker.export({ window: 'epoch' })).toEqual({ m: 2, v: 11 });
});
