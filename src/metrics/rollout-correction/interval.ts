/**
 * Criteria on tokens as intervals of the log ratio x.
 *
 * All three estimators are monotone on either side of x = 0, so that what a threshold keeps is an interval of x, and
 * what several keep is one too. An interval is compared with x itself, which has been rounded once; near 0 a float32
 * computation of k3 would have no digit left to compare.
 */
import {
  type Expression,
  constant,
  equal,
  greaterEqual,
  lessEqual,
  multiply,
} from '../../kernels/expression.js';
import type { Semantics } from '../semantics.js';
import type { Estimator, Rejection } from './options.js';
import { LOG_RATIO_LIMIT, logRatio } from './rows.js';

/** Log ratios from `low` to `high`, which may be infinite; nothing if `low` exceeds `high`. A NaN is in no interval. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

const NOTHING: Interval = { low: Infinity, high: -Infinity };

/** What a criterion on tokens keeps; under the verl presets its estimators are of x clamped to ±20. */
export function keptBy({ estimator, lower, upper }: Rejection, semantics: Semantics): Interval {
  const isRecommended = semantics === 'recommended';
  const kept = keptOf(estimator, lower, upper, isRecommended ? -upper - 2 : -LOG_RATIO_LIMIT);
  if (!isRecommended) return ofHeld(kept);
  // k3 alone is cut, above 20.
  return estimator === 'k3' && kept.high >= LOG_RATIO_LIMIT ? { low: kept.low, high: Infinity } : kept;
}

/** @param least a log ratio whose k3 exceeds `upper`, or the least that there is */
function keptOf(estimator: Estimator, lower: number, upper: number, least: number): Interval {
  switch (estimator) {
    case 'k1':
      return { low: -upper, high: -lower };
    case 'k2':
      return { low: -Math.sqrt(2 * upper), high: Math.sqrt(2 * upper) };
    case 'k3':
      return { low: k3Root(upper, least), high: k3Root(upper, LOG_RATIO_LIMIT) };
  }
}

/** Tokens whose weight is from `lower` to `upper`. */
export function insideRange(lower: number, upper: number): Interval {
  return ofHeld({ low: Math.log(lower), high: Math.log(upper) });
}

/** What all of them keep; undefined for none. */
export function intersection(intervals: readonly Interval[]): Interval | undefined {
  if (intervals.length === 0) return undefined;
  return intervals.reduce((kept, { low, high }) => ({
    low: Math.max(kept.low, low),
    high: Math.min(kept.high, high),
  }));
}

/** 1 for tokens in the interval, else 0. */
export function isIn({ low, high }: Interval): Expression {
  if (low > high) return constant(0);
  const ends = [
    ...(low > -Infinity ? [greaterEqual(logRatio, low)] : []),
    ...(high < Infinity ? [lessEqual(logRatio, high)] : []),
  ];
  const [first, second] = ends;
  if (first === undefined) return equal(logRatio, logRatio);
  return second === undefined ? first : multiply(first, second);
}

/** The interval of x whose held values are in the given one: what lies beyond ±20 is held to be ±20. */
function ofHeld({ low, high }: Interval): Interval {
  if (low > LOG_RATIO_LIMIT || high < -LOG_RATIO_LIMIT) return NOTHING;
  return {
    low: low <= -LOG_RATIO_LIMIT ? -Infinity : low,
    high: high >= LOG_RATIO_LIMIT ? Infinity : high,
  };
}

/** The x between 0 and `end` with k3(x) = `value`, or `end` if there is none, by bisection to the last bit. */
function k3Root(value: number, end: number): number {
  if (k3(end) <= value) return end;
  let [inside, outside] = [0, end];
  for (;;) {
    const middle = (inside + outside) / 2;
    if (middle === inside || middle === outside) return inside;
    if (k3(middle) <= value) inside = middle;
    else outside = middle;
  }
}

/** eˣ − 1 − x, by its series where the difference would cancel. */
function k3(x: number): number {
  if (Math.abs(x) > 1e-3) return Math.expm1(x) - x;
  return ((x * x) / 2) * (1 + (x / 3) * (1 + (x / 4) * (1 + x / 5)));
}
