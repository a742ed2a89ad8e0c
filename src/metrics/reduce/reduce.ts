/** One number from many of the same metric: over micro-batches, over ranks, or from a list. */
import { Tensor } from '@tensorflow/tfjs-core';
import { assertNamed, assertOptions, kindOf } from '../../arguments.js';
import { DtypeError, ShapeError, ValueError } from '../../errors.js';
import { recognizeAcrossCopies } from '../../process-wide.js';
import { catalogEntryOf } from '../catalog/catalog.js';
import type { Metrics } from '../numbers/statistics.js';
import { type Semantics, assertSemantics } from '../semantics.js';
import { type Aggregation, type MetricState, assertAggregation, assertMetricState } from './metric-state.js';

/** A number, or what `await tensor.data()` gives for a tensor with one element. */
export type MetricValue = number | Float32Array | Int32Array | Uint8Array;

/**
 * The values of one metric, of which it keeps only what the result needs. Metrics of parts (micro-batches, ranks)
 * merge to the metric of the whole.
 *
 * @source verl, utils/metric/utils.py, Metric
 * @example
 *   const loss = new Metric('mean');
 *   loss.append(2.5, 100).append(1.0, 300); // means over 100 and 300 tokens
 *   loss.aggregate(); // 1.375
 */
export class Metric {
  static {
    recognizeAcrossCopies(this, 'metric', 1);
  }

  readonly aggregation: Aggregation;
  #count = 0;
  #weight = 0;
  #sum = 0;
  #min = Infinity;
  #max = -Infinity;
  #halvings = 0;

  /**
   * @param aggregation how the values become one
   * @param value the first one, if there is one already
   * @throws ValueError for an unknown aggregation, and as `append`
   */
  constructor(aggregation: Aggregation, value?: MetricValue | Metric) {
    assertAggregation('Metric', 'aggregation', aggregation);
    this.aggregation = aggregation;
    if (value !== undefined) this.#append('Metric', 'value', value, 1);
  }

  /** Values that were appended, those of merged metrics among them. */
  get count(): number {
    return this.#count;
  }

