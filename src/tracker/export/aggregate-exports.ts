/**
 * What a controller makes of the exports of its workers: means weighted by their counts, with the counts kept, and sums.
 *
 * An export knows means and counts only. Where extremes, sums or deviations matter, send rows instead: see `stream/`.
 */
import { assertRecord, assertOptions, kindOf } from '../../arguments.js';
import { KeyConflictError, ValueError } from '../../errors.js';
import { processWide } from '../../process-wide.js';
import {
  RowAccumulator,
  type KeyRow,
  emptyKeyRow,
  mergeKeyRows,
  momentsRowOf,
  weightOf,
  weightedNumber,
  Moments,
} from '../../rows/index.js';
import { Told, warn } from '../../warning.js';
import { exportRecord } from './export-record.js';

const COUNT_SUFFIX = '__count';

export interface AggregateOptions {
  /**
   * The exported names that are sums, such as counters, denominators and stats of reduce type `sum`: they are added.
   * Nothing in an export tells a sum from a mean, an extreme or a last value, so this is the caller's to say.
   */
  readonly totals?: readonly string[] | ((name: string) => boolean) | undefined;
  /**
   * Hears, sorted, of the keys that no worker gave a count and that are no totals: how much they weigh is unknown, so
   * they are left out.
   * Default: one process warning per key.
   */
  readonly onWithoutCount?: ((keys: readonly string[]) => void) | undefined;
}

/** Keys that the process was warned about already; from so many on it has been told. */
const told = processWide('warned-without-count', 2, () => new Told(1000));

function warnOnce(keys: readonly string[]): void {
  const fresh = told.fresh(keys);
  if (fresh.length === 0) return;
  warn(
    'TENSORTALLY_WITHOUT_COUNT',
    `aggregateExports leaves out what has no ${COUNT_SUFFIX}: ${fresh.join(', ')}. Name sums in the option totals; send rows of a StreamEmitter to merge the rest.`,
  );
}

/**
 * Merges the exports of several workers into the one that a single worker with all their records would have made.
 *
 * `k` is the mean of all records, `k__count` their number, or the sum of their weights. A count of 0 is no record,
 * whatever its value; a NaN or infinity with a count propagates, and null, which is what JSON makes of them, is a NaN.
 * The mean lies between the means of the workers, so what is equal on all of them stays what it is to the bit. Totals
 * are added, integers exactly up to 2^53; a worker without one adds nothing. A sum that leaves float64 only on the way is
 * what it is at the end, up to rounding.
 *
 * @param exports one record per worker; null or undefined for a worker that did not report
 * @returns names in sorted order; keys without a count that are no totals are left out
 * @throws ValueError for a value that is no number, a count that is no finite number from 0, counts whose sum is
 *   beyond float64, a total that has a count, or the same export given twice; KeyConflictError if a key takes the name of the count of another one
 * @example
 *   aggregateExports([{ reward: 0.5, reward__count: 10 }, { reward: 1, reward__count: 30 }]);
 *   // { reward: 0.875, reward__count: 40 }
 *   aggregateExports([{ accepted: 3 }, { accepted: 4 }], { totals: ['accepted'] }); // { accepted: 7 }
 */
export function aggregateExports(
  exports: readonly (Readonly<Record<string, number>> | null | undefined)[],
  options: AggregateOptions = {},
): Record<string, number> {
  assertOptions('aggregateExports', options, { totals: 'any', onWithoutCount: 'function' });
  const { onWithoutCount = warnOnce } = options;
  const isTotal = totalsOf(options.totals);
  const totals = new Map<string, RowAccumulator>();
  const rows = new Map<string, KeyRow>();
  const counted = new Set<string>();
  const uncounted = new Set<string>();
  for (const [worker, record] of reporting(exports)) {
    for (const [key, value] of Object.entries(record)) {
      if (isCountOfAnother(key, record)) continue;
      const count = countOf(worker, key, record);
      if (isTotal(key)) {
        if (count !== undefined) throw meanAsTotal(worker, key);
        const total = totals.get(key) ?? new RowAccumulator();
        total.add(numberOf(worker, key, value));
        totals.set(key, total);
        continue;
      }
      (count === undefined ? uncounted : counted).add(key);
      if (count === undefined || count === 0) continue;
      const row = mergeKeyRows(
        rows.get(key) ?? emptyKeyRow,
        weightedNumber(numberOf(worker, key, value), count),
      );
      if (weightOf(row) === Infinity) throw countsTooLarge(worker, key, count);
      rows.set(key, row);
    }
  }
  for (const key of counted) {
    if (counted.has(key + COUNT_SUFFIX) || totals.has(key + COUNT_SUFFIX)) throw countTaken(key);
  }
  const without = [...uncounted].filter((key) => !counted.has(key)).sort();
  if (without.length > 0) onWithoutCount(without);
  const numbers = [...rows].flatMap(([key, row]): [string, number][] => [
    [key, mergedMean(row)],
    [key + COUNT_SUFFIX, weightOf(row)],
  ]);
  const sums = [...totals].map(([key, row]): [string, number] => [key, new Moments(momentsRowOf(row)).sum]);
  return exportRecord([...numbers, ...sums]);
}

function totalsOf(totals: unknown): (name: string) => boolean {
  if (totals === undefined) return () => false;
  if (typeof totals === 'function') return totals as (name: string) => boolean;
  if (Array.isArray(totals) && totals.every((name) => typeof name === 'string')) {
    const names = new Set<string>(totals);
    return (name) => names.has(name);
  }
  throw new ValueError({
    where: 'aggregateExports',
    input: 'options.totals',
    expected: 'an array of exported names, or a function of a name',
    received: kindOf(totals),
    remedy: "name what is to be added, e.g. ['rollout/accepted']",
  });
}

function meanAsTotal(worker: number, key: string): ValueError {
  return new ValueError({
    where: 'aggregateExports',
    input: `exports[${worker}]['${key}']`,
    expected: 'a sum, as options.totals says',
    received: `a mean: it has a ${COUNT_SUFFIX}`,
    remedy: 'leave it out of totals; its count is added anyway',
  });
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
    assertRecord('aggregateExports', `exports[${worker}]`, record, {
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
  if (typeof count === 'number' && count >= 0 && count < Infinity) return count;
  throw new ValueError({
    where: 'aggregateExports',
    input: `exports[${worker}]['${name}']`,
    expected: 'a finite number from 0',
    received: kindOf(count),
    remedy: `names that end in ${COUNT_SUFFIX} are counts; rename the key if it is none`,
  });
}

/** No record of a tracker has such a weight: see `LARGEST_WEIGHT`. */
function countsTooLarge(worker: number, key: string, count: number): ValueError {
  return new ValueError({
    where: 'aggregateExports',
    input: `exports[${worker}]['${key}${COUNT_SUFFIX}']`,
    expected: 'counts whose sum over the workers is within float64',
    received: `${kindOf(count)} on top of those before it`,
    remedy: 'scale the weights of all workers by the same factor, which changes no mean',
  });
}

function numberOf(worker: number, key: string, value: unknown): number {
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

/** Between the extremes also in the sign of zero: what all workers have is what comes out. */
function mergedMean(row: KeyRow): number {
  const { mean, min, max } = new Moments(momentsRowOf(row));
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
