/**
 * The log ratio of the two policies, and numbers per row made from its records.
 *
 * x = log π_train − log π_rollout of a token; its exponential is the token's importance weight.
 */
import { clamp, min, subtract } from '../../kernels/expression.js';
import { RowMoments } from '../../kernels/index.js';
import { type Moments, emptyRow, MomentsTable } from '../../rows/index.js';
import type { Semantics } from '../semantics.js';

/** Beyond ±20 log ratios are held: e^20 is about 5e8, and its square still a float32. */
export const LOG_RATIO_LIMIT = 20;

/** x. */
export const logRatio = subtract('oldLogProbs', 'rolloutLogProbs');
/** x, at most 20: what can overflow is cut, and nothing else. */
export const cutLogRatio = min(logRatio, LOG_RATIO_LIMIT);
/** x, clamped to ±20, which is what weights are made of. */
export const heldLogRatio = clamp(logRatio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);

/** `x` clamped to ±20; NaN stays NaN. */
export function held(x: number): number {
  return Math.min(Math.max(x, -LOG_RATIO_LIMIT), LOG_RATIO_LIMIT);
}

/** Whether a row takes part in means over rows: if it has a token. The verl presets count the others too, as 0. */
export function countsRow(semantics: Semantics, tokens: number): boolean {
  return semantics !== 'recommended' || tokens > 0;
}

/** One number per row: the mean or sum of the rows that have a token, 0 for the empty ones where those count. */
export function rowValues(table: MomentsTable, semantics: Semantics, what: 'mean' | 'sum'): Float64Array {
  const rows = RowMoments.fromTable(table);
  const { count, [what]: values } = rows;
  return values
    .map((value, row) => (count[row] === 0 ? 0 : value))
    .filter((_, row) => countsRow(semantics, count[row]!));
}

/** The table of a statistic that all tokens of a row share: `values[i]` as often as row `i` of `table` has tokens. */
export function spread(values: ArrayLike<number>, table: MomentsTable): MomentsTable {
  const shared = new MomentsTable(table.length);
  for (let i = 0; i < table.length; i++) {
    const { count } = table.row(i);
    const value = values[i]!;
    if (count === 0) continue;
    shared.set(
      i,
      Number.isNaN(value)
        ? { ...emptyRow, count, nan: count }
        : { ...emptyRow, count, sum: count * value, min: value, max: value },
    );
  }
  return shared;
}

/** The largest |value − center| of numbers of which the extremes are known; NaN if one of them is. */
export function largestDeviation({ min, max }: Moments, center: number): number {
  return Math.max(Math.abs(min - center), Math.abs(max - center));
}

/** Unbiased std of numbers per row; of one row verl says 0. */
export function rowStd(rows: Moments, semantics: Semantics): number {
  return semantics !== 'recommended' && rows.count <= 1 ? 0 : rows.std();
}
