/** No sequence of calls makes a tracker refuse every later export: what a key was does not outlive its records. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { BackendError, PairingError, TensortallyError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, defineMetrics } from '../../../src/tracker/index.js';
import { SlowDevice, leavesNothing } from './slow-device.js';
import { mask, recordSum, values } from './tensors.js';

const device: { current?: SlowDevice } = vi.hoisted(() => ({}));

vi.mock(import('../../../src/kernels/index.js'), async (importOriginal) => {
  const { slowKernels } = await import('./slow-device.js');
  return slowKernels(await importOriginal(), device);
});

let tracker: StatsTracker;
let slow: SlowDevice;

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  device.current = slow = new SlowDevice();
  tracker = new StatsTracker('', { windows: ['step', 'epoch'] });
  return leavesNothing(slow, tracker);
});

function masks(...names: string[]): void {
  tf.tidy(() => {
    for (const name of names) tracker.denominator({ [name]: mask(1, 1) });
  });
}

function sum(key: string, denominator: string, ...numbers: [number, number]): void {
  tf.tidy(() => {
    tracker.stat({ [key]: values(...numbers) }, { denominator, reduceType: 'sum' });
  });
}

async function forget(key: string): Promise<void> {
  for (const window of ['step', 'epoch']) await tracker.export({ key, window });
}

describe('a key that was exported alone', () => {
  it('may become a scalar, and the masks that it had go on', async () => {
    recordSum(tracker, 1, 2);
    await forget('v');
    tracker.scalar({ v: 7 });
    masks('m');
    expect(await tracker.export()).toEqual({ m: 4, v: 7, v__count: 1 });
    expect(await tracker.export({ window: 'epoch' })).toEqual({ m: 4, v: 7, v__count: 1 });
  });

  it('may become a counter, a denominator, or a stat over another denominator', async () => {
    for (const becomes of ['counter', 'denominator', 'stat', 'handle'] as const) {
      recordSum(tracker, 1, 2);
      await forget('v');
      if (becomes === 'counter') tracker.counter({ v: 7 });
      else if (becomes === 'denominator') masks('v');
      else {
        if (becomes === 'stat') masks('n');
        tf.tidy(() => {
          if (becomes === 'stat') tracker.stat({ v: values(3, 4) }, { denominator: 'n', reduceType: 'sum' });
          else tracker.denominator('n', mask(1, 1)).stat({ v: values(3, 4) }, { reduceType: 'sum' });
        });
      }
      masks('m', 'm');
      const v = becomes === 'denominator' ? 2 : 7;
      const n = becomes === 'counter' || becomes === 'denominator' ? {} : { n: 2 };
      expect(await tracker.export(), becomes).toEqual({ m: 6, ...n, v });
      await tracker.export({ window: 'epoch' });
    }
  });

  it('is still a stat to a window that has it', async () => {
    recordSum(tracker, 1, 2);
    await tracker.export({ key: 'v' });
    masks('m');
    await expect(tracker.export({ window: 'epoch' })).rejects.toThrow(PairingError);
    sum('v', 'm', 3, 4);
    expect(await tracker.export({ window: 'epoch' })).toEqual({ m: 4, v: 10 });
    expect(await tracker.export()).toEqual({ m: 4, v: 7 });
  });

  it('frees its name for a denominator that a stat had, too', async () => {
    recordSum(tracker, 1, 2);
    await forget('m');
    tracker.scalar({ m: 1 });
    expect(() => {
      masks('m');
    }).toThrow(TensortallyError);
    expect(await tracker.export()).toEqual({ m: 1, m__count: 1, v: 3 });
    expect(await tracker.export({ window: 'epoch' })).toEqual({ m: 1, m__count: 1, v: 3 });
    recordSum(tracker, 5, 5);
    expect(await tracker.export()).toEqual({ m: 2, v: 10 });
  });

  it('frees its name in scopes, children and schemas', async () => {
    const child = tracker.child('a');
    const schema = defineMetrics({ m: 'denominator', v: { denominator: 'm', reduceType: 'sum' } }).on(child);
    tf.tidy(() => {
      schema.denominator({ m: mask(1, 1) });
      schema.stat('m', { v: values(1, 2) });
    });
    await forget('a/v');
    tracker.scope('a', () => {
      tracker.scalar({ v: 3 });
    });
    tf.tidy(() => {
      schema.denominator({ m: mask(1, 1) });
    });
    expect(await tracker.export()).toEqual({ 'a/m': 4, 'a/v': 3, 'a/v__count': 1 });
  });
});

describe('two exports that fail while both are in flight', () => {
  /** Records `first` and `second`, each taken by an export of its own that fails; `order` is the one in which they do. */
  async function failBoth(record: (i: number) => void, order: 'first first' | 'second first'): Promise<void> {
    const opens: (() => void)[] = [];
    const running: Promise<unknown>[] = [];
    for (const i of [1, 2]) {
      record(i);
      opens.push(slow.close());
      running.push(tracker.export());
    }
    for (const i of order === 'first first' ? [0, 1] : [1, 0]) {
      slow.failures = 1;
      opens[i]!();
      await expect(running[i]).rejects.toThrow('device lost');
    }
  }

  for (const order of ['first first', 'second first'] as const) {
    it(`put their records back in the order of the records: ${order}`, async () => {
      await failBoth((i) => {
        recordSum(tracker, i, i);
        tracker.scalar({ last: i }, { reduceType: 'last' });
        tracker.scalar({ [`only ${i}`]: i }, { reduceType: 'last' });
      }, order);
      const all = { last: 2, m: 4, 'only 1': 1, 'only 2': 2, v: 6 };
      expect(await tracker.export({ reset: false })).toEqual(all);
      tracker.scalar({ last: 3 }, { reduceType: 'last' });
      expect(await tracker.export()).toEqual({ ...all, last: 3 });
      expect(await tracker.export({ window: 'epoch' })).toEqual({ ...all, last: 3 });
    });

    it(`let values pair with the masks that were recorded last: ${order}`, async () => {
      await failBoth((i) => {
        tf.tidy(() => {
          tracker.denominator({ m: i === 1 ? mask(1, 0) : mask(0, 1) });
        });
        sum('v', 'm', i, 10 * i);
      }, order);
      // The mask of the second export is the last one, and w has used none.
      sum('w', 'm', 100, 1000);
      expect(await tracker.export()).toEqual({ m: 2, v: 21, w: 1000 });
    });

    it(`and one key of which was exported meanwhile: ${order}`, async () => {
      const last = (x: number) => {
        tracker.scalar({ k: x, other: x }, { reduceType: 'last' });
      };
      await failBoth((i) => {
        recordSum(tracker, i);
        last(i);
      }, order);
      last(3);
      expect(await tracker.export({ key: 'k' })).toEqual({ k: 3 });
      expect(await tracker.export()).toMatchObject({ other: 3, v: 3 });
      expect(await tracker.export({ window: 'epoch' })).toMatchObject({ k: 3, other: 3, v: 3 });
    });
  }

  it('keep what is taken in between in its place, while others look', async () => {
    const record = (x: number) => {
      recordSum(tracker, x);
      tracker.scalar({ last: x, [`only ${x}`]: x }, { reduceType: 'last' });
    };
    record(1);
    const openFirst = slow.close();
    const first = tracker.export();
    record(2);
    const openSecond = slow.close();
    const second = tracker.export();
    slow.failures = 1;
    openFirst();
    await expect(first).rejects.toThrow('device lost');
    // Merged while the second is under way: what it took belongs between these two.
    tracker.scalar({ 'only 3': 3 }, { reduceType: 'last' });
    await tracker.export({ window: 'epoch', key: 'nothing' });
    tracker.scalar({ s: 1 });
    slow.gate = Promise.resolve();
    expect(await tracker.export({ reset: false })).toMatchObject({ last: 1 });
    slow.failures = 1;
    openSecond();
    await expect(second).rejects.toThrow('device lost');
    expect(await tracker.export()).toMatchObject({ last: 2, 'only 1': 1, 'only 2': 2, 'only 3': 3, v: 3 });
  });
});

describe('an export whose masks cannot be freed', () => {
  it('has its numbers all the same, and the next one works', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 1) });
      tracker.stat({ v: values(1, 2) }, { denominator: 'm', reduceType: 'sum' });
    });
    const dispose = vi.spyOn(tf.Tensor.prototype, 'dispose').mockImplementation(() => {
      throw new TypeError('gone');
    });
    const exported = await tracker.export().finally(() => {
      dispose.mockRestore();
    });
    expect(exported).toEqual({ m: 2, v: 3 });
    expect(tracker.memory()).toMatchObject({ heldMasks: 0, deviceBytes: 0 });
    expect(await tracker.export()).toEqual({});
    // What the engine still counts is the one tensor that could not be disposed.
    tf.engine().state.numTensors -= 1;
  });
});

describe('what a device fails with in words of its own', () => {
  it('is thrown as an error of the package, with the cause', async () => {
    recordSum(tracker, 1, 2);
    slow.failures = 1;
    const failing = tracker.export();
    await expect(failing).rejects.toBeInstanceOf(BackendError);
    await expect(failing).rejects.toMatchObject({ cause: { message: 'device lost' } });
    expect(await tracker.export()).toEqual({ m: 2, v: 3 });
  });
});
