/** Parity mode: what AReaL lets pass silently passes with a warning, and with AReaL's numbers. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, MissingInputError, PairingError, ShapeError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, TrackerRegistry } from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';
import { CaughtWarnings } from './warnings.js';

let tracker: StatsTracker;
let warnings: CaughtWarnings;

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  tracker = new StatsTracker('', { mode: 'parity' });
  warnings = new CaughtWarnings();
  const before = tf.memory().numTensors;
  tf.engine().startScope();
  return () => {
    warnings.stop();
    tf.engine().endScope();
    tracker.dispose();
    expect(tf.memory().numTensors).toBe(before);
  };
});

describe('values and masks that do not pair up (D8)', () => {
  it('two masks, one value: it has the first mask, and both are counted', async () => {
    tracker.denominator({ m: mask(1, 0) });
    tracker.denominator({ m: mask(0, 1) });
    tracker.stat({ v: values(10, 20) }, { denominator: 'm' });
    expect(await tracker.export()).toEqual({ m: 2, 'v/avg': 10, 'v/min': 10, 'v/max': 10 });
    expect(warnings.of('TENSORTALLY_UNPAIRED')).toEqual([
      expect.stringMatching(/'v': 1 value instead of one value per mask of 'm' \(2\)/),
    ]);
  });

  it('one mask, two values: the second is left out', async () => {
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(1, 1) }, { denominator: 'm' });
    tracker.stat({ v: values(100, 100), w: values(2, 4) }, { denominator: 'm' });
    expect(await tracker.export()).toEqual({
      ...{ m: 2, 'v/avg': 1, 'v/min': 1, 'v/max': 1, 'w/avg': 3, 'w/min': 2, 'w/max': 4 },
    });
    expect(warnings.of('TENSORTALLY_UNPAIRED')).toHaveLength(1);
  });

  it('a value without a mask keeps its place: the values after it have the masks that AReaL gives them', async () => {
    const record = (...numbers: number[]) => {
      tracker.stat({ v: values(...numbers) }, { denominator: 'm', reduceType: 'sum' });
    };
    tracker.denominator({ m: mask(1, 1) });
    record(1, 2);
    record(100, 100);
    tracker.denominator({ m: mask(0, 1) });
    tracker.denominator({ m: mask(1, 0) });
    record(5, 6);
    expect(await tracker.export()).toEqual({ m: 4, v: 1 + 2 + 5 });
  });

  it('warns once per key, whatever the number of exports', async () => {
    for (let i = 0; i < 3; i++) {
      tracker.denominator({ m: mask(1) });
      for (const key of ['a', 'b', 'a']) {
        tracker.stat({ [key]: values(1) }, { denominator: 'm', reduceType: 'sum' });
      }
      expect(await tracker.export()).toEqual({ a: 1, b: 1, m: 1 });
    }
    expect(warnings.count).toBe(1);
  });
});

describe('a key with another reduce type (D10)', () => {
  it('has the last one for all of its records', async () => {
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(5, 1) }, { denominator: 'm' });
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(4, 2) }, { denominator: 'm', reduceType: 'sum' });
    expect(await tracker.export({ reset: false })).toEqual({ m: 4, v: 12 });
    expect(await tracker.export()).toEqual({ m: 4, v: 12 });
    expect(warnings.of('TENSORTALLY_REDUCE_TYPE')).toHaveLength(1);
  });

  it('gives up the names that it exports no more: another key may have them', async () => {
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(5, 1) }, { denominator: 'm' });
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(4, 2) }, { denominator: 'm', reduceType: 'sum' });
    tracker.scalar({ 'v/avg': 7 });
    expect(warnings.of('TENSORTALLY_NAME_TAKEN')).toEqual([]);
    expect(await tracker.export()).toEqual({ m: 4, v: 12, 'v/avg': 7, 'v/avg__count': 1 });
  });

  it('leaves alone the names that have gone to another key', async () => {
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(5, 1) }, { denominator: 'm' });
    tracker.scalar({ 'v/avg': 7 });
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(4, 2) }, { denominator: 'm', reduceType: 'sum' });
    expect(warnings.of('TENSORTALLY_NAME_TAKEN')).toHaveLength(1);
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ v: values(3, 3) }, { denominator: 'm' });
    expect(warnings.of('TENSORTALLY_NAME_TAKEN')).toEqual([
      expect.stringContaining("'v' and 'v/avg' both export 'v/avg'"),
      expect.stringContaining("'v/avg' and 'v' both export 'v/avg'"),
    ]);
    await tracker.export();
  });

  it('has it also for what an export could not take, and for windows that waited', async () => {
    tracker = new StatsTracker('', { mode: 'parity', windows: ['step', 'epoch'] });
    for (const reduceType of ['max', 'sum'] as const) {
      tracker.denominator({ m: mask(1, 1) });
      tracker.stat({ v: values(5, 1) }, { denominator: 'm', reduceType });
      expect((await tracker.export()).v).toBe(reduceType === 'max' ? 5 : 6);
    }
    expect(await tracker.export({ window: 'epoch' })).toEqual({ m: 4, v: 12 });
  });

  it('is still refused as another kind or under another denominator: those numbers would mean nothing', () => {
    tracker.denominator({ m: mask(1), n: mask(1) });
    tracker.stat({ v: values(5) }, { denominator: 'm' });
    expect(() => {
      tracker.scalar({ v: 1 });
    }).toThrow(KeyConflictError);
    expect(() => {
      tracker.stat({ v: values(5) }, { denominator: 'n' });
    }).toThrow(KeyConflictError);
    expect(() => {
      tracker.denominator({ v: mask(1) });
    }).toThrow(KeyConflictError);
  });
});

describe('two keys that export one name (D18)', () => {
  it('the later key wins', async () => {
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat({ a: values(1, 1) }, { denominator: 'm' });
    tracker.scalar({ 'a/avg': 7 });
    tracker.scalar({ x: 1 });
    tracker.scalar({ x__count: 5 });
    expect(await tracker.export()).toEqual({
      ...{ m: 2, 'a/avg': 7, 'a/avg__count': 1, 'a/min': 1, 'a/max': 1 },
      ...{ x: 1, x__count: 5, x__count__count: 1 },
    });
    expect(warnings.of('TENSORTALLY_NAME_TAKEN')).toHaveLength(2);
  });

  it('of two trackers: the later tracker by name wins', async () => {
    const registry = new TrackerRegistry({ mode: 'parity' });
    registry.get('a/b').scalar({ c: 2 });
    registry.get('a').scalar({ 'b/c': 1 });
    expect(await registry.exportAll()).toEqual({ 'a/b/c': 2, 'a/b/c__count': 1 });
    expect(warnings.of('TENSORTALLY_NAME_TAKEN')).toHaveLength(1);
  });
});

describe('what parity mode refuses all the same', () => {
  it('a denominator of another scope, a shape that does not fit, a mask that is gone', () => {
    tracker.denominator({ m: mask(1) });
    expect(() => {
      tracker.scope('u', () => {
        tracker.stat({ v: values(1) }, { denominator: 'm' });
      });
    }).toThrow(MissingInputError);
    expect(() => {
      tracker.stat({ v: values(1, 2) }, { denominator: 'm' });
    }).toThrow(ShapeError);
    for (let i = 0; i < 2; i++) {
      tracker.stat({ v: values(1) }, { denominator: 'm' });
      tracker.denominator({ m: mask(1) });
    }
    expect(() => {
      tracker.stat({ late: values(1) }, { denominator: 'm' });
    }).toThrow(PairingError);
  });

  it('the same where records add up: no warning', async () => {
    tracker.denominator({ m: mask(1, 0) });
    tracker.stat({ v: values(1, 2) }, { denominator: 'm' });
    tracker.scalar({ a: 1 });
    await tracker.export();
    expect(warnings.count).toBe(0);
  });
});
