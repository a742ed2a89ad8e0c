/** Windows: one record feeds all of them, and none takes anything from another. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  BackendError,
  KeyConflictError,
  PairingError,
  ReleasedError,
  ValueError,
} from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, TrackerRegistry } from '../../../src/tracker/index.js';
import { tidied } from '../../support/tensors.js';
import { SlowDevice, leavesNothing } from './slow-device.js';
import { mask, recordSum, values } from './tensors.js';
import { runsOf } from '../../support/long.js';

const device: { current?: SlowDevice } = vi.hoisted(() => ({}));

vi.mock(import('../../../src/kernels/index.js'), async (importOriginal) => {
  const { slowKernels } = await import('./slow-device.js');
  return slowKernels(await importOriginal(), device);
});

const windows = ['step', 'epoch', 'run'];
const epoch = { window: 'epoch' };
let tracker: StatsTracker;
let slow: SlowDevice;

/** One micro-batch: `numbers` under a mask that selects all, and a scalar. */
function record(...numbers: number[]): void {
  recordSum(tracker, ...numbers);
  tracker.scalar({ s: numbers[0]! });
}

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  device.current = slow = new SlowDevice();
  tracker = new StatsTracker('', { windows });
  return leavesNothing(slow, tracker);
});

describe('a window', () => {
  it('has everything since its own last export', async () => {
    record(1, 2);
    expect(await tracker.export()).toEqual({ m: 2, s: 1, s__count: 1, v: 3 });
    record(10);
    expect(await tracker.export({ window: 'step' })).toEqual({ m: 1, s: 10, s__count: 1, v: 10 });
    record(100);
    expect(await tracker.export(epoch)).toEqual({ m: 4, s: 37, s__count: 3, v: 113 });
    expect(await tracker.export(epoch)).toEqual({});
    expect(await tracker.export()).toEqual({ m: 1, s: 100, s__count: 1, v: 100 });
    expect(await tracker.export({ window: 'run' })).toEqual({ m: 4, s: 37, s__count: 3, v: 113 });
    expect(await tracker.export({ window: 'run' })).toEqual({});
  });

  it('is peeked at without changing any', async () => {
    record(1, 2);
    await tracker.export();
    record(10);
    for (let i = 0; i < 2; i++) {
      expect(await tracker.export({ reset: false })).toMatchObject({ m: 1, v: 10 });
      expect(await tracker.export({ ...epoch, reset: false })).toMatchObject({ m: 3, v: 13 });
    }
    expect(await tracker.export(epoch)).toMatchObject({ m: 3, v: 13 });
    expect(await tracker.export()).toMatchObject({ m: 1, v: 10 });
  });

  it('gives up one key without the others losing it', async () => {
    record(1, 2);
    expect(await tracker.export({ key: 'v' })).toEqual({ v: 3 });
    expect(await tracker.export({ key: 'v' })).toEqual({});
    expect(await tracker.export({ key: 's', ...epoch })).toEqual({ s: 1, s__count: 1 });
    expect(await tracker.export({ key: 'm' })).toEqual({ m: 2 });
    record(5);
    expect(await tracker.export()).toEqual({ m: 1, s: 3, s__count: 2, v: 5 });
    expect(await tracker.export(epoch)).toEqual({ m: 3, s: 5, s__count: 1, v: 8 });
    expect(await tracker.export({ window: 'run' })).toEqual({ m: 3, s: 3, s__count: 2, v: 8 });
  });

  it('keeps rows on the host alone, as many as keys, however often others are exported', async () => {
    for (let i = 0; i < 20; i++) {
      record(i, 1);
      await tracker.export();
      expect(tracker.memory()).toMatchObject({ heldMasks: 0, unreadLaunches: 0, deviceBytes: 0, keys: 3 });
      // Both other windows share the first segment and have merged rows of their own from then on.
      expect(tracker.memory().waitingRows).toBeLessThanOrEqual(6);
      expect(slow.live.size).toBe(0);
    }
    expect(slow.transfers).toHaveLength(20);
    expect(await tracker.export(epoch)).toEqual({ m: 40, s: 9.5, s__count: 20, v: 210 });
    expect(slow.transfers).toHaveLength(20);
  });

  it('has timings, counters and last values too', async () => {
    let now = 0;
    tracker = new StatsTracker('', { windows, clock: () => now });
    for (let i = 1; i <= 3; i++) {
      tracker.recordTiming('x', () => (now += i));
      tracker.counter({ n: i });
      tracker.scalar({ lr: i }, { reduceType: 'last' });
      expect(await tracker.export()).toEqual({ lr: i, n: i, 'timeperf/x': i, 'timeperf/x__count': 1 });
    }
    expect(await tracker.export(epoch)).toEqual({ lr: 3, n: 6, 'timeperf/x': 2, 'timeperf/x__count': 3 });
  });

  it('keeps a key what it is until the last window has let go of it', async () => {
    tracker.scalar({ k: 1 });
    await tracker.export();
    await tracker.export({ window: 'run' });
    const recount = () => {
      tracker.counter({ k: 5 });
    };
    expect(recount).toThrow(KeyConflictError);
    await tracker.export(epoch);
    recount();
    expect(await tracker.export()).toEqual({ k: 5 });
  });

  it('ends the masks of all when it is exported, those of handles too', async () => {
    record(1);
    const valid = tidied(() => tracker.denominator('h', mask(1)));
    await tracker.export(epoch);
    const v = values(1);
    expect(() => {
      tracker.stat({ v }, { denominator: 'm' });
    }).toThrow(/no key is known/);
    expect(() => {
      valid.stat({ w: v });
    }).toThrow(ReleasedError);
    v.dispose();
    expect(await tracker.export()).toEqual({ h: 1, m: 1, s: 1, s__count: 1, v: 1 });
  });

  it('is refused by a name that it does not have, by one tracker and by several', async () => {
    for (const window of ['day', '', 5 as unknown as string]) {
      await expect(tracker.export({ window })).rejects.toThrow(ValueError);
    }
    const registry = new TrackerRegistry({ windows });
    registry.get('a').scalar({ x: 1 });
    registry.get('b').scalar({ x: 2 });
    await registry.exportAll();
    await expect(registry.exportAll({ window: 'day' })).rejects.toThrow(ValueError);
    const both = { 'a/x': 1, 'a/x__count': 1, 'b/x': 2, 'b/x__count': 1 };
    expect(await registry.exportAll(epoch)).toEqual(both);
    expect(await registry.exportAll(epoch)).toEqual({});
    for (const bad of [[], ['a', 'a'], [''], [1], 'step', { step: 1 }]) {
      expect(() => new StatsTracker('', { windows: bad as string[] })).toThrow(ValueError);
    }
  });
});

