/**
 * What is accumulated under a key: the moments of its finite elements, how many were not finite and, for keys that
 * export quantiles, a histogram.
 *
 * The two are apart because elements have weights: a sum of all weights, from which those of NaN are subtracted again,
 * would lose the small ones beside a large one.
 */
import { Histogram } from './histogram.js';
import { type MomentsRow, emptyRow, liftRow, mergeRows, repeatRow } from './row.js';

/** Elements that are not finite. */
export interface NonFiniteElements {
  /** Each counts as one, whatever its weight. */
  readonly nan: number;
  readonly posInf: number;
  readonly negInf: number;
  /** Sum of their weights, which are 1 where none were given. */
  readonly weight: number;
}

export interface KeyRow {
  /** The finite elements alone. `count` is the sum of their weights. */
  readonly finite: MomentsRow;
  readonly nonFinite: NonFiniteElements;
  /** Of the same elements; undefined for keys that have no use for it. */
  readonly histogram?: Histogram | undefined;
}

const NONE: NonFiniteElements = Object.freeze({ nan: 0, posInf: 0, negInf: 0, weight: 0 });

export const emptyKeyRow: KeyRow = Object.freeze({ finite: emptyRow, nonFinite: NONE });

/** Elements without weights. */
export function keyRowOf(row: MomentsRow, histogram?: Histogram): KeyRow {
  const { nan, posInf, negInf } = row;
  const weight = nan + posInf + negInf;
  if (weight === 0) return { finite: row, nonFinite: NONE, histogram };
  const finite = { ...row, count: row.count - weight, nan: 0, posInf: 0, negInf: 0 };
  return { finite, nonFinite: { nan, posInf, negInf, weight }, histogram };
}

/** One number that stands for `weight` > 0 elements. */
export function weightedNumber(x: number, weight: number): KeyRow {
  if (Number.isFinite(x)) return { finite: repeatRow(x, weight), nonFinite: NONE };
  const { nan, posInf, negInf } = liftRow(x);
  return { finite: emptyRow, nonFinite: { nan, posInf, negInf, weight } };
}

/** The row of the elements of both; one without a histogram has that of no elements. */
export function mergeKeyRows(a: KeyRow, b: KeyRow): KeyRow {
  const finite = mergeRows(a.finite, b.finite);
  const nonFinite = addNonFinite(a.nonFinite, b.nonFinite);
  if (a.histogram === undefined && b.histogram === undefined) return { finite, nonFinite };
  const [left, right] = [a.histogram ?? Histogram.empty, b.histogram ?? Histogram.empty];
  return { finite, nonFinite, histogram: left.merge(right) };
}

/** The elements of `row`, and those of `other` besides that are not finite. */
export function withNonFiniteOf(row: KeyRow, other: KeyRow): KeyRow {
  return { ...row, nonFinite: addNonFinite(row.nonFinite, other.nonFinite) };
}

function addNonFinite(a: NonFiniteElements, b: NonFiniteElements): NonFiniteElements {
  if (a === NONE || b === NONE) return a === NONE ? b : a;
  return {
    nan: a.nan + b.nan,
    posInf: a.posInf + b.posInf,
    negInf: a.negInf + b.negInf,
    weight: a.weight + b.weight,
  };
}

/** Elements that are NaN or infinite. */
export function nonFiniteCount({ nonFinite: { nan, posInf, negInf } }: KeyRow): number {
  return nan + posInf + negInf;
}

/** Sum of the weights of all elements, which is their number where none were given. */
export function weightOf({ finite, nonFinite }: KeyRow): number {
  return finite.count + nonFinite.weight;
}

/**
 * All elements in one moments row, to travel or to be finished.
 *
 * A moments row has no place for weights of finite elements beside a number of others. It need not: with one element
 * that is not finite nothing but the kind of the others shows in a mean, so all of the weight is given to that kind.
 */
export function momentsRowOf(row: KeyRow): MomentsRow {
  const { finite, nonFinite } = row;
  const { nan, posInf, negInf } = nonFinite;
  const strange = nonFiniteCount(row);
  if (strange === 0) return finite;
  // Beside a count beyond 2^53 a few others would round away.
  const isCounted = Number.isSafeInteger(finite.count + strange) && nonFinite.weight === strange;
  if (isCounted) return { ...finite, count: finite.count + strange, nan, posInf, negInf };
  const count = weightOf(row);
  if (nan > 0) return { ...emptyRow, count, nan: count };
  const share = posInf > 0 && negInf > 0 ? count / 2 : count;
  return { ...emptyRow, count, posInf: posInf > 0 ? share : 0, negInf: negInf > 0 ? share : 0 };
}
