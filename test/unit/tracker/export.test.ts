/** Export: one read-back, records made meanwhile, keys, peeks, and reads that fail. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { KeyConflictError, PairingError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, TrackerRegistry } from '../../../src/tracker/index.js';
import { tidied } from '../../support/tensors.js';
import { SlowDevice, leavesNothing } from './slow-device.js';
import { mask, recordSum, values } from './tensors.js';

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

describe('the read-back', () => {
  it('is one transfer for all stats, all masks and all trackers', async () => {
    const registry = new TrackerRegistry();
    tf.tidy(() => {
      for (const name of ['', 'a', 'b']) {
        registry.get(name).denominator({ m: mask(1, 1), unused: mask(1, 0) });
        registry.get(name).stat({ x: values(1, 2), y: values(1, 2) }, { denominator: 'm' });
        registry.get(name).stat({ z: values(1, 2) }, { denominator: 'm' });
      }
    });
    await registry.exportAll();
    // Per tracker: x with y, z, and the mask that no stat counted.
    expect(slow.transfers).toEqual([9]);
  });

  it('does not happen when everything is on the host', async () => {
    tracker.scalar({ a: 1 });
    await tracker.export();
    expect(slow.transfers).toEqual([]);
  });

  it('happens once for several peeks and the export after them', async () => {
    record(1, 2);
    await tracker.export({ reset: false });
    await tracker.export({ reset: false });
    expect(await tracker.export()).toEqual({ m: 2, v: 3 });
    expect(slow.transfers).toEqual([1]);
  });
});

describe('records made while an export runs', () => {
  it('belong to the next one', async () => {
    record(1, 2);
    tracker.scalar({ s: 1 });
    const open = slow.close();
    const first = tracker.export();
    record(10);
    tracker.scalar({ s: 5 });
    open();
    expect(await first).toEqual({ m: 2, s: 1, s__count: 1, v: 3 });
    expect(await tracker.export()).toEqual({ m: 1, s: 5, s__count: 1, v: 10 });
  });

  it('do not show up in a peek, and are not lost by it', async () => {
    record(1, 2);
    const open = slow.close();
    const peek = tracker.export({ reset: false });
    record(10);
    open();
    expect(await peek).toEqual({ m: 2, v: 3 });
    expect(await tracker.export()).toEqual({ m: 3, v: 13 });
  });

  it('cannot use a denominator that is being exported, nor turn its keys into something else', async () => {
    record(1);
    const open = slow.close();
    const running = tracker.export();
    const v = values(1);
    expect(() => {
      tracker.stat({ v }, { denominator: 'm' });
    }).toThrow(/no key is known/);
    expect(() => {
      tracker.scalar({ v: 1 });
    }).toThrow(KeyConflictError);
    open();
    await running;
    tracker.scalar({ v: 1 });
    expect(await tracker.export()).toEqual({ v: 1, v__count: 1 });
    v.dispose();
  });

  it('keep the key of a denominator that nothing has counted, though the export ends', async () => {
    record(1);
    const open = slow.close();
    const running = tracker.export();
    tf.tidy(() => {
      tracker.denominator({ m: mask(1) });
    });
    open();
    await running;
    expect(() => {
      tracker.scalar({ m: 1 });
    }).toThrow(KeyConflictError);
    expect(await tracker.export()).toEqual({ m: 1 });
  });

  it('go with an export of their own, and each record is in exactly one', async () => {
    const open = slow.close();
    const exports = [3, 4, 5].map((number) => {
      record(number);
      return tracker.export();
    });
    open();
    expect(await Promise.all(exports)).toEqual([3, 4, 5].map((v) => ({ m: 1, v })));
    expect(await tracker.export()).toEqual({});
  });
});

describe('a key of an export that runs', () => {
  it('is not free because another export has ended meanwhile', async () => {
    record(1);
    tracker.scalar({ x: 1 });
    const open = slow.close();
    const running = tracker.export();
    tracker.scalar({ y: 1 });
    expect(await tracker.export({ key: 'y' })).toEqual({ y: 1, y__count: 1 });
    expect(() => {
      tracker.scalar({ v: 1 });
    }).toThrow(KeyConflictError);
    open();
    await running;
    tracker.scalar({ v: 1, x__count: 3 });
    expect(await tracker.export()).toEqual({ v: 1, v__count: 1, x__count: 3, x__count__count: 1 });
  });
});

describe('a read that fails', () => {
  it('loses nothing: the next export has all of it', async () => {
    record(1, 2);
    tracker.scalar({ s: 1 });
    slow.failures = 1;
    await expect(tracker.export()).rejects.toThrow('device lost');
    expect(await tracker.export()).toEqual({ m: 2, s: 1, s__count: 1, v: 3 });
    expect(await tracker.export()).toEqual({});
  });

  it('loses nothing of what was recorded meanwhile either, and keeps the order', async () => {
    record(1, 2);
    tracker.scalar({ s: 1 });
    slow.failures = 1;
    const open = slow.close();
    const failing = tracker.export();
    record(10);
    tracker.scalar({ s: 4, t: 1 });
    open();
    await expect(failing).rejects.toThrow('device lost');
    expect(await tracker.export()).toEqual({ m: 3, s: 2.5, s__count: 2, t: 1, t__count: 1, v: 13 });
  });

  it('leaves masks and values where they were, so recording can go on', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 0) });
      tracker.stat({ a: values(1, 2) }, { denominator: 'm', reduceType: 'sum' });
    });
    slow.failures = 1;
    await expect(tracker.export()).rejects.toThrow('device lost');
    tf.tidy(() => {
      tracker.stat({ b: values(5, 6) }, { denominator: 'm', reduceType: 'sum' });
    });
    expect(await tracker.export()).toEqual({ a: 1, b: 5, m: 1 });
  });

  it('gives handles their masks back, beside those that their denominator has got since', async () => {
    const valid = tidied(() => tracker.denominator('m', mask(1, 0)));
    tf.tidy(() => {
      valid.stat({ a: values(1, 2) }, { reduceType: 'sum' });
    });
    slow.failures = 1;
    const open = slow.close();
    const failing = tracker.export();
    const newer = tidied(() => tracker.denominator('m', mask(1, 1)));
    open();
    await expect(failing).rejects.toThrow('device lost');
    tf.tidy(() => {
      valid.stat({ b: values(1, 2) }, { reduceType: 'sum' });
      newer.stat({ b: values(3, 4) }, { reduceType: 'sum' });
    });
    expect(tracker.memory().heldMasks).toBe(2);
    expect(await tracker.export()).toEqual({ a: 1, b: 8, m: 3 });
  });

  it('does not bring back what was dropped while it ran', async () => {
    record(1);
    slow.failures = 1;
    const open = slow.close();
    const failing = tracker.export();
    tracker.dispose();
    open();
    await expect(failing).rejects.toThrow('device lost');
    expect(await tracker.export()).toEqual({});
  });

  it('loses nothing of one key, nor of several trackers', async () => {
    record(1, 2);
    slow.failures = 1;
    await expect(tracker.export({ key: 'm' })).rejects.toThrow('device lost');
    expect(await tracker.export()).toEqual({ m: 2, v: 3 });

    const registry = new TrackerRegistry();
    const v = values(4);
    const m = mask(1);
    for (const name of ['a', 'b']) {
      registry.get(name).denominator({ m });
      registry.get(name).stat({ v }, { denominator: 'm', reduceType: 'max' });
    }
    slow.failures = 1;
    await expect(registry.exportAll()).rejects.toThrow('device lost');
    expect(await registry.exportAll()).toEqual({ 'a/m': 1, 'a/v': 4, 'b/m': 1, 'b/v': 4 });
    tf.dispose([v, m]);
  });
});

describe('export of one key', () => {
  it('takes that key only; the next value of a stat still pairs with the next mask', async () => {
    record(1, 2);
    expect(await tracker.export({ key: 'v' })).toEqual({ v: 3 });
    record(10);
    expect(await tracker.export({ key: 'v' })).toEqual({ v: 10 });
    expect(await tracker.export()).toEqual({ m: 3 });
  });

  it('of a denominator ends its masks: later values need a new one', async () => {
    record(1, 2);
    expect(await tracker.export({ key: 'm' })).toEqual({ m: 2 });
    const v = values(1);
    expect(() => {
      tracker.stat({ v }, { denominator: 'm' });
    }).toThrow(/no key is known/);
    record(10);
    expect(await tracker.export()).toEqual({ m: 1, v: 13 });
    v.dispose();
  });

  it('of a denominator is refused while a stat is behind', async () => {
    record(1);
    const m = mask(1);
    tracker.denominator({ m });
    await expect(tracker.export({ key: 'm' })).rejects.toThrow(PairingError);
    m.dispose();
  });

  it('is its full key, and an unknown one exports nothing', async () => {
    tracker.scope('a', () => {
      tracker.scalar({ x: 1 });
    });
    expect(await tracker.export({ key: 'x' })).toEqual({});
    expect(await tracker.export({ key: 'a/x' })).toEqual({ 'a/x': 1, 'a/x__count': 1 });
  });
});

describe('an exported record', () => {
  it('has sorted names, and the same bits for the same records', async () => {
    tracker.scalar({ b: 1, a: 1 });
    tracker.scope('A', () => {
      tracker.scalar({ z: 1 });
    });
    expect(Object.keys(await tracker.export())).toEqual([
      'A/z',
      'A/z__count',
      'a',
      'a__count',
      'b',
      'b__count',
    ]);
    const bits = async () => {
      record(0.1, 0.2);
      record(0.3);
      return (await tracker.export()).v;
    };
    expect(await bits()).toBe(await bits());
  });

  it('has the real infinities and says NaN where a value was NaN', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 1, 0), n: mask(1, 1) });
      tracker.stat({ v: values(-Infinity, 1, NaN) }, { denominator: 'm' });
      tracker.stat({ w: values(NaN, 1) }, { denominator: 'n' });
    });
    expect(await tracker.export()).toEqual({
      ...{ m: 2, 'v/avg': -Infinity, 'v/min': -Infinity, 'v/max': 1 },
      ...{ n: 2, 'w/avg': NaN, 'w/min': NaN, 'w/max': NaN },
    });
  });
});
