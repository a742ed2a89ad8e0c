/** What the state of a step holds, and how the contents of several become those of one. */
import { joined } from '../../kernels/typed-arrays.js';
import { MomentsTable } from '../../rows/index.js';
import type { KnownLengths, RowLengths } from '../batch/lengths.js';
import type { GroupId } from '../groups.js';
import { effectiveOptions } from './effective-options.js';
import {
  type FamilyOptions,
  type FamilyTables,
  type Skipped,
  type StepFamily,
  type TensorFamily,
  tensorFamilies,
} from './families.js';

/** One number of tokens per row, or why nobody knows them. */
export type StateLengths = { readonly [Part in keyof RowLengths]: Float64Array | string };

/** The lengths that are known. */
export function knownLengths({ prompt, response }: StateLengths): KnownLengths {
  const known = (list: Float64Array | string): Float64Array | undefined =>
    typeof list === 'string' ? undefined : list;
  return { prompt: known(prompt), response: known(response) };
}

/** What a state holds. Lists have one entry per row. */
export interface StateContents {
  readonly options: FamilyOptions;
  readonly rows: number;
  readonly tables: Readonly<Partial<Record<TensorFamily, FamilyTables>>>;
  /** Why a wanted family that looks at tensors is missing, or some of its keys are. */
  readonly skipped: Skipped;
  /** Families that are wanted; undefined for all. */
  readonly families: readonly StepFamily[] | undefined;
  readonly lengths: StateLengths;
  readonly responseWidth: number | undefined;
  readonly promptWidth: number | undefined;
  /** See `RolloutBatch`. */
  readonly isFullSequence: boolean | undefined;
  readonly numTurns: Float64Array | undefined;
  readonly toolCallCounts: Float64Array | undefined;
  readonly groups: readonly GroupId[] | undefined;
  /** Tokens of every sequence of the global batch; not one per row. */
  readonly globalTokenNum: Float64Array | undefined;
}

/** What two states differ in, and how. */
export interface Difference {
  /** As a part of the states, e.g. `options.semantics`. */
  readonly part: string;
  readonly expected: string;
  readonly received: string;
}

/** What keeps two states from being parts of one step; undefined if nothing does. */
export function differenceOf(where: string, a: StateContents, b: StateContents): Difference | undefined {
  const [ofA, ofB] = [partsOf(where, a), partsOf(where, b)];
  for (const [part, expected] of ofA) {
    const received = ofB.get(part);
    if (received !== expected && !(isAbsent(expected) && isAbsent(received))) {
      return { part, expected: brief(expected), received: brief(received ?? ABSENT) };
    }
  }
  const more = [...ofB].find(([part]) => !ofA.has(part));
  return more && { part: more[0], expected: ABSENT, received: brief(more[1]) };
}

const ABSENT = 'none';

/** Whatever the reason. */
function isAbsent(text: string | undefined): boolean {
  return text === undefined || text === ABSENT || text.startsWith(`${ABSENT} (`);
}

function brief(text: string): string {
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

/** All that must be the same in two states, by name. */
function partsOf(where: string, contents: StateContents): Map<string, string> {
  const { options, families, tables, skipped, lengths, globalTokenNum, isFullSequence = false } = contents;
  const parts = Object.entries(effectiveOptions(where, options, families)).map(
    ([name, value]) => [`options.${name}`, value] as const,
  );
  return new Map<string, string>([
    ...parts,
    ...tensorFamilies.map((family): [string, string] => {
      const own = tables[family];
      const why = skipped[family] === undefined ? ABSENT : `${ABSENT} (${skipped[family]})`;
      return [`family ${family}`, own === undefined ? why : `one of ${Object.keys(own).sort().join(', ')}`];
    }),
    ...(['prompt', 'response'] as const).map((part): [string, string] => {
      const own = lengths[part];
      return [`${part} lengths of the rows`, typeof own === 'string' ? `${ABSENT} (${own})` : 'known'];
    }),
    ...(['numTurns', 'toolCallCounts'] as const).map((field): [string, string] => [
      `batch.${field}`,
      contents[field] === undefined ? ABSENT : 'a list',
    ]),
    ['batch.isFullSequence', String(isFullSequence)],
    [
      'batch.globalTokenNum (global_token_num, which is of all ranks)',
      globalTokenNum === undefined ? ABSENT : `[${globalTokenNum.join(', ')}]`,
    ],
  ]);
}

/** The contents of all, in this order, which fit each other. */
export function mergedContents(all: readonly [StateContents, ...StateContents[]]): StateContents {
  const [first] = all;
  const rows = all.reduce((sum, contents) => sum + contents.rows, 0);
  const join = joinedTables();
  const tables = Object.fromEntries(
    Object.entries(first.tables).map(([family, own]) => [
      family,
      Object.fromEntries(
        Object.keys(own).map((channel) => [
          channel,
          join(
            all.map((contents) => ({
              of: contents.rows,
              table: contents.tables[family as TensorFamily]![channel]!,
            })),
          ),
        ]),
      ),
    ]),
  );
  const column = (of: (contents: StateContents) => Float64Array | undefined): Float64Array | undefined =>
    of(first) &&
    joined(
      Float64Array,
      all.map((contents) => of(contents)!),
    );
  const lengthsOf = (part: keyof RowLengths): Float64Array | string => {
    const own = first.lengths[part];
    if (typeof own === 'string') return own;
    return joined(
      Float64Array,
      all.map(({ lengths }) => lengths[part] as Float64Array),
    );
  };
  const widest = (of: (contents: StateContents) => number | undefined): number | undefined => {
    const widths = all.map(of);
    return widths.some((width) => width === undefined)
      ? undefined
      : (widths as number[]).reduce((most, width) => Math.max(most, width));
  };
  return {
    ...first,
    rows,
    tables,
    lengths: { prompt: lengthsOf('prompt'), response: lengthsOf('response') },
    responseWidth: widest(({ responseWidth }) => responseWidth),
    promptWidth: widest(({ promptWidth }) => promptWidth),
    numTurns: column(({ numTurns }) => numTurns),
    toolCallCounts: column(({ toolCallCounts }) => toolCallCounts),
    groups: first.groups && all.flatMap(({ groups }) => groups!),
  };
}

/**
 * Joins tables one below the other, and totals, which have fewer rows than their part of the batch, to one; families that share a
 * channel go on sharing it.
 */
function joinedTables(): (
  parts: readonly { readonly of: number; readonly table: MomentsTable }[],
) => MomentsTable {
  const numbers = new Map<MomentsTable, number>();
  const known = new Map<string, MomentsTable>();
  const numberOf = (table: MomentsTable): number => {
    if (!numbers.has(table)) numbers.set(table, numbers.size);
    return numbers.get(table)!;
  };
  return (parts) => {
    const tables = parts.map((part) => part.table);
    const key = tables.map(numberOf).join(' ');
    let table = known.get(key);
    if (table === undefined) {
      table = new MomentsTable(tables.reduce((rows, { length }) => rows + length, 0));
      let at = 0;
      for (const { cells } of tables) {
        table.cells.set(cells, at);
        at += cells.length;
      }
      if (parts.some((part) => part.table.length !== part.of)) table = table.merged();
      known.set(key, table);
    }
    return table;
  };
}
