/** What a tracker holds on to: reports, bounds, warnings, and unasked read-backs. */
import * as tf from '@tensorflow/tfjs-core';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { BackendError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, type TrackerOptions } from '../../../src/tracker/index.js';
import { UnreadLaunches } from '../../../src/tracker/records/launch.js';
import { SlowDevice, leavesNothing } from './slow-device.js';
import { CaughtWarnings } from './warnings.js';
import { mask, values } from './tensors.js';

const device: { current?: SlowDevice } = vi.hoisted(() => ({}));

vi.mock(import('../../../src/kernels/index.js'), async (importOriginal) => {
  const { slowKernels } = await import('./slow-device.js');
  return slowKernels(await importOriginal(), device);
});

const { LIMIT } = UnreadLaunches;
let tracker: StatsTracker;
let slow: SlowDevice;

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  device.current = slow = new SlowDevice();
  tracker = new StatsTracker();
  return leavesNothing(slow, tracker);
});

function record(batches: number, to = tracker): void {
  tf.tidy(() => {
    const [m, v] = [mask(1, 0), values(1, 2)];
    for (let i = 0; i < batches; i++) {
      to.denominator({ m });
      to.stat({ v }, { denominator: 'm', reduceType: 'sum' });
    }
  });
}

describe('memory()', () => {
  it('counts keys, calls, masks, launches and bytes, and is back at nothing after an export', async () => {
    const nothing = {
      ...{ keys: 0, records: 0, waitingRows: 0, heldMasks: 0, unreadLaunches: 0, deviceBytes: 0 },
    };
    expect(tracker.memory()).toEqual(nothing);
    record(3);
    tracker.scalar({ a: 1, b: 1 });
    expect(tracker.memory()).toEqual({
      ...{ keys: 4, records: 7, waitingRows: 0, heldMasks: 1, unreadLaunches: 3, deviceBytes: 8 + 3 * 64 },
    });
    await tracker.export({ reset: false });
    expect(tracker.memory()).toMatchObject({ records: 7, heldMasks: 1, unreadLaunches: 0, deviceBytes: 8 });
    await tracker.export();
    expect(tracker.memory()).toEqual(nothing);
    record(3);
    const open = slow.close();
    const running = tracker.export();
    expect(tracker.memory()).toMatchObject({ records: 0, heldMasks: 1, unreadLaunches: 3 });
    open();
    await running;
    expect(tracker.memory()).toEqual(nothing);
    record(2);
    tracker.dispose();
    expect(tracker.memory()).toEqual(nothing);
  });
});

describe('the calls that memory() counts', () => {
  it('are those of handles too, until an export forgets everything', async () => {
    tf.tidy(() => {
      const valid = tracker.denominator('m', mask(1));
      expect(tracker.memory().records).toBe(1);
      valid.stat({ v: values(1) });
    });
    tracker.scalar({ a: 1 });
    expect(tracker.memory().records).toBe(3);
    await tracker.export({ key: 'a' });
    expect(tracker.memory().records).toBe(3);
    await tracker.export();
    expect(tracker.memory().records).toBe(0);
  });
});

describe('results that nobody asks for', () => {
  it('are read when there are too many, and the export is the same', async () => {
    record(LIMIT - 1);
    await nextTurn();
    expect(slow.transfers).toEqual([]);
    record(1);
    record(5);
    await nextTurn();
    expect(slow.transfers).toEqual([LIMIT]);
    expect(tracker.memory()).toMatchObject({ unreadLaunches: 5, deviceBytes: 8 + 5 * 64 });
    expect(await tracker.export()).toEqual({ m: LIMIT + 5, v: LIMIT + 5 });
    expect(slow.transfers).toEqual([LIMIT, 5]);
  });

  it('give the bits that they give when an export asks for them', async () => {
    const numbers = Array.from({ length: LIMIT + 100 }, (_, i) => Math.fround(Math.sin(i) * 10 ** (i % 7)));
    const bits = async (pause: number) => {
      for (const [i, number] of numbers.entries()) {
        tf.tidy(() => {
          tracker.denominator({ m: mask(1, 1) });
          tracker.stat({ v: values(number, 1 / 3) }, { denominator: 'm' });
        });
        if (i % pause === 0) await nextTurn();
      }
      return tracker.export();
    };
    expect(await bits(100)).toEqual(await bits(Infinity));
  });

  it('are not read twice by an export that runs meanwhile, and each is exported once', async () => {
    const open = slow.close();
    record(LIMIT);
    const running = tracker.export();
    record(2);
    open();
    expect(await running).toEqual({ m: LIMIT, v: LIMIT });
    expect(slow.transfers).toEqual([LIMIT]);
    expect(await tracker.export()).toEqual({ m: 2, v: 2 });
  });

  it('are no longer too many once an export has read them, though it failed', async () => {
    record(LIMIT - 1);
    slow.failures = 1;
    await expect(tracker.export()).rejects.toThrow('device lost');
    record(1);
    await nextTurn();
    expect(slow.transfers).toEqual([LIMIT - 1]);
    expect(tracker.memory().unreadLaunches).toBe(1);
    expect(await tracker.export()).toEqual({ m: LIMIT, v: LIMIT });
  });

  it('tell the next export of every window when the device has lost them, and lose nothing else', async () => {
    tracker = new StatsTracker('', { windows: ['a', 'b'] });
    slow.lostTransfers = 1;
    record(LIMIT);
    record(3);
    await nextTurn();
    expect(slow.transfers).toEqual([LIMIT]);
    for (const window of ['a', 'b']) {
      await expect(tracker.export({ window })).rejects.toThrow(BackendError);
      expect(await tracker.export({ window })).toEqual({ m: 3, v: 3 });
    }
  });

  it('tell nobody when one of them spoils the read of all, and each comes by itself', async () => {
    slow.failures = 1;
    record(LIMIT);
    record(3);
    await nextTurn();
    expect(await tracker.export()).toEqual({ m: LIMIT + 3, v: LIMIT + 3 });
  });

  it('of a tracker that is disposed are read for nobody, without a fault', async () => {
    slow.lostTransfers = 1;
    record(LIMIT);
    tracker.dispose();
    await nextTurn();
    record(1);
    expect(await tracker.export()).toEqual({ m: 1, v: 1 });
  });

  it('do not pile up in a window that waits', async () => {
    tracker = new StatsTracker('', { windows: ['a', 'b'] });
    for (let i = 0; i < 3; i++) {
      record(LIMIT / 2);
      await tracker.export();
    }
    record(LIMIT);
    await nextTurn();
    expect(tracker.memory()).toMatchObject({ waitingRows: 2, unreadLaunches: 0 });
    expect(await tracker.export({ window: 'b' })).toEqual({ m: 2.5 * LIMIT, v: 2.5 * LIMIT });
  });
});

