/** Stats of reduce type `histogram`: quantiles beside mean and extremes, through windows, merges and rules. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';

import { KeyConflictError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, type TrackerOptions } from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';

beforeAll(async () => {
  await initBackend('cpu');
});

const HISTOGRAM = { denominator: 'm', reduceType: 'histogram' } as const;

function recorded(tracker: StatsTracker, ...numbers: number[]): void {
  tf.tidy(() => {
    tracker.denominator({ m: tf.ones([numbers.length], 'bool') });
    tracker.stat({ x: values(...numbers) }, HISTOGRAM);
  });
}

const numbersTo = (last: number): number[] => Array.from({ length: last }, (_, i) => i + 1);

describe('a histogram stat', () => {
  it('exports the median and high quantiles of what its masks selected', async () => {
    const tracker = new StatsTracker();
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 1, 1, 0) });
      tracker.stat({ x: values(1, 2, 4, 999) }, HISTOGRAM);
    });
    const { 'x/p90': p90, 'x/p99': p99, ...others } = await tracker.export();
    expect(others).toEqual({ m: 3, 'x/avg': 7 / 3, 'x/min': 1, 'x/max': 4, 'x/p50': 2 });
    expect(p90).toBeCloseTo(3.6, 10);
    expect(p99).toBeCloseTo(3.96, 10);
  });

  it('pools micro-batches: no mean of quantiles', async () => {
    const tracker = new StatsTracker();
    recorded(tracker, ...numbersTo(100).slice(0, 7));
    recorded(tracker, ...numbersTo(100).slice(7));
    const { 'x/p50': p50, 'x/p99': p99 } = await tracker.export();
    expect(p50).toBe(50.5);
    expect(p99).toBeCloseTo(99.01, 10);
  });

  it('is absent when nothing was selected', async () => {
    const tracker = new StatsTracker();
    tf.tidy(() => {
      tracker.denominator({ m: mask(0, 0) });
      tracker.stat({ x: values(1, 2) }, HISTOGRAM);
    });
    expect(await tracker.export()).toEqual({ m: 0 });
  });

  it('lets NaN show, or leaves it out where the rule says so', async () => {
    const medianUnder = async (options: TrackerOptions): Promise<number | undefined> => {
      const tracker = new StatsTracker('', options);
      recorded(tracker, 1, NaN, 3);
      return (await tracker.export())['x/p50'];
    };
    expect(await medianUnder({})).toBeNaN();
    expect(await medianUnder({ nonFinite: 'ignore' })).toBe(2);
  });

  it('accumulates for every window', async () => {
    const tracker = new StatsTracker('', { windows: ['step', 'epoch'] });
    recorded(tracker, 1, 1, 1);
    expect((await tracker.export())['x/p50']).toBe(1);
    recorded(tracker, 5, 5, 5, 5);
    expect((await tracker.export())['x/p50']).toBe(5);
    expect(await tracker.export({ window: 'epoch' })).toMatchObject({ m: 7, 'x/p50': 5, 'x/min': 1 });
  });

  it('is no other stat, in parity mode neither', () => {
    for (const mode of ['strict', 'parity'] as const) {
      const tracker = new StatsTracker('', { mode });
      recorded(tracker, 1);
      tf.tidy(() => {
        tracker.denominator({ m: mask(1) });
        expect(() => {
          tracker.stat({ x: values(1) }, { denominator: 'm', reduceType: 'avg' });
        }).toThrow(KeyConflictError);
      });
    }
  });

  it('shares a call with other reduce types', async () => {
    const tracker = new StatsTracker();
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 1) });
      const reduceType = { x: 'histogram', y: 'sum' } as const;
      tracker.stat({ x: values(1, 3), y: values(1, 3), z: values(1, 3) }, { denominator: 'm', reduceType });
    });
    expect(await tracker.export()).toMatchObject({ 'x/p50': 2, y: 4, 'z/avg': 2 });
  });
});

it('beside stats that are called like what every object has', async () => {
  const tracker = new StatsTracker();
  tf.tidy(() => {
    const x = values(1, 3);
    const named = { constructor: x, toString: x, valueOf: x, hasOwnProperty: x, h: x } as never;
    tracker.denominator({ m: mask(1, 1) });
    tracker.stat(named, { denominator: 'm', reduceType: { h: 'histogram' } });
  });
  expect(await tracker.export()).toMatchObject({ 'constructor/avg': 2, 'toString/max': 3, 'h/p50': 2 });
});

describe('rows', () => {
  it('take what is recorded and carry what merges', async () => {
    const tracker = new StatsTracker('w');
    recorded(tracker, 1, 2, 6);
    tracker.scalar({ a: 2 });
    tracker.counter({ c: 3 });
    const rows = await tracker.rows();
    expect(rows.map(({ key, reduction, row }) => [key, reduction, row.count, row.max])).toEqual([
      ['w/a', 'scalar', 1, 2],
      ['w/c', 'counter', 1, 3],
      ['w/m', 'denominator', 3, 6],
      ['w/x', 'avg_min_max', 3, 6],
    ]);
    expect(await tracker.rows()).toEqual([]);
  });

  it('are refused for a number of which the latest counts, and nothing is lost', async () => {
    const tracker = new StatsTracker();
    tracker.scalar({ lr: 2 }, { reduceType: 'last' });
    await expect(tracker.rows()).rejects.toThrow("'lr'".replaceAll("'", ''));
    expect(await tracker.export()).toEqual({ lr: 2 });
  });

  it('keep the rules of their keys: refused under error, without what ignore leaves out', async () => {
    const strict = new StatsTracker('', { nonFinite: 'error' });
    strict.scalar({ a: 1 });
    strict.scalar({ a: NaN });
    await expect(strict.rows()).rejects.toThrow('finite elements');
    expect(await strict.export({ nonFinite: 'ignore' })).toMatchObject({ a: 1, 'a/nonfinite': 1 });

    const lenient = new StatsTracker('', { nonFinite: 'ignore' });
    lenient.scalar({ a: 1 });
    lenient.scalar({ a: NaN });
    expect(await lenient.rows()).toMatchObject([{ key: 'a', row: { count: 1, nan: 0, sum: 1 } }]);
  });
});
