/**
 * What a controller makes of the exports of its workers: means weighted by their counts, with the counts kept.
 *
 * An export knows means and counts only. Where extremes, sums or deviations matter, send rows instead: see `stream/`.
 */
import { KeyConflictError, ValueError } from '../errors.js';
import { assertNamed, assertOptions, kindOf } from '../kernels/arguments.js';
import { Moments, type MomentsRow, emptyRow, mergeRows } from '../kernels/moments/record.js';

const COUNT_SUFFIX = '__count';

export interface AggregateOptions {
  /**
   * Hears, sorted, of the keys that no worker gave a count: how much they weigh is unknown, so they are left out.
   * Default: one process warning per key.
   */
  readonly onWithoutCount?: ((keys: readonly string[]) => void) | undefined;
}

/** Keys that the process was warned about already. */
const warned = new Set<string>();

function warnOnce(keys: readonly string[]): void {
  const fresh = keys.filter((key) => !warned.has(key));
  if (fresh.length === 0) return;
  for (const key of fresh) warned.add(key);
  process.emitWarning(
    `aggregateExports leaves out what has no ${COUNT_SUFFIX}: ${fresh.join(', ')}. Send rows of a StreamEmitter to merge it.`,
    { code: 'TENSORTALLY_WITHOUT_COUNT' },
  );
}

/**
 * Merges the exports of several workers into the one that a single worker with all their records would have made.
 *
 * `k` is the mean of all records, `k__count` their number. A count of 0 is no record, whatever its value; a NaN or
 * infinity with a count propagates, and null, which is what JSON makes of them, is a NaN. The mean lies between the
 * means of the workers, so what is equal on all of them stays what it is to the bit.
 *
 * @param exports one record per worker; null or undefined for a worker that did not report
 * @returns names in sorted order; keys without a count are left out
 * @throws ValueError for a value that is no number, a count that is no integer from 0, or the same export given twice;
 *   KeyConflictError if a key takes the name of the count of another one
 * @example
 *   aggregateExports([{ reward: 0.5, reward__count: 10 }, { reward: 1, reward__count: 30 }]);
 *   // { reward: 0.875, reward__count: 40 }
 */
export function aggregateExports(
  exports: readonly (Readonly<Record<string, number>> | null | undefined)[],
  options: AggregateOptions = {},
): Record<string, number> {
  assertOptions('aggregateExports', options, { onWithoutCount: 'function' });
  const { onWithoutCount = warnOnce } = options;
  const rows = new Map<string, MomentsRow>();
  const counted = new Set<string>();
  const uncounted = new Set<string>();
  for (const [worker, record] of reporting(exports)) {
    for (const [key, value] of Object.entries(record)) {
      if (isCountOfAnother(key, record)) continue;
      const count = countOf(worker, key, record);
      (count === undefined ? uncounted : counted).add(key);
      if (count === undefined || count === 0) continue;
      rows.set(key, mergeRows(rows.get(key) ?? emptyRow, rowOf(meanOf(worker, key, value), count)));
    }
  }
  for (const key of counted) if (counted.has(key + COUNT_SUFFIX)) throw countTaken(key);
  const without = [...uncounted].filter((key) => !counted.has(key)).sort();
  if (without.length > 0) onWithoutCount(without);
  const numbers = [...rows].flatMap(([key, row]): [string, number][] => [
    [key, mergedMean(row)],
    [key + COUNT_SUFFIX, row.count],
  ]);
  return Object.fromEntries(numbers.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The exports of workers that reported, with their places in the list. */
function reporting(exports: unknown): [worker: number, record: Readonly<Record<string, number>>][] {
  if (!Array.isArray(exports)) {
    throw new ValueError({
      where: 'aggregateExports',
      input: 'exports',
      expected: 'an array with one export per worker',
      received: kindOf(exports),
      remedy: 'call it as aggregateExports([first, second])',
    });
  }
  const seen = new Map<unknown, number>();
  return exports.flatMap((record: unknown, worker): [number, Readonly<Record<string, number>>][] => {
    if (record === null || record === undefined) return [];
    assertNamed('aggregateExports', `exports[${worker}]`, record, {
      expected: 'an export',
      remedy: 'pass null for a worker that did not report',
    });
    const before = seen.get(record);
    if (before !== undefined) {
      throw new ValueError({
        where: 'aggregateExports',
        input: `exports[${worker}]`,
        expected: 'an export of its own for every worker',
        received: `the one of exports[${before}] again`,
        remedy: 'pass each export once; its records would count twice',
      });
    }
    seen.set(record, worker);
    return [[worker, record as Readonly<Record<string, number>>]];
  });
}

/** Whether `name` is the count of another key of the same export, and nothing else. */
function isCountOfAnother(name: string, record: Readonly<Record<string, number>>): boolean {
  if (!name.endsWith(COUNT_SUFFIX)) return false;
  const key = name.slice(0, -COUNT_SUFFIX.length);
  if (!Object.hasOwn(record, key)) return false;
  if (Object.hasOwn(record, name + COUNT_SUFFIX)) throw countTaken(key);
  return true;
}

function countOf(worker: number, key: string, record: Readonly<Record<string, number>>): number | undefined {
  const name = key + COUNT_SUFFIX;
  if (!Object.hasOwn(record, name)) return undefined;
  const count: unknown = record[name];
  if (Number.isSafeInteger(count) && (count as number) >= 0) return count as number;
  throw new ValueError({
    where: 'aggregateExports',
    input: `exports[${worker}]['${name}']`,
    expected: 'an integer from 0',
    received: kindOf(count),
    remedy: `names that end in ${COUNT_SUFFIX} are counts; rename the key if it is none`,
  });
}

function meanOf(worker: number, key: string, value: unknown): number {
  if (value === null) return NaN;
  if (typeof value === 'number') return value;
  throw new ValueError({
    where: 'aggregateExports',
    input: `exports[${worker}]['${key}']`,
    expected: 'a number',
    received: kindOf(value),
    remedy: 'leave the key and its count out when there is no value',
  });
}

/** The row of `count` records of which only the mean is known: its range is that of the means. */
function rowOf(mean: number, count: number): MomentsRow {
  const isFinite = Number.isFinite(mean);
  return {
    count,
    nan: Number.isNaN(mean) ? count : 0,
    posInf: mean === Infinity ? count : 0,
    negInf: mean === -Infinity ? count : 0,
    sum: isFinite ? mean * count : 0,
    m2: 0,
    min: isFinite ? mean : Infinity,
    max: isFinite ? mean : -Infinity,
  };
}

/** Rounding must not take a mean out of the range of what it is the mean of. */
function mergedMean(row: MomentsRow): number {
  const { mean, min, max } = new Moments(row);
  return Number.isFinite(mean) ? Math.min(Math.max(mean, min), max) : mean;
}

function countTaken(key: string): KeyConflictError {
  return new KeyConflictError({
    where: 'aggregateExports',
    input: key + COUNT_SUFFIX,
    expected: `the count of '${key}'`,
    received: 'a key with a count of its own',
    remedy: `rename it: ${COUNT_SUFFIX} is how counts end`,
  });
}
