/**
 * From recorded rows to exported numbers: one read-back for all trackers, then pure arithmetic.
 *
 * Everything up to the first await happens in the call itself, so a record made after it belongs to the next window.
 */
import { assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { momentsRowOf, nonFiniteCount } from '../../rows/index.js';
import { type Entry, type Segment, merged } from '../records/entry.js';
import { nameTaken } from '../records/key-book.js';
import { Launch } from '../records/launch.js';
import type { Ledger } from '../records/ledger.js';
import { type Reduction, exportedNames, numbersOf } from '../records/reduce-type.js';
import { type StreamReduction, type StreamRow, isStreamReduction } from '../stream/wire/schema.js';
import { type Derivation, addDerived } from './derived.js';
import { byName, exportRecord } from './export-record.js';

export interface ExportOptions {
  /** Export and reset this full key only; an unknown key exports nothing. Derived metrics are left out then. */
  readonly key?: string | undefined;
  /** Forget what was exported; default true. */
  readonly reset?: boolean | undefined;
  /** The window to export, one of the tracker's option `windows`; default the first. */
  readonly window?: string | undefined;
  /** Replaces the rule of every key that has one, e.g. to get at numbers that the rule `error` refuses. */
  readonly nonFinite?: 'propagate' | 'ignore' | undefined;
}

/** Timings carry no tracker name, so the same one may come from several trackers and means the same in all. */
export const timingPrefix = 'timeperf/';

export type RowsOptions = Pick<ExportOptions, 'reset' | 'window'>;

/** All records of one key of one tracker. */
interface Total {
  readonly key: string;
  readonly entry: Entry;
  readonly ledger: Ledger;
}

/**
 * Exports what several trackers have recorded as one record.
 *
 * @param where the public function that asks, for messages
 * @returns names in sorted order
 * @throws ValueError for invalid options; PairingError or KeyConflictError before anything is taken; what a device
 *   has failed with, once per window that has lost rows by it, ValueError for non-finite elements that a rule refuses, and what a derivation throws, after
 *   everything is put back
 */
export async function exportLedgers(
  where: string,
  ledgers: readonly Ledger[],
  options: ExportOptions,
): Promise<Record<string, number>> {
  assertOptions(where, options, { key: 'string', reset: 'boolean', window: 'string', nonFinite: 'any' });
  const { key, nonFinite } = options;
  assertOverride(where, nonFinite);
  return withRecords(where, ledgers, options, (segments) => {
    const numbers = finish(segments, ledgers, nonFinite);
    if (key === undefined) addDerived(numbers, derivationsOf(ledgers));
    return exportRecord(numbers);
  });
}

/**
 * What a tracker has recorded as rows, to be merged with those of others.
 *
 * @throws as `exportLedgers`; ValueError for keys of reduce type `last`, after everything is put back
 */
export async function exportRows(where: string, ledger: Ledger, options: RowsOptions): Promise<StreamRow[]> {
  assertOptions(where, options, { reset: 'boolean', window: 'string' });
  return withRecords(where, [ledger], options, ([segments]) => {
    const totals = [...merged(segments!)].sort(byName).map(([key, entry]) => ({ key, entry, ledger }));
    assertFinite(where, totals);
    return totals.map(({ key, entry }) => {
      const { reduction, nonFinite } = entry.binding;
      const row = entry.row();
      return {
        key,
        reduction: reduction === 'histogram' ? 'avg_min_max' : mergeable(where, key, reduction),
        row: nonFinite === 'ignore' ? row.finite : momentsRowOf(row),
      };
    });
  });
}

/** Takes or looks at what is recorded, reads it, and finishes it; puts everything back if that fails. */
async function withRecords<T>(
  where: string,
  ledgers: readonly Ledger[],
  { key, reset = true, window }: ExportOptions,
  finishAll: (segments: readonly (readonly Segment[])[]) => T,
): Promise<T> {
  const sources = ledgers.map((ledger) => ({ ledger, window: ledger.prepare(where, window, key) }));
  const looks = sources.map((source) => source.ledger.look(source.window, key));
  assertDistinct(looks, ledgers);
  const taken = reset
    ? sources.map(({ ledger, window: name }) => ({ ledger, cut: ledger.take(name, key) }))
    : [];
  const segments = reset ? taken.map(({ cut }) => cut.segments) : looks;
  let finished: T;
  try {
    await readRows(sources, segments);
    finished = finishAll(segments);
  } catch (error) {
    for (const { ledger, cut } of taken) ledger.restore(cut);
    throw error;
  }
  for (const { ledger, cut } of taken) ledger.settle(cut);
  if (!reset) for (const ledger of ledgers) ledger.absorb();
  return finished;
}

/**
 * Brings rows to the host, in one read-back.
 *
 * @throws what the device has failed with, now or when nobody asked, once in every window that has lost rows by it; a
 *   window that has lost by several failures hears of the first and has been told of all
 */
async function readRows(
  sources: readonly { readonly ledger: Ledger; readonly window: string }[],
  segments: readonly (readonly Segment[])[],
): Promise<void> {
  const tell = (): Error[] => sources.flatMap(({ ledger, window }, i) => ledger.tell(window, segments[i]!));
  try {
    await Launch.read(launchesOf(segments));
  } catch (error) {
    tell();
    throw error;
  }
  const [loss] = tell();
  if (loss !== undefined) throw loss;
}

/** @throws ValueError for a number of which the latest counts: of several trackers, nobody knows which is */
function mergeable(where: string, key: string, reduction: Reduction): StreamReduction {
  if (isStreamReduction(reduction)) return reduction;
  throw new ValueError({
    where,
    input: key,
    expected: 'keys whose records can be merged with those of other trackers',
    received: `a scalar of reduce type '${reduction}'`,
    remedy: 'record it as min, max or a mean, or in a tracker of its own',
  });
}

function assertOverride(where: string, rule: unknown): void {
  if (rule === undefined || rule === 'propagate' || rule === 'ignore') return;
  throw new ValueError({
    where,
    input: 'options.nonFinite',
    expected: "'propagate' or 'ignore'",
    received: kindOf(rule),
    remedy: 'leave it out for the rule of each key',
  });
}

function launchesOf(segments: readonly (readonly Segment[])[]): Launch[] {
  return segments
    .flat()
    .flatMap((segment) => [...segment.values()].flatMap(({ parts }) => parts.map(({ launch }) => launch)));
}

/** Two trackers may share a timing, nothing else; in parity mode the last one wins. */
function assertDistinct(looks: readonly (readonly Segment[])[], ledgers: readonly Ledger[]): void {
  if (ledgers.length < 2) return;
  const owners = new Map<string, { key: string; ledger: Ledger; isTiming: boolean }>();
  for (const [i, ledger] of ledgers.entries()) {
    const entries = new Map(looks[i]!.flatMap((segment) => [...segment]));
    for (const [key, { binding }] of entries) {
      const isShared = isTiming(key, binding);
      for (const name of exportedNames(key, binding.reduction, binding.nonFinite)) {
        const owner = owners.get(name);
        owners.set(name, { key, ledger, isTiming: isShared });
        if (owner === undefined || owner.ledger === ledger) continue;
        if (isShared && owner.isTiming && owner.key === key) continue;
        if (ledger.settings.mode === 'strict') {
          const taken = `'${owner.key}' of ${owner.ledger.label}`;
          throw nameTaken('exportAll', key, name, taken, `one of ${ledger.label}`);
        }
        ledger.noteNameTaken(key, name, owner.ledger);
      }
    }
  }
}

function isTiming(key: string, { reduction }: Entry['binding']): boolean {
  return reduction === 'scalar' && key.startsWith(timingPrefix);
}

/** Merges rows in record order, so the same records always give the same bits. */
function finish(
  segments: readonly (readonly Segment[])[],
  ledgers: readonly Ledger[],
  override: 'propagate' | 'ignore' | undefined,
): Map<string, number> {
  const totals: Total[] = [];
  const timings = new Map<string, number>();
  for (const [i, ledger] of ledgers.entries()) {
    for (const [key, entry] of merged(segments[i]!)) {
      const earlier = isTiming(key, entry.binding) ? timings.get(key) : undefined;
      if (earlier !== undefined) {
        totals[earlier] = { key, ledger, entry: totals[earlier]!.entry.followedBy(entry) };
        continue;
      }
      if (isTiming(key, entry.binding)) timings.set(key, totals.length);
      totals.push({ key, ledger, entry });
    }
  }
  if (override === undefined) assertFinite('export', totals);
  const numbers = new Map<string, number>();
  for (const { key, entry } of totals) {
    const { reduction, nonFinite } = entry.binding;
    const rule = nonFinite === undefined ? undefined : (override ?? nonFinite);
    for (const [name, number] of numbersOf(key, reduction, entry.row(), rule)) numbers.set(name, number);
  }
  return numbers;
}

/** @throws ValueError naming the keys whose rule refuses what they have recorded */
function assertFinite(where: string, totals: readonly Total[]): void {
  const broken = totals.filter(
    ({ entry }) => entry.binding.nonFinite === 'error' && nonFiniteCount(entry.row()) > 0,
  );
  if (broken.length === 0) return;
  throw new ValueError({
    where,
    input: broken.map(({ key }) => key).join(', '),
    expected: "finite elements under the rule nonFinite 'error'",
    received: broken.map(({ entry }) => `${String(nonFiniteCount(entry.row()))} that are not`).join(', '),
    remedy:
      "look for what made them; nothing is lost: export({ nonFinite: 'ignore' }) leaves them out, dispose() drops all",
  });
}

/** The derived metrics of all trackers; one that several declare alike is one. */
function derivationsOf(ledgers: readonly Ledger[]): Map<string, Derivation> {
  const all = new Map<string, Derivation>();
  for (const { settings } of ledgers) {
    for (const [name, derivation] of settings.derived) {
      if ((all.get(name) ?? derivation) !== derivation)
        throw nameTaken('exportAll', name, name, 'a derived metric of another tracker');
      all.set(name, derivation);
    }
  }
  return all;
}
