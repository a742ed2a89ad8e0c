/**
 * What a reduce type exports: the one table behind every exported name and number.
 *
 * All reduce types accumulate the same moments row; they differ only in what they read from it at export. Adding one
 * is adding a row to the table. Nothing here knows tensors, trackers or files.
 */
import { Moments, type MomentsRow } from '../kernels/moments/record.js';

/** One number that a key exports. */
interface ExportedNumber {
  /** Follows the key in the exported name. */
  readonly suffix: string;
  readonly of: (moments: Moments) => number;
  /** The number when nothing was selected; without it the name is absent from the export. */
  readonly whenEmpty?: number;
}

interface ReduceRow {
  /** What is recorded under this reduce type: tensors by `stat`, numbers by `scalar`. */
  readonly records: 'tensors' | 'numbers';
  readonly exports: readonly ExportedNumber[];
}

const mean = (m: Moments) => m.mean;
const min = (m: Moments) => m.min;
const max = (m: Moments) => m.max;

const TABLE = {
  avg_min_max: {
    records: 'tensors',
    exports: [
      { suffix: '/avg', of: mean },
      { suffix: '/min', of: min },
      { suffix: '/max', of: max },
    ],
  },
  avg: { records: 'tensors', exports: [{ suffix: '', of: mean }] },
  sum: { records: 'tensors', exports: [{ suffix: '', of: (m) => m.sum, whenEmpty: 0 }] },
  min: { records: 'tensors', exports: [{ suffix: '', of: min }] },
  max: { records: 'tensors', exports: [{ suffix: '', of: max }] },
  scalar: {
    records: 'numbers',
    exports: [
      { suffix: '', of: mean },
      { suffix: '__count', of: (m) => m.count },
    ],
  },
} as const satisfies Record<string, ReduceRow>;

/** How the records of one key become exported numbers. */
export type ReduceType = keyof typeof TABLE;

/** The reduce types of `stat`: those that read tensors. */
export type TensorReduceType = {
  [K in ReduceType]: (typeof TABLE)[K]['records'] extends 'tensors' ? K : never;
}[ReduceType];

/** A denominator is no reduce type: it always exports how many elements its masks selected. */
const SELECTED_COUNT: readonly ExportedNumber[] = [{ suffix: '', of: (m) => m.count, whenEmpty: 0 }];

/** What a key can be: a denominator, or the reduce type of a stat or scalar. */
export type Reduction = ReduceType | 'denominator';

function exportsOf(reduction: Reduction): readonly ExportedNumber[] {
  return reduction === 'denominator' ? SELECTED_COUNT : TABLE[reduction].exports;
}

/** The reduce types that `stat` takes, for checks and messages. */
export const tensorReduceTypes: readonly TensorReduceType[] = (Object.keys(TABLE) as ReduceType[]).filter(
  (type): type is TensorReduceType => TABLE[type].records === 'tensors',
);

/** Every name that `key` may export. */
export function exportedNames(key: string, reduction: Reduction): string[] {
  return exportsOf(reduction).map(({ suffix }) => key + suffix);
}

/** The names and numbers that `key` exports for its accumulated row. Emptiness is decided by the count alone. */
export function exportedNumbers(key: string, reduction: Reduction, row: MomentsRow): [string, number][] {
  const moments = new Moments(row);
  const numbers: [string, number][] = [];
  for (const { suffix, of, whenEmpty } of exportsOf(reduction)) {
    const value = moments.count > 0 ? of(moments) : whenEmpty;
    if (value !== undefined) numbers.push([key + suffix, value]);
  }
  return numbers;
}
