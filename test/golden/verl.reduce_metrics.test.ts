/** Golden reductions: lists by name and by declaration, metric objects, ranks and weights. */
import { describe, expect, test } from 'vitest';

import { ShapeError, TensortallyError, ValueError } from '../../src/errors.js';
import { type Aggregation, Metric, aggregationNames, reduceMetrics } from '../../src/metrics/index.js';
import { type GoldenCase, isRefusal, loadGolden, referenceOf, toleranceOf } from '../support/golden.js';

const { cases } = loadGolden('verl.reduce_metrics');
const ofOp = (...ops: string[]): GoldenCase[] =>
  cases.filter(({ options }) => ops.includes(options.op as string));

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(35);
  expect(ofOp('reduce_metrics', 'metric', 'aggregate_dp', 'chain', 'weighted_mean')).toHaveLength(35);
});

describe('golden reduceMetrics', () => {
  const lists = ({ inputs }: GoldenCase) => inputs.metrics as Record<string, number[]>;

  test.each(ofOp('reduce_metrics'))('$id: recommended', (golden) => {
    const reference = referenceOf(golden, 'recommended', 'verl') as Record<string, number>;
    const aggregations = golden.options.declared as Record<string, Aggregation> | undefined;
    const declared = reduceMetrics(lists(golden), { aggregations });
    const undeclared = reduceMetrics(lists(golden));
    for (const reduced of [declared, undeclared]) {
      expect(Object.keys(reduced)).toEqual(Object.keys(lists(golden)));
      for (const [key, value] of Object.entries(reference)) {
        expect(reduced[key], key).toBeCloseToReference(value, toleranceOf(golden, key));
      }
    }
  });

  test.each(ofOp('reduce_metrics'))('$id: verl', (golden) => {
    const reference = referenceOf(golden, 'verl')!;
    for (const semantics of ['verl-2026-01', 'verl-2026-08'] as const) {
      const reduced = reduceMetrics(lists(golden), { semantics });
      if (isRefusal(reference)) {
        // Where verl raises, the value is undefined.
        expect(Object.values(reduced)).toEqual([NaN]);
        continue;
      }
      for (const [key, value] of Object.entries(reference)) {
        expect(reduced[key], key).toBeCloseToReference(value, toleranceOf(golden, key));
      }
    }
  });
});

interface Recipe {
  readonly aggregation: Aggregation;
  readonly value?: number;
  readonly steps?: readonly Step[];
}

interface Step {
  readonly append?: number;
  /** What its data would be on the host. */
  readonly appendTensor?: number | number[];
  readonly appendMetric?: Recipe;
  readonly extend?: number[];
  readonly extendMetric?: Recipe;
}

/** @param as another aggregation than the recipe's, to look at the same values from another side */
function made({ aggregation, value, steps = [] }: Recipe, as: Aggregation = aggregation): Metric {
  const metric = new Metric(as, value);
  const swapped = (recipe: Recipe): Metric =>
    made(recipe, recipe.aggregation === aggregation ? as : recipe.aggregation);
  for (const { append, appendTensor, appendMetric, extend, extendMetric } of steps) {
    if (append !== undefined) metric.append(append);
    if (appendTensor !== undefined) metric.append(Float32Array.from([appendTensor].flat()));
    if (appendMetric !== undefined) metric.append(swapped(appendMetric));
    if (extend !== undefined) metric.extend(extend);
    if (extendMetric !== undefined) metric.extend(swapped(extendMetric));
  }
  return metric;
}

const METRIC_OF: Readonly<Record<Aggregation, (values: readonly number[]) => number>> = {
  mean: (values) => values.reduce((sum, x) => sum + x, 0) / values.length,
  sum: (values) => values.reduce((sum, x) => sum + x, 0),
  min: (values) => (values.length === 0 ? NaN : Math.min(...values)),
  max: (values) => (values.length === 0 ? NaN : Math.max(...values)),
};

describe('golden Metric', () => {
  const recipe = ({ inputs }: GoldenCase) => inputs.metric as Recipe;

  test.each(ofOp('metric').filter(({ expectedError }) => expectedError === undefined))('$id', (golden) => {
    const { values, aggregate } = referenceOf(golden, 'verl') as { values: number[]; aggregate?: number };
    const metric = made(recipe(golden));
    expect(metric.count).toBe(values.length);
    if (aggregate !== undefined) expect(metric.aggregate()).toBeCloseToReference(aggregate, golden.tolerance);
    // The values themselves are not kept, so they are seen through every aggregation.
    for (const name of aggregationNames) {
      const seen = made(recipe(golden), name).aggregate();
      expect(seen, name).toBeCloseToReference(METRIC_OF[name](values), golden.tolerance);
    }
  });

  test.each(ofOp('metric').filter(({ expectedError }) => expectedError !== undefined))('$id', (golden) => {
    const Refusal = golden.expectedError!.kind === 'not_scalar' ? ShapeError : ValueError;
    expect(() => made(recipe(golden))).toThrow(Refusal);
  });
});

describe('golden metrics of ranks', () => {
  const ranks = ({ inputs, options }: GoldenCase): Metric[] =>
    (inputs.ranks as number[][]).map((values) =>
      new Metric(options.aggregation as Aggregation).extend(values),
    );
  const value = (golden: GoldenCase, reference: string): number =>
    (referenceOf(golden, reference) as { value: number }).value;

  test.each(ofOp('aggregate_dp').filter(({ expectedError }) => expectedError === undefined))(
    '$id',
    (golden) => {
      const expected = value(golden, 'verl-2026-08');
      expect(Metric.aggregateDp(ranks(golden))).toBeCloseToReference(expected, golden.tolerance);
    },
  );

  test.each(ofOp('aggregate_dp').filter(({ expectedError }) => expectedError !== undefined))(
    '$id',
    (golden) => {
      expect(() => Metric.aggregateDp(ranks(golden))).toThrow(TensortallyError);
    },
  );

  test.each(ofOp('chain'))('$id', (golden) => {
    const expected = value(golden, 'verl-2026-01');
    expect(Metric.merge(ranks(golden)).aggregate()).toBeCloseToReference(expected, golden.tolerance);
  });
});

describe('golden weighted means', () => {
  test.each(ofOp('weighted_mean'))('$id', (golden) => {
    const metric = new Metric('mean');
    const items = golden.inputs.items as { value: number; weight: number }[];
    for (const { value, weight } of items) metric.append(value, weight);
    const { value } = referenceOf(golden, 'float64') as { value: number };
    expect(metric.aggregate()).toBeCloseToReference(value, golden.tolerance);
  });
});
