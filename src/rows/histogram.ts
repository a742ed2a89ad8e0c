/**
 * The histogram: the mergeable state that quantiles are made of, beside the moments row.
 *
 * It keeps how many elements each bucket has, see buckets.ts, and only for buckets that have any. This file is
 * arithmetic on numbers. It knows no tensor and no device.
 */
import { assertOptions, kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import { recognizeAcrossCopies } from '../process-wide.js';
import { INFINITY_SLOT, LAST_BUCKET, NAN_SLOT, NEGATIVE, ORDINARY, SLOTS, bucketValue } from './buckets.js';
import { type NonFinitePolicy, assertNonFinitePolicy } from './moments.js';

/** What a row begins with: says which buckets are meant. */
const LAYOUT = 2;
/** Rows with this beginning number the buckets from 2⁻³¹ to 2³² only. */
const NARROW_LAYOUT = 1;
const NARROW_LAST = ORDINARY.last - ORDINARY.first + 1;
/** Where a row has what is not finite, and where its pairs of bucket and count begin. */
const [NAN, POS_INF, NEG_INF, PAIRS] = [1, 2, 3, 4];

/** What is known besides the histogram, and what to do with elements that are not finite. */
export interface QuantileOptions {
  /** Smallest finite element, e.g. of the moments under the same mask: quantiles are then not below it. */
  readonly min?: number | undefined;
  /** Largest finite element: quantiles are then not above it. */
  readonly max?: number | undefined;
  /** What counted NaN and ±Infinity do to the result; default `'propagate'`. */
  readonly nonFinite?: NonFinitePolicy | undefined;
}

/**
 * How often numbers of each size were selected. Immutable; histograms of anything merge exactly, in any order.
 *
 * Buckets are zero and the numbers of seven significant bits in all of float32, subnormal numbers too. An element and its
 * bucket differ by at most 1/129 of the element.
 */
export class Histogram {
  static {
    recognizeAcrossCopies(this, 'histogram', LAYOUT);
  }

  /** The histogram of no elements: merging it changes nothing. */
  static readonly empty = new Histogram(Float64Array.of(LAYOUT, 0, 0, 0));

  /** Bytes that the counts of one histogram take on a device, at least. */
  static readonly DEVICE_BYTES = SLOTS * Uint32Array.BYTES_PER_ELEMENT;

  /** Elements counted, finite or not. Exact up to 2^53, as are all counts. */
  readonly count: number;
  /** Elements that are NaN. */
  readonly nan: number;
  /** Elements that are +Infinity. */
  readonly posInf: number;
  /** Elements that are −Infinity. */
  readonly negInf: number;
  /** Never changed, never handed out. */
  readonly #row: Float64Array;
  readonly #finite: number;

  private constructor(row: Float64Array) {
    this.#row = row;
    this.nan = row[NAN]!;
    this.posInf = row[POS_INF]!;
    this.negInf = row[NEG_INF]!;
    let finite = 0;
    for (let at = PAIRS; at < row.length; at += 2) finite += row[at + 1]!;
    this.#finite = finite;
    this.count = finite + this.nan + this.posInf + this.negInf;
    Object.freeze(this);
  }

  /**
   * The histogram that `toRow()` or, by way of JSON, `toJSON()` wrote.
   *
   * @param row a list of numbers
   * @throws ValueError for anything that no histogram writes
   */
  static fromRow(row: ArrayLike<number>): Histogram {
    const fault = faultOf(row);
    if (fault === undefined) return new Histogram(widened(Float64Array.from(row)));
    throw new ValueError({
      where: 'Histogram.fromRow',
      input: 'row',
      expected: 'what toRow() of a histogram returned',
      received: fault,
      remedy: 'send rows as they are, and use one version of tensortally on both sides',
    });
  }

  /** The histogram of two disjoint sets of elements. */
  merge(other: Histogram): Histogram {
    if (!(other instanceof Histogram)) {
      throw new ValueError({
        where: 'Histogram.merge',
        input: 'other',
        expected: 'a Histogram',
        received: kindOf(other),
        remedy: 'make one of a row with Histogram.fromRow',
      });
    }
    if (other.count === 0) return this;
    if (this.count === 0 && #row in (other as object)) return other;
    // One of another copy of the package has a row of its own, which only that copy reads.
    return new Histogram(
      mergedRow(this.#row, #row in (other as object) ? other.#row : Histogram.fromRow(other.toRow()).#row),
    );
  }

  /**
   * The number below which a share `q` of the elements lies, as torch.quantile has it: at position q · (n − 1) of the
   * sorted elements, between two of them in proportion.
   *
   * Each of the two is known to 1/129 of itself; with `min` and `max` the first and the last element are exact. Under *propagate*, NaN among the elements gives NaN, and
   * infinities are the outermost elements; under *ignore* neither counts. NaN if there are no elements.
   *
   * @param q from 0 to 1
   * @throws ValueError for a share outside, or options that do not fit
   */
  quantile(q: number, options: QuantileOptions = {}): number {
    const where = 'Histogram.quantile';
    if (typeof q !== 'number' || !(q >= 0 && q <= 1)) {
      throw new ValueError({
        where,
        input: 'q',
        expected: 'a number from 0 to 1',
        received: kindOf(q),
        remedy: 'divide percents by 100',
      });
    }
    assertOptions(where, options, { min: 'number', max: 'number', nonFinite: 'any' });
    assertExtremes(where, options);
    const { nonFinite = 'propagate' } = options;
    assertNonFinitePolicy(where, nonFinite);
    const isAll = nonFinite === 'propagate';
    if (isAll && this.nan > 0) return NaN;
    const n = isAll ? this.count : this.#finite;
    if (n === 0) return NaN;

    const below = isAll ? this.negInf : 0;
    const element = (rank: number): number => {
      if (rank < below) return -Infinity;
      return rank < below + this.#finite ? this.#element(rank - below, options) : Infinity;
    };
    const position = q * (n - 1);
    const rank = Math.floor(position);
    const low = element(rank);
    if (position === rank) return low;
    const high = element(rank + 1);
    if (low === high) return low;
    // Between a number and an infinity lies the infinity, between both infinities nothing that can be said.
    if (!Number.isFinite(low) || !Number.isFinite(high)) return low + high;
    return low + (position - rank) * (high - low);
  }

  /** Non-empty buckets of the finite elements, ascending: the number that a bucket stands for, and its count. */
  *[Symbol.iterator](): Generator<{ readonly value: number; readonly count: number }> {
    const row = this.#row;
    for (let at = PAIRS; at < row.length; at += 2) {
      yield { value: bucketValue(row[at]!), count: row[at + 1]! };
    }
  }

  /** The histogram as numbers, for `fromRow`: a few, and two for each bucket that is not empty. */
  toRow(): Float64Array {
    return this.#row.slice();
  }

  /** `toRow()` as JSON has it. */
  toJSON(): number[] {
    return [...this.#row];
  }

  /** About the `rank`-th finite element of the sorted ones, from 0. */
  #element(rank: number, { min = NaN, max = NaN }: QuantileOptions): number {
    if (rank === 0 && Number.isFinite(min)) return min;
    if (rank === this.#finite - 1 && Number.isFinite(max)) return max;
    const row = this.#row;
    let at = PAIRS;
    for (let seen = row[at + 1]!; seen <= rank; seen += row[at + 1]!) at += 2;
    const value = bucketValue(row[at]!);
    // Comparisons with what is not known are false.
    return value < min ? min : value > max ? max : value;
  }
}

/** @throws ValueError for a smallest element above the largest */
function assertExtremes(where: string, { min = NaN, max = NaN }: QuantileOptions): void {
  // With one that is not known the comparison is false.
  if (!(min > max)) return;
  throw new ValueError({
    where,
    input: 'options.min',
    expected: `at most options.max, ${max}`,
    received: kindOf(min),
    remedy: 'pass min and max of the elements that the histogram is of, or leave both out',
  });
}

/** The row of `SLOTS` counts that a kernel made, from `start` on. */
export function histogramOfSlots(slots: ArrayLike<number>, start = 0): Histogram {
  const pairs: number[] = [];
  const take = (bucket: number, count: number): void => {
    if (count > 0) pairs.push(bucket, count);
  };
  const positive = start;
  const negative = start + NEGATIVE;
  for (let bucket = LAST_BUCKET; bucket > 0; bucket--) take(-bucket, slots[negative + bucket]!);
  take(0, slots[positive]! + slots[negative]!);
  for (let bucket = 1; bucket <= LAST_BUCKET; bucket++) take(bucket, slots[positive + bucket]!);
  const nan = slots[positive + NAN_SLOT]! + slots[negative + NAN_SLOT]!;
  return Histogram.fromRow([
    LAYOUT,
    nan,
    slots[positive + INFINITY_SLOT]!,
    slots[negative + INFINITY_SLOT]!,
    ...pairs,
  ]);
}

/** A row in the layout of today. */
function widened(row: Float64Array): Float64Array {
  if (row[0] === LAYOUT) return row;
  row[0] = LAYOUT;
  for (let at = PAIRS; at < row.length; at += 2) row[at]! += Math.sign(row[at]!) * (ORDINARY.first - 1);
  return row;
}

/** Adds the counts of two rows, whose buckets ascend. */
function mergedRow(a: Float64Array, b: Float64Array): Float64Array {
  const merged = new Float64Array(a.length + b.length - PAIRS);
  merged[0] = LAYOUT;
  for (const at of [NAN, POS_INF, NEG_INF]) merged[at] = a[at]! + b[at]!;
  let [end, i, j]: number[] = [PAIRS, PAIRS, PAIRS];
  while (i! < a.length || j! < b.length) {
    const [bucketA, bucketB] = [a[i!] ?? Infinity, b[j!] ?? Infinity];
    merged[end!] = Math.min(bucketA, bucketB);
    if (bucketA <= bucketB) {
      merged[end! + 1]! += a[i! + 1]!;
      i! += 2;
    }
    if (bucketB <= bucketA) {
      merged[end! + 1]! += b[j! + 1]!;
      j! += 2;
    }
    end! += 2;
  }
  return merged.slice(0, end);
}

/** Why something is no row; undefined if it is one. */
function faultOf(row: unknown): string | undefined {
  if (!Array.isArray(row) && !(row instanceof Float64Array)) return kindOf(row);
  const numbers = row as ArrayLike<unknown>;
  const isCount = (x: unknown): boolean => Number.isSafeInteger(x) && (x as number) >= 0;
  if (numbers.length < PAIRS || numbers.length % 2 !== 0) return `a list of ${numbers.length}`;
  const [layout] = numbers as readonly unknown[];
  if (layout !== LAYOUT && layout !== NARROW_LAYOUT)
    return `a row of layout ${shown(layout)}, which is neither ${NARROW_LAYOUT} nor ${LAYOUT}`;
  const greatest = layout === LAYOUT ? LAST_BUCKET : NARROW_LAST;
  for (const at of [NAN, POS_INF, NEG_INF]) {
    if (!isCount(numbers[at])) return `the count ${shown(numbers[at])}`;
  }
  let last = -greatest - 1;
  for (let at = PAIRS; at < numbers.length; at += 2) {
    const [bucket, count] = [numbers[at], numbers[at + 1]];
    if (!Number.isInteger(bucket) || (bucket as number) <= last || (bucket as number) > greatest) {
      return `the bucket ${shown(bucket)} after ${last}`;
    }
    if (!isCount(count) || count === 0) return `the count ${shown(count)} of bucket ${shown(bucket)}`;
    last = bucket as number;
  }
  return undefined;
}

/** A number as it is; of anything else what it is, which may be of any size and depth. */
function shown(x: unknown): string {
  return typeof x === 'number' ? `${x}` : kindOf(x);
}
