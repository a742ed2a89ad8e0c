/** Reductions: the bugs that logged metrics have had elsewhere, and the laws of merging. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { DtypeError, ShapeError, ValueError } from '../../../src/errors.js';
import { Metric, type MetricState, aggregationNames, reduceMetrics } from '../../../src/metrics/index.js';
import { initBackend } from '../../../src/kernels/index.js';

const aggregation = fc.constantFrom(...aggregationNames);
// Multiples of 1/8 below 2^20: sums of them are exact, so merging has to be, too.
const value = fc.integer({ min: -(2 ** 23), max: 2 ** 23 }).map((x) => x / 8);

describe('a metric of parts', () => {
  test('is that of the whole, however it is split, in any order', () => {
    fc.assert(
      fc.property(aggregation, fc.array(fc.array(value)), (name, parts) => {
        const whole = new Metric(name).extend(parts.flat());
        const metrics = parts.map((part) => new Metric(name).extend(part));
        const merged = Metric.merge([new Metric(name), ...metrics]);
        expect(merged.aggregate()).toBe(whole.aggregate());
        expect(merged.state).toEqual(whole.state);
        expect(Metric.merge([...metrics.toReversed(), new Metric(name)]).state).toEqual(whole.state);
      }),
    );
  });

  test('goes on from its state on another rank, structured clone included', () => {
    fc.assert(
      fc.property(aggregation, fc.array(value), fc.array(value), (name, here, there) => {
        const sent = structuredClone(new Metric(name).extend(here).state);
        const gone = Metric.fromState(sent).extend(there);
        expect(gone.state).toEqual(new Metric(name).extend([...here, ...there]).state);
      }),
    );
  });

  test('leaves the parts as they are', () => {
    const parts = [new Metric('sum', 1), new Metric('sum', 2)];
    Metric.merge(parts).append(10);
    expect(parts.map((part) => part.aggregate())).toEqual([1, 2]);
  });

  test('takes itself as it was', () => {
    const metric = new Metric('sum').extend([1, 2]);
    expect(metric.append(metric).aggregate()).toBe(6);
    expect(metric.count).toBe(4);
  });
});

describe('sums beyond float64 on the way to a result that is not', () => {
  const LARGEST = Number.MAX_VALUE;

  test.each([
    ['equal values', [1.7e308, 1.7e308], 1.7e308],
    ['negative ones', [-1.7e308, -1.7e308, -1.7e308], -1.7e308],
    ['both signs', [1e308, 1e308, -1e308], 1e308 / 3],
    ['both signs, in another order', [1e308, -1e308, 1e308], 1e308 / 3],
    ['the largest number', [LARGEST, LARGEST, LARGEST], LARGEST],
    ['many', Array<number>(1000).fill(1e308), 1e308],
    ['one small beside them', [1.5e308, 1.5e308, 3], 1e308],
  ])('have the mean of %s', (_, values, expected) => {
    expect(reduceMetrics({ a: values }).a! / expected).toBeCloseTo(1, 14);
    const parts = values.map((x) => Metric.fromState(JSON.parse(stateOf(x)) as MetricState));
    expect(Metric.merge(parts).aggregate() / expected).toBeCloseTo(1, 14);
  });

  const stateOf = (x: number): string => JSON.stringify(new Metric('mean', x).state);

  test('have a weighted mean', () => {
    expect(new Metric('mean').append(1e308, 10).append(1e308, 10).aggregate()).toBe(1e308);
    expect(new Metric('mean').append(1, 1e308).append(3, 1e308).aggregate()).toBe(2);
    expect(new Metric('mean').append(LARGEST, LARGEST).append(LARGEST, 1).aggregate()).toBe(LARGEST);
    expect(new Metric('mean').append(1e308, 1e308).append(-1e308, 1e308).append(5, 1).aggregate()).toBe(
      2.5e-308,
    );
    expect(new Metric('mean').append(1, 1e308).append(3, 1e308).append(2, 1e308).aggregate()).toBe(2);
  });

  test('have a state that travels as JSON and goes on', () => {
    const metric = new Metric('mean').append(1e308, 10).append(1, 1e308).append(3, 1e308);
    const sent = JSON.parse(JSON.stringify(metric.state)) as MetricState;
    expect(Metric.fromState(sent).state).toEqual(metric.state);
    expect(structuredClone(metric.state)).toEqual(metric.state);
    const more = new Metric('mean').append(1e308, 10);
    expect(Metric.fromState(sent).append(more).aggregate()).toBe(metric.append(more).aggregate());
  });

  test('come back to a sum, also over ranks', () => {
    expect(new Metric('sum').extend([1e308, 1e308, -1e308]).aggregate()).toBe(1e308);
    expect(new Metric('sum').extend([1e308, 1e308]).aggregate()).toBe(Infinity);
    expect(Metric.aggregateDp([new Metric('sum', 1.7e308), new Metric('sum', 1.7e308)])).toBe(1.7e308);
  });

  test('are not made of infinities that were given', () => {
    expect(reduceMetrics({ a: [Infinity, 1e308, 1e308] }).a).toBe(Infinity);
    expect(new Metric('mean').append(-Infinity, 1e308).append(1, 1e308).aggregate()).toBe(-Infinity);
    expect(reduceMetrics({ a: [Infinity, -Infinity] }).a).toBeNaN();
    expect(reduceMetrics({ a: [NaN, 1e308, 1e308] }).a).toBeNaN();
  });
});

test('a mean of equal values is that value', () => {
  expect(reduceMetrics({ a: [0.1, 0.1, 0.1] }).a).toBe(0.1);
});

describe('bugs of others', () => {
  test('a loss does not shrink or grow with the number of micro-batches', () => {
    const losses = [1, 2, 3, 4, 5, 6, 7, 8];
    const logged = [1, 2, 4, 8].map((parts) => {
      const metric = new Metric('mean');
      for (let at = 0; at < 8; at += 8 / parts) {
        const micro = losses.slice(at, at + 8 / parts);
        metric.append(micro.reduce((sum, x) => sum + x, 0) / micro.length, micro.length);
      }
      return metric.aggregate();
    });
    expect(logged).toEqual([4.5, 4.5, 4.5, 4.5]);
  });

  test('uneven micro-batches are weighted: (3/12, 3/4) is 6/16, not 1/2', () => {
    expect(
      new Metric('mean')
        .append(3 / 12, 12)
        .append(3 / 4, 4)
        .aggregate(),
    ).toBe(6 / 16);
  });

  test('an empty micro-batch adds nothing, even where its mean is undefined', () => {
    expect(new Metric('mean').append(2, 4).append(NaN, 0).append(0, 0).aggregate()).toBe(2);
    expect(new Metric('mean').append(NaN, 0).aggregate()).toBe(NaN);
  });

  test('means over ranks pool their values: 3 and not 2.5', () => {
    const ranks = [new Metric('mean').extend([1]), new Metric('mean').extend([3, 5])];
    expect(Metric.merge(ranks).aggregate()).toBe(3);
  });

  test('a sum over data-parallel ranks does not grow with their number', () => {
    const rank = (): Metric => new Metric('sum').extend([1, 2, 3]);
    expect(Metric.aggregateDp([rank()])).toBe(6);
    expect(Metric.aggregateDp([rank(), rank(), rank(), rank()])).toBe(6);
  });

  test('extremes over ranks are extremes, not means of them', () => {
    const ranks = (name: 'min' | 'max'): Metric[] => [
      new Metric(name).extend([1, 9]),
      new Metric(name).extend([4, 6]),
    ];
    expect(Metric.aggregateDp(ranks('min'))).toBe(1);
    expect(Metric.aggregateDp(ranks('max'))).toBe(9);
  });

  test('the last micro-batch is not all that is seen', () => {
    const metric = new Metric('mean');
    for (const kl of [4, 2, 0]) metric.append(kl);
    expect(metric.aggregate()).toBe(2);
  });

  test('a metric does not keep its values', () => {
    const metric = new Metric('mean');
    const size = JSON.stringify(metric.append(1).state).length;
    for (let i = 0; i < 10_000; i++) metric.append(1);
    expect(JSON.stringify(metric.state).length).toBeLessThan(size + 20);
  });

  test('NaN is seen in every aggregation', () => {
    for (const name of aggregationNames) {
      expect(new Metric(name).extend([1, NaN, 2]).aggregate(), name).toBe(NaN);
      expect(Metric.merge([new Metric(name, NaN), new Metric(name, 1)]).aggregate(), name).toBe(NaN);
    }
  });

  test.each([
    ['critic/score/max', 3],
    ['critic/score/min', 1],
    ['response_length/max', 3],
    ['rollout_corr/rollout_is_seq_max_deviation', 3],
    ['rollout_corr/rollout_is_min', 1],
    ['rollout_corr/rollout_rs_seq_max_k2_mean', 2],
    ['global_seqlen/minmax_diff', 2],
    ['timing_s/max_wait', 2],
    ['timing_s/agent_loop', 2],
    ['val-core/max/acc/best@8/mean', 2],
  ])('the catalogue says how %s is reduced', (key, expected) => {
    expect(reduceMetrics({ [key]: [1, 3] })).toEqual({ [key]: expected });
  });

  test.each([
    ['max', 3],
    ['min', 1],
    ['max_reward', 3],
    ['min-error', 1],
    ['env/max_steps', 3],
    ['env/score/min', 1],
    ['env/max_steps/mean', 2],
    ['env/max_steps_mean', 2],
    ['env/max_reward_avg', 2],
    ['env/min_clip_ratio', 2],
    ['env/max_fraction', 2],
    ['max/loss', 2],
    ['actor/minibatch_loss', 2],
    ['softmax_entropy', 2],
    ['terminal_reward', 2],
    ['maximum', 2],
    ['reward-max', 2],
    ['critic.score.min', 2],
    ['len@min', 2],
    ['timing_s/agent_loop/tool_calls/max', 3],
    ['timing_s/agent_loop/num_preempted/min', 1],
    ['timing_s/agent_loop/generate_sequences/mean', 2],
    ['perf/mfu/actor/max', 3],
  ])('the last segment of another key says how %s is reduced', (key, expected) => {
    expect(reduceMetrics({ [key]: [1, 3] })).toEqual({ [key]: expected });
  });

  test('means of micro-batches are not reduced to their extreme', () => {
    const key = 'rollout_corr/rollout_rs_seq_max_k2_mean';
    expect(reduceMetrics({ [key]: [0.0125, 0.3625] })[key]).toBeCloseTo(0.1875, 15);
    expect(reduceMetrics({ 'env/max_steps/mean': [1, 3] })).toEqual({ 'env/max_steps/mean': 2 });
  });

  test('no name of a key is lost', () => {
    const metrics = JSON.parse('{ "__proto__": [1, 3], "constructor": [2], "max": [1, 3] }') as Record<
      string,
      number[]
    >;
    expect(Object.entries(reduceMetrics(metrics))).toEqual([
      ['__proto__', 2],
      ['constructor', 2],
      ['max', 3],
    ]);
  });

  test('nothing to reduce is NaN under any name, whatever is declared', () => {
    expect(reduceMetrics({ max_x: [], min_x: [], x: [], y: [] }, { aggregations: { y: 'sum' } })).toEqual({
      max_x: NaN,
      min_x: NaN,
      x: NaN,
      y: NaN,
    });
  });

  test('the argument is not changed', () => {
    const loss: readonly number[] = Object.freeze([1, 2]);
    const given = Object.freeze({ loss, kl: new Metric('mean', 3) });
    expect(reduceMetrics(given)).toEqual({ loss: 1.5, kl: 3 });
    expect(given.kl).toBeInstanceOf(Metric);
  });
});

describe('a declared aggregation', () => {
  test('wins over the name and over the preset', () => {
    const metrics = { max_x: [1, 3] };
    expect(reduceMetrics(metrics, { aggregations: { max_x: 'sum' } })).toEqual({ max_x: 4 });
    const options = { aggregations: { max_x: 'min' }, semantics: 'verl-2026-08' } as const;
    expect(reduceMetrics(metrics, options)).toEqual({ max_x: 1 });
  });

  test('is for its own key, not for what every object has', () => {
    expect(reduceMetrics({ toString: [1, 3] })).toEqual({ toString: 2 });
  });
});

describe('no values', () => {
  test('sum to 0 and have no mean, minimum or maximum', () => {
    const found = aggregationNames.map((name) => new Metric(name).aggregate());
    expect(found).toEqual([NaN, 0, NaN, NaN]);
  });
});

describe('refusals', () => {
  test('of a tensor say how to read it', async () => {
    await initBackend('cpu');
    const tensor = tf.scalar(1);
    expect(() => new Metric('mean').append(tensor as never)).toThrow(DtypeError);
    expect(() => new Metric('mean').append(tensor as never)).toThrow('await tensor.data()');
    expect(new Metric('mean').append(await tensor.data<'float32'>()).aggregate()).toBe(1);
    tensor.dispose();
  });

  test('leave the metric as it was', () => {
    const metric = new Metric('sum', 1);
    expect(() => metric.extend([2, 'x' as never])).toThrow(ValueError);
    expect(() => metric.append(5, 2)).toThrow(ValueError);
    expect(() => metric.append(Float32Array.of(1, 2))).toThrow(ShapeError);
    expect(metric.state).toEqual(new Metric('sum', 1).state);
  });

  test.each([
    ['an unknown aggregation', () => new Metric('median' as never), 'aggregation'],
    ['a negative weight', () => new Metric('mean').append(1, -1), 'weight'],
    ['another aggregation', () => new Metric('mean').append(new Metric('sum')), "'sum'"],
    ['metrics that do not fit', () => Metric.merge([new Metric('mean'), new Metric('max')]), 'metrics[1]'],
    ['no metrics', () => Metric.aggregateDp([]), 'metrics'],
    ['a list of text', () => reduceMetrics({ x: ['1'] as never }), 'metrics.x[0]'],
    ['a number for a list', () => reduceMetrics({ x: 1 as never }), 'metrics.x'],
    [
      'an unknown declaration',
      () => reduceMetrics({}, { aggregations: { x: 'avg' as never } }),
      'aggregations.x',
    ],
    [
      'a state halved by nothing',
      () => Metric.fromState({ ...new Metric('sum', 1).state, halvings: 0.5 }),
      'state.halvings',
    ],
    ['a state without its numbers', () => Metric.fromState({ aggregation: 'mean' } as never), 'state.count'],
  ])('%s', (_, call, input) => {
    expect(call).toThrow(ValueError);
    expect(call).toThrow(input);
  });
});

describe('the state of a metric that no values can have is refused', () => {
  // Of 1 and 2.
  const mean = new Metric('mean').append(1).append(2).state;
  const sum = new Metric('sum').extend([1, 2]).state;

  test.each([
    ['fewer than no values', { ...mean, count: -1 }, 'count'],
    ['half a value', { ...mean, count: 1.5 }, 'count'],
    ['a count that is NaN', { ...mean, count: NaN }, 'count'],
    ['more values than can be counted', { ...mean, count: 2 ** 60 }, 'count'],
    ['a negative weight', { ...mean, weight: -1 }, 'weight'],
    ['a weight that is NaN', { ...mean, weight: NaN }, 'weight'],
    ['a weight without end', { ...mean, weight: Infinity }, 'weight'],
    ['a weight of no values', { ...mean, count: 0 }, 'weight'],
    ['weights where there are none', { ...sum, weight: 5 }, 'weight'],
    ['a sum above all values', { ...mean, sum: 4.1 }, 'sum'],
    ['a sum below all values', { ...mean, sum: 1.9 }, 'sum'],
    ['a sum of 1e9', { ...sum, sum: 1e9 }, 'sum'],
    ['a sum that is NaN alone', { ...mean, sum: NaN }, 'sum'],
    ['an infinite sum of finite values', { ...mean, sum: Infinity }, 'sum'],
    ['a finite sum beside an infinite value', { ...mean, max: Infinity }, 'sum'],
    ['a sum without NaN beside NaN', { ...mean, min: NaN, max: NaN }, 'sum'],
    ['a smallest value above the largest', { ...mean, min: 5 }, 'max'],
    ['a range of no weight', { ...mean, weight: 0 }, 'min'],
    ['a sum of no values', { ...new Metric('sum').state, sum: 1 }, 'sum'],
  ])('%s', (_, state, field) => {
    expect(() => Metric.fromState(state)).toThrow(ValueError);
    expect(() => Metric.fromState(state)).toThrow(`Metric.fromState: state.${field}: expected `);
  });

  test('and one that values have is taken, whatever they are', () => {
    const numbers = fc.array(fc.tuple(fc.double(), fc.double({ min: 0, max: 1e308, noNaN: true })));
    fc.assert(
      fc.property(numbers, (pairs) => {
        const metric = new Metric('mean');
        for (const [value, weight] of pairs) metric.append(value, weight);
        expect(Metric.fromState(metric.state).state).toEqual(metric.state);
      }),
    );
  });
});
