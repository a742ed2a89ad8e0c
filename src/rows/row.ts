/**
 * The moments row: the mergeable state that every masked statistic is made of.
 *
 * GPU lanes, rows of a batch, micro-batches, streaming windows and ranks all combine their rows with the one `merge`
 * below, so a statistic never depends on how the elements were split. A row describes the selected elements only;
 * `sum`, `m2`, `min` and `max` describe the finite ones among them, so that a policy for non-finite values can still
 * be chosen when the row is finished. The row keeps the sum and not the mean, because sums of integers stay exact.
 *
 * This file is arithmetic on numbers. It knows no tensor and no device.
 */

/** The state of one statistic. Counts are exact integers up to 2^53; everything else is float64. */
export interface MomentsRow {
  /** Selected elements, finite or not. */
  readonly count: number;
  /** Selected elements that are NaN. */
  readonly nan: number;
  /** Selected elements that are +Infinity. */
  readonly posInf: number;
  /** Selected elements that are −Infinity. */
  readonly negInf: number;
  /** Sum of the finite selected elements; 0 if there are none. Not finite where it is beyond float64. */
  readonly sum: number;
  /**
   * Sum of squared deviations of the finite selected elements from their mean; 0 if there are none.
   *
   * Where `sum` is not finite, their mean: deviations are known without it. The largest element is 2^971 or more then, so
   * another one differs from it by 2^918 or more, whose square is beyond float64: it is 0 if all are equal, else Infinity.
   * A row of a device whose sum left float64 on the device has lost its mean, and holds 0 or nothing finite here.
   */
  readonly m2: number;
  /** Smallest finite selected element; +Infinity if there are none. */
  readonly min: number;
  /** Largest finite selected element; −Infinity if there are none. */
  readonly max: number;
}

/** The row of no elements: `merge(emptyRow, a)` is `a`. */
export const emptyRow: MomentsRow = Object.freeze({
  count: 0,
  nan: 0,
  posInf: 0,
  negInf: 0,
  sum: 0,
  m2: 0,
  min: Infinity,
  max: -Infinity,
});

/** The row of one element. */
export function liftRow(x: number): MomentsRow {
  if (Number.isFinite(x)) {
    return { count: 1, nan: 0, posInf: 0, negInf: 0, sum: x, m2: 0, min: x, max: x };
  }
  return {
    count: 1,
    nan: Number.isNaN(x) ? 1 : 0,
    posInf: x === Infinity ? 1 : 0,
    negInf: x === -Infinity ? 1 : 0,
    sum: 0,
    m2: 0,
    min: Infinity,
    max: -Infinity,
  };
}

/**
 * The row of so many elements that are all `x`: what a number stands for that has a weight, or that is the mean of others.
 *
 * @param times finite, of at least 0; need not be an integer, and neither need the counts of the row then
 */
export function repeatRow(x: number, times: number): MomentsRow {
  if (times === 0) return emptyRow;
  const one = liftRow(x);
  const sum = one.sum * times;
  return {
    count: times,
    nan: one.nan * times,
    posInf: one.posInf * times,
    negInf: one.negInf * times,
    sum,
    m2: Number.isFinite(sum) ? 0 : x,
    min: one.min,
    max: one.max,
  };
}

/** How many of the selected elements are finite: the `n` behind `sum`, `m2`, `min` and `max`. */
export function finiteCount(row: MomentsRow): number {
  return row.count - row.nan - row.posInf - row.negInf;
}

/** Mean of the finite selected elements; NaN if there are none. */
export function finiteMean(row: MomentsRow): number {
  return meanOf(row.sum, finiteCount(row), row.min, row.max, row.m2);
}

/**
 * Sum over count, and between the extremes, where rounding may leave it: three times 0.1 has the mean 0.1.
 *
 * @param m2 the mean where the sum is beyond float64, as in `MomentsRow`
 */
export function meanOf(sum: number, count: number, min: number, max: number, m2: number): number {
  const mean = !Number.isFinite(sum) && Number.isFinite(m2) ? m2 : sum / count;
  // An infinite one is a sum that left float64 on a device, and shows.
  if (!(min <= max) || mean - mean !== 0) return mean;
  return mean < min ? min : mean > max ? max : mean;
}

/**
 * What the difference between the means of two sets adds to the squared deviations of both together. Neither is empty.
 *
 * @source Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
 */
export function m2Between(sumA: number, na: number, sumB: number, nb: number): number {
  const delta = sumB / nb - sumA / na;
  return delta * (delta * (na / (na + nb))) * nb;
}

/** The row of two disjoint sets of elements. */
export function mergeRows(a: MomentsRow, b: MomentsRow): MomentsRow {
  const na = finiteCount(a);
  const nb = finiteCount(b);
  let sum = a.sum + b.sum;
  let m2 = a.m2 + b.m2;
  const min = Math.min(a.min, b.min);
  const max = Math.max(a.max, b.max);
  // Not a shortcut: with nothing on one side there is no mean to differ from.
  if (na > 0 && nb > 0) {
    if (Number.isFinite(sum) && na + nb < Infinity) {
      m2 += m2Between(a.sum, na, b.sum, nb);
    } else {
      const mean = weightedMean(finiteMean(a), na, finiteMean(b), nb, min, max);
      // Elements of the other sign may have brought the sum back.
      sum = mean * (na + nb);
      m2 = !Number.isFinite(sum) ? mean : min === max ? 0 : Infinity;
    }
  }
  // One literal with all fields: rows are merged by the thousand, and copying one by spread costs 250 times as much.
  return {
    count: a.count + b.count,
    nan: a.nan + b.nan,
    posInf: a.posInf + b.posInf,
    negInf: a.negInf + b.negInf,
    sum,
    m2,
    min,
    max,
  };
}

/** The mean of two sets with these means and this range, where no sum of theirs is in float64. */
function weightedMean(a: number, na: number, b: number, nb: number, min: number, max: number): number {
  // Halves: also the count may leave float64 where elements have weights.
  const n = na / 2 + nb / 2;
  const mean = a * (na / 2 / n) + b * (nb / 2 / n);
  return Number.isFinite(a) && Number.isFinite(b) && mean >= min ? Math.min(mean, max) : mean;
}
