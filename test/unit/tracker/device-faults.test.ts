/** Faults of a device: what they cost, who hears of it, and how often. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { BackendError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, TrackerRegistry } from '../../../src/tracker/index.js';
import { SlowDevice, leavesNothing } from './slow-device.js';
import { mask, recordSum, values } from './tensors.js';
import { CaughtWarnings } from './warnings.js';

const device: { current?: SlowDevice } = vi.hoisted(() => ({}));

vi.mock(import('../../../src/kernels/index.js'), async (importOriginal) => {
  const { slowKernels } = await import('./slow-device.js');
  return slowKernels(await importOriginal(), device);
});

let tracker: StatsTracker;
let slow: SlowDevice;

function record(...numbers: number[]): void {
  recordSum(tracker, ...numbers);
}

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  device.current = slow = new SlowDevice();
  tracker = new StatsTracker();
  return leavesNothing(slow, tracker);
});

describe('a transfer that the device fails', () => {
  it('loses what was still on the device, says so once, and nothing else', async () => {
    record(1, 2);
    await tracker.export({ reset: false });
    record(10);
    tracker.scalar({ s: 1 });
    slow.lostTransfers = 1;
    await expect(tracker.export()).rejects.toThrow(BackendError);
    record(100);
    expect(await tracker.export()).toEqual({ m: 3, s: 1, s__count: 1, v: 103 });
    expect(await tracker.export()).toEqual({});
    expect(slow.transfers).toEqual([1, 1, 1]);
  });

  it('loses what it was asked for, and not what was recorded while it ran', async () => {
    record(1, 2);
    slow.lostTransfers = 1;
    const open = slow.close();
    const failing = tracker.export();
    record(10);
    open();
    await expect(failing).rejects.toThrow(BackendError);
    expect(await tracker.export()).toEqual({ m: 1, v: 10 });
  });

  it('says so once in a peek, in an export of one key, as rows, and over several trackers', async () => {
    const exports = [
      () => tracker.export({ reset: false }),
      () => tracker.export({ key: 'v' }),
      () => tracker.rows(),
    ];
    for (const fails of exports) {
      record(1, 2);
      slow.lostTransfers = 1;
      await expect(fails()).rejects.toThrow(BackendError);
      expect(await tracker.export()).toEqual({ m: 0, v: 0 });
    }
    const registry = new TrackerRegistry();
    const [m, v] = [mask(1), values(4)];
    for (const name of ['a', 'b']) {
      registry.get(name).denominator({ m });
      registry.get(name).stat({ v }, { denominator: 'm', reduceType: 'sum' });
    }
    slow.lostTransfers = 1;
    await expect(registry.exportAll()).rejects.toThrow(BackendError);
    registry.get('a').scalar({ s: 1 });
    expect(await registry.exportAll()).toEqual({
      ...{ 'a/m': 0, 'a/s': 1, 'a/s__count': 1, 'a/v': 0, 'b/m': 0, 'b/v': 0 },
    });
    tf.dispose([m, v]);
  });

  it('is told to two exports that wait for it, and does not outlive what it has lost', async () => {
    record(1);
    slow.lostTransfers = 1;
    const both = [tracker.export({ reset: false }), tracker.export()];
    const settled = await Promise.allSettled(both);
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    tracker.dispose();
    record(5);
    expect(await tracker.export()).toEqual({ m: 1, v: 5 });
  });
});

describe('a mask that the device has spoilt before it was counted', () => {
  it('is told by the first export, which keeps all else; the next one goes on without it', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 1), n: mask(1, 0) });
    });
    slow.refusals = { after: 0, count: 1 };
    await expect(tracker.export()).rejects.toThrow(BackendError);
    expect(await tracker.export()).toEqual({ m: 0, n: 1 });
  });

  it('is let go by its handle without an error, and told by the next export', async () => {
    tf.tidy(() => {
      using valid = tracker.denominator('m', mask(1, 1));
      expect(valid.denominator).toBe('m');
      slow.refusals = { after: 0, count: 1 };
    });
    expect(tracker.memory().heldMasks).toBe(0);
    await expect(tracker.export()).rejects.toThrow(BackendError);
    expect(await tracker.export()).toEqual({ m: 0 });
  });

  it('and whose values were left out keeps the others in their places', async () => {
    tracker = new StatsTracker('', { mode: 'parity' });
    const warnings = new CaughtWarnings();
    const add = (v: number) => {
      tracker.stat({ v: values(v) }, { denominator: 'm', reduceType: 'sum' });
    };
    tf.tidy(() => {
      tracker.denominator({ m: mask(1) });
      add(1);
      add(2); // Has no mask yet, and is left out.
      tracker.denominator({ m: mask(1) });
      slow.refusals = { after: 0, count: 1 };
      tracker.denominator({ m: mask(1) }); // Lets the second go, which nothing has counted.
      add(4);
    });
    expect(tracker.memory().heldMasks).toBe(1);
    await expect(tracker.export()).rejects.toThrow(BackendError);
    expect(await tracker.export()).toEqual({ m: 2, v: 5 });
    warnings.stop();
  });
});

describe('a stat call of which a later pass is refused', () => {
  it('lets the earlier ones go and records nothing', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 0) });
      tracker.denominator({ m: mask(0, 1) });
      tracker.stat({ a: values(1, 2) }, { denominator: 'm', reduceType: 'sum' });
      const [a, b] = [values(3, 4), values(5, 6)];
      slow.refusals = { after: 1, count: 1 };
      expect(() => {
        tracker.stat({ a, b }, { denominator: 'm', reduceType: 'sum' });
      }).toThrow(BackendError);
      expect(slow.live.size).toBe(1);
      tracker.stat({ a, b }, { denominator: 'm', reduceType: 'sum' });
      tracker.stat({ b: values(7, 8) }, { denominator: 'm', reduceType: 'sum' });
    });
    expect(await tracker.export()).toEqual({ a: 5, b: 13, m: 2 });
  });
});
