/** Rules for NaN and infinities: what is exported, how they are reported, and that a refusal loses nothing. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { type NonFiniteRule, StatsTracker, type TrackerOptions } from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  const before = tf.memory().numTensors;
  tf.engine().startScope();
  return () => {
    tf.engine().endScope();
    expect(tf.memory().numTensors).toBe(before);
  };
});

function recorded(options: TrackerOptions, ...numbers: number[]): StatsTracker {
  const tracker = new StatsTracker('', options);
  tracker.denominator({ m: tf.ones([numbers.length], 'bool') });
  tracker.stat({ v: values(...numbers) }, { denominator: 'm' });
  for (const s of numbers) tracker.scalar({ s });
  return tracker;
}

describe('a rule', () => {
  it('is propagate without a report where none was chosen', async () => {
    expect(await recorded({}, 1, NaN, Infinity).export()).toEqual({
      ...{ m: 3, s: NaN, s__count: 3, 'v/avg': NaN, 'v/max': NaN, 'v/min': NaN },
    });
  });

  it('propagate lets them show and counts them', async () => {
    const tracker = recorded({ nonFinite: 'propagate' }, 1, -Infinity, 3);
    expect(await tracker.export()).toEqual({
      ...{ m: 3, s: -Infinity, s__count: 3, 's/nonfinite': 1 },
      ...{ 'v/avg': -Infinity, 'v/max': 3, 'v/min': -Infinity, 'v/nonfinite': 1 },
    });
  });

  it('ignore leaves them out, from the count of a mean too, and counts them', async () => {
    const tracker = recorded({ nonFinite: 'ignore' }, 1, NaN, Infinity, 3);
    expect(await tracker.export()).toEqual({
      ...{ m: 4, s: 2, s__count: 2, 's/nonfinite': 2 },
      ...{ 'v/avg': 2, 'v/max': 3, 'v/min': 1, 'v/nonfinite': 2 },
    });
  });

  it('ignore exports nothing but their number where nothing is finite', async () => {
    const tracker = recorded({ nonFinite: 'ignore' }, NaN, NaN);
    expect(await tracker.export()).toEqual({ m: 2, 's/nonfinite': 2, 'v/nonfinite': 2 });
  });

  it('says nothing while everything is finite', async () => {
    for (const nonFinite of ['propagate', 'ignore', 'error'] as const) {
      const names = Object.keys(await recorded({ nonFinite }, 1, 2).export());
      expect(names).toEqual(['m', 's', 's__count', 'v/avg', 'v/max', 'v/min']);
    }
  });

  it('does not look outside the mask', async () => {
    const tracker = new StatsTracker('', { nonFinite: 'error' });
    tracker.denominator({ m: mask(1, 0) });
    tracker.stat({ v: values(1, NaN) }, { denominator: 'm', reduceType: 'sum' });
    expect(await tracker.export()).toEqual({ m: 1, v: 1 });
  });

  it('error refuses the export, names the keys, and keeps every record', async () => {
    const tracker = recorded({ nonFinite: 'error', windows: ['step', 'epoch'] }, 1, NaN);
    tracker.scalar({ fine: 1 });
    await expect(tracker.export()).rejects.toThrow(ValueError);
    await expect(tracker.export({ reset: false })).rejects.toThrow(
      /export: v, s: .*1 that are not, 1 that are/,
    );
    expect(await tracker.export({ key: 'fine' })).toEqual({ fine: 1, fine__count: 1 });
    tracker.scalar({ s: 5 });
    expect(await tracker.export({ nonFinite: 'ignore' })).toEqual({
      ...{ m: 2, s: 3, s__count: 2, 's/nonfinite': 1 },
      ...{ 'v/avg': 1, 'v/max': 1, 'v/min': 1, 'v/nonfinite': 1 },
    });
    await expect(tracker.export({ window: 'epoch' })).rejects.toThrow(/export: v, s/);
    expect(await tracker.export({ window: 'epoch', nonFinite: 'propagate' })).toMatchObject({
      s: NaN,
      fine: 1,
    });
  });
});

describe('the rule of a key', () => {
  it('goes before that of the tracker, and stays until the key is exported', async () => {
    const tracker = new StatsTracker('', { nonFinite: 'error' });
    const valid = tracker.denominator('m', mask(1, 1));
    tracker.denominator({ n: mask(1, 1) });
    valid.stat({ a: values(NaN, 1) }, { nonFinite: 'ignore', reduceType: 'avg' });
    tracker.stat({ b: values(NaN, 1) }, { denominator: 'n', nonFinite: 'propagate', reduceType: 'avg' });
    tracker.scalar({ c: NaN }, { nonFinite: 'ignore', reduceType: 'max' });
    tracker.scalar({ c: 2 }, { reduceType: 'max' });
    expect(() => {
      tracker.scalar({ c: 2 }, { reduceType: 'max', nonFinite: 'error' });
    }).toThrow(KeyConflictError);
    expect(await tracker.export()).toEqual({
      ...{ a: 1, 'a/nonfinite': 1, b: NaN, 'b/nonfinite': 1, c: 2, 'c/nonfinite': 1, m: 2, n: 2 },
    });
    tracker.scalar({ c: NaN });
    await expect(tracker.export()).rejects.toThrow(/export: c/);
    tracker.dispose();
  });

  it('owns the name that it reports under', () => {
    const tracker = new StatsTracker();
    tracker.scalar({ x: 1, 'y/nonfinite': 1 });
    tracker.scalar({ y: 1 });
    expect(() => {
      tracker.scalar({ y: 1 }, { nonFinite: 'ignore' });
    }).toThrow(KeyConflictError);
    tracker.scalar({ x: 1 }, { nonFinite: 'ignore' });
    expect(() => {
      tracker.counter({ 'x/nonfinite': 1 });
    }).toThrow(KeyConflictError);
  });

  it('is one of three', async () => {
    for (const wrong of ['drop', null, true, 3]) {
      const nonFinite = wrong as NonFiniteRule;
      const tracker = new StatsTracker();
      tracker.denominator({ m: mask(1) });
      expect(() => new StatsTracker('', { nonFinite })).toThrow(ValueError);
      expect(() => {
        tracker.stat({ v: values(1) }, { denominator: 'm', nonFinite });
      }).toThrow(ValueError);
      await expect(tracker.export({ nonFinite: nonFinite as 'ignore' })).rejects.toThrow(ValueError);
      tracker.dispose();
    }
    await expect(new StatsTracker().export({ nonFinite: 'error' as 'ignore' })).rejects.toThrow(ValueError);
  });
});
