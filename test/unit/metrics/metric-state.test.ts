/** The state of a metric from elsewhere: what values can have is taken, and all else refused. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ValueError } from '../../../src/errors.js';
import { Metric, type MetricState, aggregationNames } from '../../../src/metrics/index.js';
import { runsOf } from '../../support/long.js';

/** Two values, 1 and 3. */
const { state } = new Metric('mean').extend([1, 3]);

describe('the state of a metric', () => {
  test('is taken of any values with any weights, merged in any way', () => {
    const extreme = fc.constantFrom(0, -0, 5e-324, 1e-310, 1, 1e308, Number.MAX_VALUE, 1 / 3);
    const weight = fc.oneof(extreme, fc.double({ min: 0, max: Number.MAX_VALUE, noNaN: true }));
    const value = fc.oneof(extreme, fc.double(), fc.constantFrom(NaN, Infinity, -Infinity, -1e308, -1 / 3));
    const parts = fc.array(fc.array(fc.tuple(value, weight), { maxLength: 8 }), {
      minLength: 1,
      maxLength: 4,
    });
    fc.assert(
      fc.property(parts, (all) => {
        const metrics = all.map((pairs) => {
          const metric = new Metric('mean');
          for (const [x, w] of pairs) metric.append(x, w);
          return metric;
        });
        for (const metric of [...metrics, Metric.merge(metrics)]) {
          expect(Metric.fromState(structuredClone(metric.state)).state).toEqual(metric.state);
        }
      }),
      { numRuns: runsOf(2000) },
    );
  });

  test('is taken of many values whose sum is rounded a thousand times', () => {
    for (const aggregation of aggregationNames) {
      const metric = new Metric(aggregation).extend(Array<number>(10_000).fill(0.1));
      expect(Metric.fromState(metric.state).aggregate()).toBe(metric.aggregate());
    }
  });

  test.each<[what: string, change: Partial<MetricState>, input: string]>([
    ['a minimum above the maximum', { min: 4 }, 'max'],
    ['a sum above count times the maximum', { sum: 6.0001 }, 'sum'],
    ['a sum below count times the minimum', { sum: 1.9999 }, 'sum'],
    ['an infinite sum of finite values', { sum: Infinity }, 'sum'],
    ['a sum that is NaN of finite values', { sum: NaN }, 'sum'],
    ['a finite sum of an infinite value', { max: Infinity }, 'sum'],
    ['a sum without the sign of its infinite value', { min: -Infinity, sum: Infinity }, 'sum'],
    ['an infinite sum of both infinities', { min: -Infinity, max: Infinity, sum: Infinity }, 'sum'],
    ['a minimum that alone is NaN', { min: NaN }, 'max'],
    ['extremes that are NaN beside a sum', { min: NaN, max: NaN }, 'sum'],
    ['a weight below 0', { weight: -2 }, 'weight'],
    ['a weight that is NaN', { weight: NaN }, 'weight'],
    ['an infinite weight', { weight: Infinity }, 'weight'],
    ['half a value', { count: 1.5 }, 'count'],
    ['fewer values than none', { count: -1 }, 'count'],
    ['a weight of no values', { count: 0 }, 'weight'],
    ['extremes without a weight', { weight: 0, sum: 0 }, 'min'],
    ['a sum without a weight', { weight: 0, min: Infinity, max: -Infinity }, 'sum'],
  ])('is refused with %s', (_, change, input) => {
    const taken = (): Metric => Metric.fromState({ ...state, ...change });
    expect(taken).toThrow(ValueError);
    expect(taken).toThrow(`state.${input}`);
  });
});