  /** What to send to another process: `Metric.fromState` goes on from there. */
  get state(): MetricState {
    const { aggregation } = this;
    const [count, weight, sum, min, max] = [this.#count, this.#weight, this.#sum, this.#min, this.#max];
    const halved = this.#halvings > 0 && { halvings: this.#halvings };
    return { aggregation, count, weight, sum, min, max, ...halved };
  }

  /** @throws ValueError for what is no state of a metric, and for numbers that no values can have */
  static fromState(state: MetricState): Metric {
    assertMetricState('Metric.fromState', state);
    const metric = new Metric(state.aggregation);
    metric.#add(state);
    return metric;
  }

  /**
   * Adds a value, or all those of another metric.
   *
   * @param weight for the mean: what the value is a mean of, e.g. tokens. A value of weight 0 counts for nothing,
   *   whatever it is.
   * @throws ValueError for what is not a number, a weight that is invalid or not for a mean, a metric with another
   *   aggregation; ShapeError for several numbers; DtypeError for a tensor, whose number is still on the device
   */
  append(value: MetricValue | Metric, weight = 1): this {
    this.#append('Metric.append', 'value', value, weight);
    return this;
  }

  /**
   * Adds several values, or all those of another metric. Adds none if one of them is refused.
   *
   * @throws as `append`
   */
  extend(values: Iterable<MetricValue | Metric> | Metric): this {
    if (values instanceof Metric) return this.append(values);
    const where = 'Metric.extend';
    if (typeof values !== 'object' || !isIterable(values)) {
      const expected = 'a list of numbers, or a metric';
      const received = kindOf(values);
      throw new ValueError({
        where,
        input: 'values',
        expected,
        received,
        remedy: 'use append for a single one',
      });
    }
    const added = new Metric(this.aggregation);
    let i = 0;
    for (const value of values) added.#append(where, `values[${i++}]`, value, 1);
    this.#add(added.state);
    return this;
  }

  /**
   * The result so far: 0 for the sum of no values, NaN for the others, and where the weights add up to 0. A mean is between
   * the least and the largest value, also where sums of values or of weights would be beyond float64.
   */
  aggregate(): number {
    if (this.aggregation === 'sum') return this.#sumOver(1);
    if (this.#count === 0) return NaN;
    if (this.aggregation === 'mean') return this.#mean();
    return this.aggregation === 'min' ? this.#min : this.#max;
  }

  /**
   * The metric of all values of some metrics.
   *
   * @param metrics one or more with the same aggregation; they stay as they are
   * @throws ValueError for none, what is no metric, or different aggregations
   */
  static merge(metrics: readonly Metric[]): Metric {
    const first = firstOf('Metric.merge', metrics);
    const merged = new Metric(first.aggregation);
    for (const [i, metric] of metrics.entries()) merged.#append('Metric.merge', `metrics[${i}]`, metric, 1);
    return merged;
  }

  /**
   * The result over data-parallel ranks that each have their part of every step: mean, min and max as of all values,
   * but the sum averaged over ranks, so that it does not grow with their number.
   *
   * @param metrics one per rank, one or more with the same aggregation and equally many values
   * @throws ValueError as `merge`; ShapeError for different numbers of values
   * @source verl, utils/metric/utils.py, Metric.aggregate_dp
   */
  static aggregateDp(metrics: readonly Metric[]): number {
    const where = 'Metric.aggregateDp';
    const { count } = firstOf(where, metrics);
    for (const [i, metric] of metrics.entries()) {
      if (!(metric instanceof Metric) || metric.count === count) continue;
      throw new ShapeError({
        where,
        input: `metrics[${i}]`,
        expected: `${count} values, as on rank 0`,
        received: `${metric.count}`,
        remedy: 'use Metric.merge for ranks that saw different numbers of steps',
      });
    }
    const merged = Metric.merge(metrics);
    return merged.aggregation === 'sum' ? merged.#sumOver(metrics.length) : merged.aggregate();
  }

  #append(where: string, input: string, value: unknown, weight: number): void {
    if (value instanceof Metric) {
      if (value.aggregation !== this.aggregation) {
        throw new ValueError({
          where,
          input,
          expected: `a metric with aggregation '${this.aggregation}'`,
          received: `one with '${value.aggregation}'`,
          remedy: 'keep metrics of different aggregations apart',
        });
      }
      this.#add(value.state);
      return;
    }
    const number = numberOf(where, input, value);
    if (typeof weight !== 'number' || !(weight >= 0 && weight < Infinity)) {
      const expected = 'a number of 0 or more';
      const remedy = 'leave it out for 1';
      throw new ValueError({ where, input: 'weight', expected, received: kindOf(weight), remedy });
    }
    if (weight !== 1 && this.aggregation !== 'mean') {
      throw new ValueError({
        where,
        input: 'weight',
        expected: `no weight, because the aggregation is '${this.aggregation}'`,
        received: kindOf(weight),
        remedy: "use 'mean' for weighted values",
      });
    }
    // Halving is exact, and the ratio of both sums does not see it.
    let [part, halvings] = [weight, 0];
    for (; Number.isFinite(number) && !Number.isFinite(part * number); halvings++) part /= 2;
    if (weight === 0) this.#count++;
    else this.#add({ count: 1, weight: part, sum: part * number, min: number, max: number, halvings });
  }

  #add({ count, weight, sum, min, max, halvings = 0 }: Omit<MetricState, 'aggregation'>): void {
    this.#count += count;
    this.#min = Math.min(this.#min, min);
    this.#max = Math.max(this.#max, max);
    const areFinite = Number.isFinite(this.#sum) && Number.isFinite(sum);
    let both = Math.max(halvings, this.#halvings);
    let [ours, theirs] = [2 ** (this.#halvings - both), 2 ** (halvings - both)];
    const isBeyond = (): boolean =>
      this.#weight * ours + weight * theirs === Infinity ||
      (areFinite && !Number.isFinite(this.#sum * ours + sum * theirs));
    if (isBeyond()) {
      both++;
      ours /= 2;
      theirs /= 2;
    }
    this.#weight = this.#weight * ours + weight * theirs;
    this.#sum = this.#sum * ours + sum * theirs;
    this.#halvings = both;
  }

  #mean(): number {
    if (this.#weight === 0) return NaN;
    const mean = this.#sum / this.#weight;
    // Rounding may have left the values, but what is not finite among them shows.
    if (!Number.isFinite(this.#sum) || !(this.#min <= this.#max)) return mean;
    return Math.min(this.#max, Math.max(this.#min, mean));
  }

  /** The sum of all values over `parts`. */
  #sumOver(parts: number): number {
    const share = this.#sum / parts;
    return this.#halvings === 0 || share === 0 ? share : share * 2 ** this.#halvings;
  }
}

function isIterable(value: object | null): value is Iterable<unknown> {
  return value !== null && Symbol.iterator in value;
}

function firstOf(where: string, metrics: readonly Metric[]): Metric {
  const refuse = (input: string, expected: string, received: string): never => {
    throw new ValueError({ where, input, expected, received, remedy: 'pass one metric per part' });
  };
  if (!Array.isArray(metrics) || metrics.length === 0) {
    return refuse(
      'metrics',
      'a list of one metric or more',
      Array.isArray(metrics) ? 'none' : kindOf(metrics),
    );
  }
  for (const [i, metric] of metrics.entries() as ArrayIterator<[number, unknown]>) {
    if (!(metric instanceof Metric)) refuse(`metrics[${i}]`, 'a Metric', kindOf(metric));
  }
  return metrics[0] as Metric;
}

function numberOf(where: string, input: string, value: unknown): number {
  if (typeof value === 'number') return value;
  if (value instanceof Tensor) {
    throw new DtypeError({
      where,
      input,
      expected: 'a number on the host',
      received: 'a tensor',
      remedy: 'pass `await tensor.data()`, or collect the statistics of a step in one read-back',
    });
  }
  if (value instanceof Float32Array || value instanceof Int32Array || value instanceof Uint8Array) {
    if (value.length === 1) return value[0]!;
    throw new ShapeError({
      where,
      input,
      expected: 'one number',
      received: `${value.length}`,
      remedy: 'use extend for several values',
    });
  }
  const remedy = 'convert it to a number first';
  throw new ValueError({ where, input, expected: 'a number', received: kindOf(value), remedy });
}

/** Options of `reduceMetrics`. */
export interface ReduceOptions {
  /** How to reduce the lists under these keys; wins over the catalogue and over names. */
  readonly aggregations?: Readonly<Record<string, Aggregation>> | undefined;
  /** How to reduce the other lists; default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

/**
 * One number per metric.
 *
 * A `Metric` gives its aggregate. A list is reduced as `aggregations` says. Else `recommended` takes the maximum or the
 * minimum where the catalogue says that the key is one ('critic/score/max'), and for keys that the catalogue does not
 * have, and parts of a timed stage, where the last `/` segment says it: `max` or `min` alone or as its first word
 * ('max_reward'), unless the segment ends in mean, avg, ratio or fraction. All other lists are averaged. The presets, as verl does, take an extreme wherever
 * the letters occur, as in 'soft*max*_entropy' and '*min*ibatch_loss'; with both, it is the maximum. A list without
 * values gives NaN, and so does one with a NaN.
 *
 * @param metrics stays as it is
 * @throws ValueError naming the key whose value is no list of numbers, or an unknown aggregation
 * @source verl, utils/metric/utils.py, reduce_metrics
 * @example  reduceMetrics({ loss: [1, 2, 3], 'grad/max': [4, 9], kl: new Metric('sum', 0.5) }); // { loss: 2, 'grad/max': 9, kl: 0.5 }
 */
export function reduceMetrics(
  metrics: Readonly<Record<string, readonly number[] | Metric>>,
  options: ReduceOptions = {},
): Metrics {
  const where = 'reduceMetrics';
  assertNamed(where, 'metrics', metrics, {
    expected: 'a record of lists and metrics',
    remedy: 'pass {} if there are none',
  });
  assertOptions(where, options, { aggregations: 'object', semantics: 'any' });
  const { aggregations = {}, semantics = 'recommended' } = options;
  assertSemantics(where, semantics);
  for (const [key, aggregation] of Object.entries(aggregations)) {
    assertAggregation(where, `options.aggregations.${key}`, aggregation);
  }
  // Not by assignment, which would take `__proto__` for the prototype.
  return Object.fromEntries(
    Object.entries<unknown>(metrics).map(([key, values]) => {
      const declared = Object.hasOwn(aggregations, key) ? aggregations[key] : undefined;
      return [key, reducedValue(key, values, () => declared ?? aggregationOf(key, semantics))];
    }),
  );
}

function reducedValue(key: string, values: unknown, aggregation: () => Aggregation): number {
  const where = 'reduceMetrics';
  if (values instanceof Metric) return values.aggregate();
  if (!Array.isArray(values)) {
    throw new ValueError({
      where,
      input: `metrics.${key}`,
      expected: 'a list of numbers, or a Metric',
      received: kindOf(values),
      remedy: 'wrap a single number in a list',
    });
  }
  const metric = new Metric(aggregation());
  for (const [i, value] of values.entries() as ArrayIterator<[number, unknown]>) {
    metric.append(numberOf(where, `metrics.${key}[${i}]`, value));
  }
  return metric.count === 0 ? NaN : metric.aggregate();
}

function aggregationOf(key: string, semantics: Semantics): Aggregation {
  if (semantics !== 'recommended') return key.includes('max') ? 'max' : key.includes('min') ? 'min' : 'mean';
  const known = catalogEntryOf(key);
  // The parts of a stage are named by whoever timed it, as in 'timing_s/agent_loop/tool_calls/max'.
  if (known && !known.values.stage?.includes('/')) return extremeNamed(known.entry.reduction) ?? 'mean';
  const segment = key.slice(key.lastIndexOf('/') + 1);
  if (/(mean|avg|ratio|fraction)$/.test(segment)) return 'mean';
  return extremeNamed(/^[A-Za-z0-9]*/.exec(segment)![0]) ?? 'mean';
}

function extremeNamed(name: string): 'max' | 'min' | undefined {
  return name === 'max' || name === 'min' ? name : undefined;
}