describe('exports of several windows at once', () => {
  it('have the same records, read once', async () => {
    record(1, 2);
    const open = slow.close();
    const running = [tracker.export(), tracker.export(epoch), tracker.export({ window: 'run' })];
    record(10);
    open();
    const first = { m: 2, s: 1, s__count: 1, v: 3 };
    expect(await Promise.all(running)).toEqual([first, first, first]);
    expect(slow.transfers).toEqual([1]);
    for (const window of windows) {
      expect(await tracker.export({ window })).toEqual({ m: 1, s: 10, s__count: 1, v: 10 });
    }
  });

  it('that fail lose nothing, in any window', async () => {
    record(1, 2);
    slow.failures = 1;
    await expect(tracker.export()).rejects.toThrow('device lost');
    record(10);
    expect(await tracker.export(epoch)).toEqual({ m: 3, s: 5.5, s__count: 2, v: 13 });
    slow.failures = 1;
    record(100);
    await expect(tracker.export(epoch)).rejects.toThrow('device lost');
    expect(await tracker.export()).toEqual({ m: 4, s: 37, s__count: 3, v: 113 });
    expect(await tracker.export(epoch)).toEqual({ m: 1, s: 100, s__count: 1, v: 100 });
    expect(await tracker.export({ window: 'run' })).toEqual({ m: 4, s: 37, s__count: 3, v: 113 });
  });

  it('that fail put back what they took in front of what other windows have cut off since', async () => {
    record(1);
    tracker.scalar({ lr: 1 }, { reduceType: 'last' });
    slow.failures = 1;
    const open = slow.close();
    const failing = tracker.export();
    tracker.scalar({ lr: 2 }, { reduceType: 'last' });
    expect(await tracker.export({ window: 'epoch', key: 'lr' })).toEqual({ lr: 2 });
    open();
    await expect(failing).rejects.toThrow('device lost');
    expect(await tracker.export()).toEqual({ lr: 2, m: 1, s: 1, s__count: 1, v: 1 });
  });

  it('let a window merge what has come, in order, while later records are on their way', async () => {
    const opens: (() => void)[] = [];
    const running = [1, 2, 4, 8].map((number) => {
      record(number);
      opens.push(slow.close());
      return tracker.export();
    });
    // Both other windows share four segments of three rows. What has come each merges into three rows of its own.
    expect(tracker.memory().waitingRows).toBe(12);
    for (const [i, rows] of [12, 2 * 3 + 6, 2 * 3 + 3, 2 * 3].entries()) {
      opens[i]!();
      await running[i];
      expect(tracker.memory().waitingRows).toBe(rows);
    }
    expect(await tracker.export(epoch)).toEqual({ m: 4, s: 15 / 4, s__count: 4, v: 15 });
  });

  it('do not merge an entry of which only a part has come', async () => {
    tf.tidy(() => {
      const [first, second] = [tracker.denominator('m', mask(1)), tracker.denominator('m', mask(1))];
      first.stat({ v: values(1) }, { reduceType: 'sum' });
      second.stat({ v: values(2), w: values(8) }, { reduceType: 'sum' });
    });
    expect(await tracker.export({ key: 'w' })).toEqual({ w: 8 });
    const open = slow.close();
    const running = tracker.export();
    expect(await tracker.export({ key: 'nothing' })).toEqual({});
    open();
    expect(await running).toEqual({ m: 2, v: 3 });
    expect(await tracker.export(epoch)).toEqual({ m: 2, v: 3, w: 8 });
  });

  it('hear each of a transfer that the device has failed, once, and go on with what is left', async () => {
    record(1, 2);
    await tracker.export();
    record(10);
    slow.lostTransfers = 1;
    await expect(tracker.export()).rejects.toThrow(BackendError);
    record(100);
    expect(await tracker.export()).toEqual({ m: 1, s: 55, s__count: 2, v: 100 });
    for (const window of ['epoch', 'run']) {
      await expect(tracker.export({ window })).rejects.toThrow(BackendError);
      expect(await tracker.export({ window })).toEqual({ m: 3, s: 37, s__count: 3, v: 103 });
    }
    record(1000);
    for (const window of windows) {
      expect(await tracker.export({ window })).toEqual({ m: 1, s: 1000, s__count: 1, v: 1000 });
    }
  });

  it('hear each of a mask that the device has spoilt', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1) });
    });
    slow.refusals = { after: 0, count: 1 };
    for (const window of windows) {
      await expect(tracker.export({ window })).rejects.toThrow(BackendError);
      expect(await tracker.export({ window })).toEqual({ m: 0 });
    }
  });

  it('get what they took although the tracker is disposed in the next line', async () => {
    record(1, 2);
    await tracker.export();
    record(10);
    const running = tracker.export();
    tracker.dispose();
    expect(await running).toEqual({ m: 1, s: 10, s__count: 1, v: 10 });
    for (const window of windows) expect(await tracker.export({ window })).toEqual({});
  });

  it('are refused while values are behind their masks', async () => {
    const m = mask(1);
    tracker.denominator({ m });
    tracker.denominator({ m });
    tf.tidy(() => {
      tracker.stat({ v: values(1) }, { denominator: 'm' });
    });
    for (const window of windows) await expect(tracker.export({ window })).rejects.toThrow(PairingError);
    m.dispose();
  });
});

