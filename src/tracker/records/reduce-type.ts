/**
 * What a reduce type exports: the one table behind every exported name and number.
 *
 * All reduce types accumulate the same moments row; they differ only in what they read from it at export. Adding one
 * is adding a row to the table. Nothing here knows tensors, trackers or files.
 */
import {
  Histogram,
  type KeyRow,
  keyRowOf,
  mergeKeyRows,
  momentsRowOf,
  nonFiniteCount,
  weightOf,
  withNonFiniteOf,
  Moments,
  type MomentsRow,
} from '../../rows/index.js';

/** One number that a key exports. */
interface ExportedNumber {
  /** Follows the key in the exported name. */
  readonly suffix: string;
  readonly of: (moments: Moments, histogram: Histogram) => number;
  /** The number when nothing was selected; without it the name is absent from the export. */
  readonly whenEmpty?: number;
}

/** How rows of one key become one row; `b` was recorded after `a`. */
export type MergeRows = (a: KeyRow, b: KeyRow) => KeyRow;

interface ReduceRow {
  /** The record calls that take this reduce type: `stat`, `scalar`, `counter`. */
  readonly takenBy: readonly ('stat' | 'scalar' | 'counter')[];
  readonly exports: readonly ExportedNumber[];
  /** Left out: `mergeKeyRows`. */
  readonly merge?: (nonFinite: NonFiniteRule | undefined) => MergeRows;
}

const mean = (m: Moments) => m.mean;
const sum = (m: Moments) => m.sum;
const min = (m: Moments) => m.min;
const max = (m: Moments) => m.max;

/** The later record replaces the earlier one. */
const takeLater: MergeRows = (a, b) => (weightOf(b) > 0 ? b : a);

/** The same among those that are finite; the others are only counted. */
const takeLaterFinite: MergeRows = (a, b) =>
  b.finite.count > 0 ? withNonFiniteOf(b, a) : withNonFiniteOf(a, b);

const laterOf = (nonFinite: NonFiniteRule | undefined): MergeRows =>
  nonFinite === 'ignore' ? takeLaterFinite : takeLater;

/** The number below which a share of the elements lies, between the extremes that the moments know exactly. */
function quantile(share: number): (m: Moments, histogram: Histogram) => number {
  return (m, histogram) => {
    // Moments that ignore what is not finite count without it.
    const nonFinite = m.count < histogram.count ? 'ignore' : 'propagate';
    return histogram.quantile(share, { min: m.min, max: m.max, nonFinite });
  };
}

const TABLE = {
  avg_min_max: {
    takenBy: ['stat'],
    exports: [
      { suffix: '/avg', of: mean },
      { suffix: '/min', of: min },
      { suffix: '/max', of: max },
    ],
  },
  histogram: {
    takenBy: ['stat'],
    exports: [
      { suffix: '/avg', of: mean },
      { suffix: '/min', of: min },
      { suffix: '/max', of: max },
      { suffix: '/p50', of: quantile(0.5) },
      { suffix: '/p90', of: quantile(0.9) },
      { suffix: '/p99', of: quantile(0.99) },
    ],
  },
  avg: { takenBy: ['stat'], exports: [{ suffix: '', of: mean }] },
  sum: { takenBy: ['stat', 'scalar'], exports: [{ suffix: '', of: sum, whenEmpty: 0 }] },
  min: { takenBy: ['stat', 'scalar'], exports: [{ suffix: '', of: min }] },
  max: { takenBy: ['stat', 'scalar'], exports: [{ suffix: '', of: max }] },
  scalar: {
    takenBy: ['scalar'],
    exports: [
      { suffix: '', of: mean },
      { suffix: '__count', of: (m) => m.count },
    ],
  },
  // The mean of the one number that is left.
  last: { takenBy: ['scalar'], exports: [{ suffix: '', of: mean }], merge: laterOf },
  counter: { takenBy: ['counter'], exports: [{ suffix: '', of: sum, whenEmpty: 0 }] },
} as const satisfies Record<string, ReduceRow>;

/** How the records of one key become exported numbers. */
export type ReduceType = keyof typeof TABLE;