describe('a tracker that is never exported (D24)', () => {
  let warnings: CaughtWarnings;
  beforeEach(() => {
    warnings = new CaughtWarnings();
    return () => {
      warnings.stop();
    };
  });
  const reminders = () => warnings.of('TENSORTALLY_NEVER_EXPORTED');

  it('warns once, by name', async () => {
    const critic = new StatsTracker('critic', { exportReminder: 10 });
    for (let i = 0; i < 9; i++) critic.scalar({ a: 1 });
    expect(reminders()).toEqual([]);
    record(1, critic);
    expect(reminders()).toEqual([
      expect.stringMatching(/tracker 'critic': 10 record calls without an export/),
    ]);
    for (let i = 0; i < 100; i++) critic.counter({ b: 1 });
    await critic.export();
    for (let i = 0; i < 100; i++) critic.counter({ b: 1 });
    expect(reminders()).toHaveLength(1);
    critic.dispose();
  });

  it('warns once it has passed a limit that is no integer', () => {
    const halves = new StatsTracker('', { exportReminder: 1.5 });
    halves.scalar({ a: 1 });
    expect(reminders()).toEqual([]);
    halves.scalar({ a: 1 });
    halves.scalar({ a: 1 });
    expect(reminders()).toHaveLength(1);
    const never = new StatsTracker('', { exportReminder: Infinity });
    for (let i = 0; i < 100; i++) never.scalar({ a: 1 });
    expect(reminders()).toHaveLength(1);
  });

  it('is not one that is exported in time, in whatever window', async () => {
    tracker = new StatsTracker('', { exportReminder: 10, windows: ['a', 'b'] });
    for (let i = 0; i < 50; i++) {
      tracker.scalar({ a: 1 });
      if (i % 5 === 0) await tracker.export({ window: i % 2 === 0 ? 'a' : 'b' });
    }
    expect(reminders()).toEqual([]);
    for (let i = 0; i < 10; i++) {
      tracker.scalar({ a: 1 });
      await tracker.export({ reset: false });
    }
    expect(reminders()).toHaveLength(1);
  });
});

describe('keys without end', () => {
  it('are refused, and the call records nothing', async () => {
    tracker = new StatsTracker('', { maxKeys: 3 });
    tracker.scalar({ a: 1, b: 1 });
    expect(() => {
      tracker.scalar({ a: 5, c: 1, d: 1 });
    }).toThrow(ValueError);
    tracker.scalar({ a: 3, c: 1 });
    expect(() => {
      tracker.counter({ d: 1 });
    }).toThrow(/at most 3 keys/);
    tracker.scalar({ a: 2, b: 3, c: 4 });
    expect(await tracker.export()).toMatchObject({ a: 2, b: 2, c: 2.5 });
    tracker.counter({ d: 1, e: 2, f: 3 });
    expect(await tracker.export()).toEqual({ d: 1, e: 2, f: 3 });
  });

  it('are forgotten with their exports', async () => {
    for (let i = 0; i < 100; i++) {
      tracker.scope(`step${i}`, () => {
        tracker.scalar({ a: 1 });
      });
      await tracker.export();
      expect(tracker.memory().keys).toBe(0);
    }
  });

  it('and other limits are numbers of at least 1', () => {
    const wrong: unknown[] = [{ maxKeys: 0 }, { maxKeys: NaN }, { exportReminder: -1 }, { maxKeys: '5' }];
    for (const options of wrong) {
      expect(() => new StatsTracker('', options as TrackerOptions)).toThrow(ValueError);
    }
    expect(() => new StatsTracker('', { mode: 'loose' as 'strict' })).toThrow(ValueError);
  });
});