describe('any history of records and exports', () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: -50, max: 50 }).map((n) => ({ record: n })) },
    { weight: 2, arbitrary: fc.constantFrom(...windows).map((window) => ({ window, key: undefined })) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom(...windows), fc.constantFrom('v', 's'))
        .map(([window, key]) => ({ window, key })),
    },
    { weight: 1, arbitrary: fc.constant({ fail: true as const }) },
    { weight: 1, arbitrary: fc.constant({ peek: true as const }) },
  );

  it('exports every record once in every window', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        tracker = new StatsTracker('', { windows });
        let total = 0;
        let count = 0;
        const seen = new Map(windows.map((window) => [window, { v: 0, calls: 0 }]));
        const take = async (window: string, key?: string) => {
          const { v = 0, s__count = 0 } = await tracker.export({ window, ...(key !== undefined && { key }) });
          seen.get(window)!.v += v;
          seen.get(window)!.calls += s__count;
        };
        for (const action of steps) {
          if ('record' in action) {
            record(action.record);
            total += action.record;
            count++;
          } else if ('fail' in action) {
            slow.failures = 1;
            await tracker.export().then(
              ({ v = 0, s__count = 0 }) => {
                // There was nothing to read.
                seen.get('step')!.v += v;
                seen.get('step')!.calls += s__count;
              },
              () => undefined,
            );
            slow.failures = 0;
          } else if ('peek' in action) {
            await tracker.export({ reset: false, window: 'run' });
          } else {
            await take(action.window, action.key);
          }
        }
        for (const window of windows) await take(window);
        for (const window of windows) expect(seen.get(window)).toEqual({ v: total, calls: count });
        expect(tracker.memory()).toMatchObject({ keys: 0, waitingRows: 0, deviceBytes: 0 });
      }),
      { numRuns: runsOf(150) },
    );
  });
});