type TakenBy<C extends 'stat' | 'scalar'> = {
  [K in ReduceType]: C extends (typeof TABLE)[K]['takenBy'][number] ? K : never;
}[ReduceType];

/** The reduce types of `stat`: those that read tensors. */
export type TensorReduceType = TakenBy<'stat'>;

/** The reduce types of `scalar`: those that read numbers. */
export type ScalarReduceType = TakenBy<'scalar'>;

/** A denominator is no reduce type: it always exports how many elements its masks selected. */
const SELECTED_COUNT: ReduceRow = {
  takenBy: [],
  exports: [{ suffix: '', of: (m) => m.count, whenEmpty: 0 }],
};

/** What a key can be: a denominator, or the reduce type of a stat, scalar or counter. */
export type Reduction = ReduceType | 'denominator';

/** What follows a key in the names that a reduction exports. */
export type ExportedSuffix<R extends Reduction> = R extends ReduceType
  ? (typeof TABLE)[R]['exports'][number]['suffix']
  : '';

/** What is exported for a key some of whose selected elements are NaN or infinite; see `TrackerOptions.nonFinite`. */
export type NonFiniteRule = 'propagate' | 'ignore' | 'error';

/** How many selected elements were not finite; exported where a rule was chosen and there were some. */
const NON_FINITE_SUFFIX = '/nonfinite';
export type NonFiniteSuffix = typeof NON_FINITE_SUFFIX;

function rowOf(reduction: Reduction): ReduceRow {
  return reduction === 'denominator' ? SELECTED_COUNT : TABLE[reduction];
}

function takenBy(call: 'stat' | 'scalar'): ReduceType[] {
  return (Object.keys(TABLE) as ReduceType[]).filter((type) => rowOf(type).takenBy.includes(call));
}

/** The reduce types that `stat` takes, for checks and messages. */
export const tensorReduceTypes = takenBy('stat') as readonly TensorReduceType[];

/** The reduce types that `scalar` takes, for checks and messages. */
export const scalarReduceTypes = takenBy('scalar') as readonly ScalarReduceType[];

/** How rows of a key of this reduction are merged, in record order, under the rule that was chosen for the key. */
export function mergerOf(reduction: Reduction, nonFinite: NonFiniteRule | undefined): MergeRows {
  return rowOf(reduction).merge?.(nonFinite) ?? mergeKeyRows;
}

/**
 * Every name that `key` may export.
 *
 * @param nonFinite the rule that was chosen for the key, if one was
 */
export function exportedNames(key: string, reduction: Reduction, nonFinite?: NonFiniteRule): string[] {
  const names = rowOf(reduction).exports.map(({ suffix }) => key + suffix);
  return nonFinite === undefined ? names : [...names, key + NON_FINITE_SUFFIX];
}

/**
 * The names and numbers that `key` exports for its accumulated row. Emptiness is decided by the weight alone.
 *
 * @param nonFinite the rule that was chosen for the key; left out, non-finite elements propagate and are not reported
 */
export function numbersOf(
  key: string,
  reduction: Reduction,
  row: KeyRow,
  nonFinite?: NonFiniteRule,
): [string, number][] {
  const moments = new Moments(nonFinite === 'ignore' ? row.finite : momentsRowOf(row));
  const numbers: [string, number][] = [];
  for (const { suffix, of, whenEmpty } of rowOf(reduction).exports) {
    const value = moments.count > 0 ? of(moments, row.histogram ?? Histogram.empty) : whenEmpty;
    if (value !== undefined) numbers.push([key + suffix, value]);
  }
  const broken = nonFiniteCount(row);
  if (nonFinite !== undefined && broken > 0) numbers.push([key + NON_FINITE_SUFFIX, broken]);
  return numbers;
}

/** `numbersOf` a moments row, of whatever is merged as such. */
export function exportedNumbers(
  key: string,
  reduction: Reduction,
  row: MomentsRow,
  nonFinite?: NonFiniteRule,
): [string, number][] {
  return numbersOf(key, reduction, keyRowOf(row), nonFinite);
}
