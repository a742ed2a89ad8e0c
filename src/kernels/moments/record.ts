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

/** What happens to NaN and ±Infinity among the selected elements when a row is finished. */
export type NonFinitePolicy = 'propagate' | 'ignore';

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
 * @param times finite, of at least 0; it need not be an integer, and the counts of the row then are none either
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
 * The row of two disjoint sets of elements.
 *
 * @source Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
 */
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
      const delta = b.sum / nb - a.sum / na;
      m2 += delta * (delta * (na / (na + nb))) * nb;
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

/**
 * Finished moments of the selected elements.
 *
 * An empty selection has `count` 0, `sum` 0, `m2` 0 and NaN for the rest. Under the default policy *propagate* a
 * selected NaN makes `sum`, `mean`, `m2`, `min` and `max` NaN; selected infinities show as IEEE arithmetic would show
 * them. Under *ignore* they are left out, also from `count`. `nan`, `posInf` and `negInf` report them either way.
 */
export class Moments {
  /** Elements that the moments are about. */
  readonly count: number;
  /** Selected elements that are NaN. */
  readonly nan: number;
  /** Selected elements that are +Infinity. */
  readonly posInf: number;
  /** Selected elements that are −Infinity. */
  readonly negInf: number;
  readonly sum: number;
  readonly mean: number;
  /** Sum of squared deviations from the mean. */
  readonly m2: number;
  readonly min: number;
  readonly max: number;

  constructor(row: MomentsRow, nonFinite: NonFinitePolicy = 'propagate') {
    const n = finiteCount(row);
    this.nan = row.nan;
    this.posInf = row.posInf;
    this.negInf = row.negInf;
    // By the elements themselves: beside a count beyond 2^53 a few of them would round away.
    const isFinite = row.nan === 0 && row.posInf === 0 && row.negInf === 0;
    if (nonFinite === 'ignore' || isFinite) {
      this.count = n;
      this.sum = row.sum;
      this.mean = finiteMean(row);
      this.m2 = Number.isFinite(row.sum) ? row.m2 : row.min === row.max ? 0 : Infinity;
      this.min = n === 0 ? NaN : row.min;
      this.max = n === 0 ? NaN : row.max;
      return;
    }
    this.count = row.count;
    // Something selected is not finite, so the sum is ±Infinity, or NaN as soon as the parts contradict each other.
    this.sum = (row.nan > 0 ? NaN : 0) + (row.posInf > 0 ? Infinity : 0) + (row.negInf > 0 ? -Infinity : 0);
    this.mean = this.sum;
    this.m2 = NaN;
    this.min = row.nan > 0 ? NaN : row.negInf > 0 ? -Infinity : n > 0 ? row.min : Infinity;
    this.max = row.nan > 0 ? NaN : row.posInf > 0 ? Infinity : n > 0 ? row.max : -Infinity;
  }

  /**
   * m2 / (count − correction): `correction` 1 (default) is the unbiased sample variance as in torch, 0 the population
   * variance. NaN where count ≤ correction.
   */
  variance(correction = 1): number {
    return this.count > correction ? this.m2 / (this.count - correction) : NaN;
  }

  /** Square root of `variance(correction)`. */
  std(correction = 1): number {
    return Math.sqrt(this.variance(correction));
  }
}

/** Many moments rows in one float64 block: one row per batch row, or a single row for a whole tensor. */
export class MomentsTable {
  /** Numbers per row in `cells`. */
  static readonly WIDTH = 8;
  /** Bytes of a row. */
  static readonly ROW_BYTES = MomentsTable.WIDTH * Float64Array.BYTES_PER_ELEMENT;
  /** Number of rows. */
  readonly length: number;
  /** The rows one after the other, `WIDTH` numbers each, in the order of the fields of `MomentsRow`. */
  readonly cells: Float64Array;

  /** A table of `length` empty rows. */
  constructor(length: number) {
    this.length = length;
    this.cells = new Float64Array(length * MomentsTable.WIDTH);
    for (let at = 0; at < this.cells.length; at += MomentsTable.WIDTH) {
      this.cells[at + 6] = Infinity;
      this.cells[at + 7] = -Infinity;
    }
  }

  /** Row `i`. */
  row(i: number): MomentsRow {
    const c = this.cells;
    const o = i * MomentsTable.WIDTH;
    return {
      count: c[o]!,
      nan: c[o + 1]!,
      posInf: c[o + 2]!,
      negInf: c[o + 3]!,
      sum: c[o + 4]!,
      m2: c[o + 5]!,
      min: c[o + 6]!,
      max: c[o + 7]!,
    };
  }

  /** Replaces row `i`. */
  set(i: number, row: MomentsRow): void {
    const c = this.cells;
    const o = i * MomentsTable.WIDTH;
    c[o] = row.count;
    c[o + 1] = row.nan;
    c[o + 2] = row.posInf;
    c[o + 3] = row.negInf;
    c[o + 4] = row.sum;
    c[o + 5] = row.m2;
    c[o + 6] = row.min;
    c[o + 7] = row.max;
  }

  /** Merges `row` into row `i`. */
  add(i: number, row: MomentsRow): void {
    this.set(i, mergeRows(this.row(i), row));
  }

  /** All rows merged in row order, so that the same table always gives the same bits. */
  total(): MomentsRow {
    let total = emptyRow;
    for (let i = 0; i < this.length; i++) total = mergeRows(total, this.row(i));
    return total;
  }

  /** The table of the one row that all rows make together. */
  merged(): MomentsTable {
    const merged = new MomentsTable(1);
    merged.set(0, this.total());
    return merged;
  }

  *[Symbol.iterator](): Generator<MomentsRow> {
    for (let i = 0; i < this.length; i++) yield this.row(i);
  }
}
