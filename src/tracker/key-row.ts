/**
 * What is accumulated under a key: a moments row and, for keys that export quantiles, a histogram beside it.
 */
import { Histogram, type MomentsRow, finiteCount, mergeRows } from '../kernels/index.js';

export interface KeyRow extends MomentsRow {
  /** Of the same elements as the row; undefined for keys that have no use for it. */
  readonly histogram?: Histogram | undefined;
}

/** `mergeRows` with histograms; a row without one has the histogram of no elements. */
export function mergeKeyRows(a: KeyRow, b: KeyRow): KeyRow {
  const row = mergeRows(a, b);
  if (a.histogram === undefined && b.histogram === undefined) return row;
  const [left, right] = [a.histogram ?? Histogram.empty, b.histogram ?? Histogram.empty];
  return { ...row, histogram: left.merge(right) };
}

/** The row without its histogram. */
export function momentsRowOf({ count, nan, posInf, negInf, sum, m2, min, max }: KeyRow): MomentsRow {
  return { count, nan, posInf, negInf, sum, m2, min, max };
}

/** What a row is of its finite elements alone. */
export function finitePartOf(row: MomentsRow): MomentsRow {
  return { ...row, count: finiteCount(row), nan: 0, posInf: 0, negInf: 0 };
}

/** The elements of `row` that are finite, and those of `other` besides that are not. */
export function withNonFiniteOf(row: MomentsRow, other: MomentsRow): MomentsRow {
  const nan = row.nan + other.nan;
  const posInf = row.posInf + other.posInf;
  const negInf = row.negInf + other.negInf;
  return { ...row, count: finiteCount(row) + nan + posInf + negInf, nan, posInf, negInf };
}
