/**
 * From recorded rows to exported numbers: one read-back for all trackers, then pure arithmetic.
 *
 * Everything up to the first await happens in the call itself, so a record made after it belongs to the next window.
 */
import { assertOptions } from '../kernels/arguments.js';
import { emptyRow, mergeRows } from '../kernels/index.js';
import { Launch } from './launch.js';
import type { Ledger } from './ledger.js';
import { exportedNames, exportedNumbers } from './reduce-type.js';
import { type Entry, nameTaken } from './window.js';

export interface ExportOptions {
  /** Export and reset this full key only; an unknown key exports nothing. */
  readonly key?: string | undefined;
  /** Forget what was exported; default true. */
  readonly reset?: boolean | undefined;
}

/** Timings carry no tracker name, so the same one may come from several trackers and means the same in all. */
export const timingPrefix = 'timeperf/';

/**
 * Exports what several trackers have recorded as one record.
 *
 * @param where the public function that asks, for messages
 * @returns names in sorted order
 * @throws ValueError for options that are none; PairingError or KeyConflictError before anything is taken; what a failed read-back throws after everything
 *   is put back
 */
export async function exportLedgers(
  where: string,
  ledgers: readonly Ledger[],
  options: ExportOptions,
): Promise<Record<string, number>> {
  assertOptions(where, options, { key: 'string', reset: 'boolean' });
  const { key, reset = true } = options;
  for (const ledger of ledgers) ledger.prepare(key);
  const entries = ledgers.flatMap((ledger) => ledger.entries(key));
  assertDistinct(entries);
  const taken = reset ? ledgers.map((ledger) => ({ ledger, window: ledger.take(key) })) : [];
  try {
    await Launch.read(entries.flatMap(([, { parts }]) => parts.map(({ launch }) => launch)));
  } catch (error) {
    for (const { ledger, window } of taken) ledger.restore(window);
    throw error;
  }
  for (const { ledger, window } of taken) ledger.settle(window);
  return finish(entries);
}

/** Two trackers may share a timing, nothing else. */
function assertDistinct(entries: readonly [key: string, entry: Entry][]): void {
  const owners = new Map<string, { key: string; isTiming: boolean }>();
  for (const [key, { binding }] of entries) {
    const isTiming = binding.reduction === 'scalar' && key.startsWith(timingPrefix);
    for (const name of exportedNames(key, binding.reduction)) {
      const owner = owners.get(name);
      const shared = isTiming && owner?.isTiming === true && owner.key === key;
      if (owner !== undefined && !shared) throw nameTaken('exportAll', key, name, owner.key);
      owners.set(name, { key, isTiming });
    }
  }
}

/** Merges rows in record order, so the same records always give the same bits. */
function finish(entries: readonly [key: string, entry: Entry][]): Record<string, number> {
  const totals = new Map<string, { entry: Entry; row: Entry['row'] }>();
  for (const [key, entry] of entries) {
    let { row } = totals.get(key) ?? { row: emptyRow };
    row = mergeRows(row, entry.row);
    for (const part of entry.parts) row = mergeRows(row, part.launch.row(part.key));
    totals.set(key, { entry, row });
  }
  const numbers = [...totals].flatMap(([key, { entry, row }]) =>
    exportedNumbers(key, entry.binding.reduction, row),
  );
  return Object.fromEntries(numbers.sort(([a], [b]) => (a < b ? -1 : 1)));
}
