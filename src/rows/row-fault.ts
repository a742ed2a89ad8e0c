/** What a moments row from outside must hold: rows of a faulty sender would spoil every number they are merged into. */
import { MomentsTable } from './table.js';

/** How many elements; where these have weights, their sum, which need not be an integer. */
function isElementCount(x: number): boolean {
  return x >= 0 && x < Infinity;
}

function areWhole(count: number, nan: number, posInf: number, negInf: number): boolean {
  const { isSafeInteger } = Number;
  return isSafeInteger(count) && isSafeInteger(nan) && isSafeInteger(posInf) && isSafeInteger(negInf);
}

/** What may be left, of each element, where weights add up to counts in different orders. */
const ROUNDING = 2 ** -40;

/**
 * How far a mean may lie outside of its extremes, of the largest magnitude: devices promise means to 1e-6 of it
 * (docs/numerics.md) while their extremes are exact. Sums in float64 are nearer by many orders.
 */
const MEAN_ROUNDING = 2 ** -19;

/** Below it, products of an element and a count lose digits to the end of the range of float64. */
const DENORMAL = 2 ** -960;
/** From here on, something may have left the range of float64. */
const LARGE = 2 ** 1020;

/** Below it, squares of sums are far from the end of float64. */
const ORDINARY = 2 ** 500;

/**
 * Why row `i` of a table cannot describe any elements; undefined if it can.
 *
 * Sums and squared deviations are those that so many elements between these extremes can have. Where they may have left
 * the range of float64 on the way, they may be anything but contradictory.
 */
export function rowFault({ cells }: MomentsTable, i: number): string | undefined {
  const at = i * MomentsTable.WIDTH;
  if (isOrdinary(cells, at)) return undefined;
  const count = cells[at]!;
  const nan = cells[at + 1]!;
  const posInf = cells[at + 2]!;
  const negInf = cells[at + 3]!;
  if (!(isElementCount(count) && isElementCount(nan) && isElementCount(posInf) && isElementCount(negInf))) {
    return `counts ${count}, ${nan}, ${posInf}, ${negInf}`;
  }
  const finite = count - nan - posInf - negInf;
  const rounding = areWhole(count, nan, posInf, negInf) ? 0 : count * ROUNDING;
  if (finite < -rounding) return `${nan + posInf + negInf} non-finite elements of ${count}`;
  const sum = cells[at + 4]!;
  const m2 = cells[at + 5]!;
  const min = cells[at + 6]!;
  const max = cells[at + 7]!;
  // Beside a sum beyond float64 there is a mean in its place, which may have any sign.
  if (m2 < 0 && Number.isFinite(sum)) return `squared deviations of ${m2}`;
  const isEmpty = sum === 0 && m2 === 0 && min === Infinity && max === -Infinity;
  if (isEmpty && finite <= rounding) return undefined;
  // Next to heavy elements that are not finite, the weight of the others has no digits left. Only the former show.
  if (finite <= rounding && nan + posInf + negInf > 0 && rounding > 0) return undefined;
  if (finite <= 0) {
    return `sum ${sum}, m2 ${m2}, range ${min} to ${max} of no finite element`;
  }
  if (!Number.isFinite(min) || !Number.isFinite(max) || min > max) return `a range of ${min} to ${max}`;
  const n = finite;
  // Products with such weights have next to no digits.
  if (n < DENORMAL) return undefined;
  if (!isSum(sum, n, min, max)) return `a sum of ${sum} for ${n} elements from ${min} to ${max}`;
  const isFitting = Number.isFinite(sum) ? isM2(m2, n, min, max) : isMean(m2, min, max);
  return isFitting ? undefined : `squared deviations of ${m2} for ${n} elements from ${min} to ${max}`;
}

/** Whether the row of so many elements, all finite and far from the ends of float64, is right: nearly every row is. */
function isOrdinary(cells: Float64Array, at: number): boolean {
  const n = cells[at]!;
  if (!(n >= 1) || cells[at + 1] !== 0 || cells[at + 2] !== 0 || cells[at + 3] !== 0) return false;
  const sum = cells[at + 4]!;
  const m2 = cells[at + 5]!;
  const min = cells[at + 6]!;
  const max = cells[at + 7]!;
  const size = Math.max(-min, max);
  const slack = MEAN_ROUNDING * n * size;
  const half = (max - min) / 2;
  return (
    min <= max &&
    n * size < ORDINARY &&
    sum >= n * min - slack &&
    sum <= n * max + slack &&
    m2 >= 0 &&
    m2 <= n * half * half + slack * size
  );
}

/** Whether `n` elements from `min` to `max` can add up to `sum`. */
function isSum(sum: number, n: number, min: number, max: number): boolean {
  const size = Math.max(Math.abs(min), Math.abs(max));
  // Added up in some order, they may have overflowed on the way, even to both sides.
  if (!Number.isFinite(sum)) return !(n * size < LARGE);
  const slack = Math.max(MEAN_ROUNDING * n * size, DENORMAL);
  return sum >= n * min - slack && sum <= n * max + slack;
}

/** Whether `n` elements from `min` to `max` can deviate by `m2`: at most as if half of them were at each end. */
function isM2(m2: number, n: number, min: number, max: number): boolean {
  const size = Math.max(Math.abs(min), Math.abs(max));
  // Squares overflow long before sums do.
  if (!(4 * Math.max(n, 1) * size * size < LARGE)) return true;
  const half = (max - min) / 2;
  return m2 <= n * half * half + Math.max(MEAN_ROUNDING * n * size * size, DENORMAL);
}

/** Whether it can be the mean that a row keeps where its sum is beyond float64. */
function isMean(mean: number, min: number, max: number): boolean {
  return !Number.isFinite(mean) || (mean >= min && mean <= max) || mean === 0;
}
