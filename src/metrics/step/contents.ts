/** What the state of a step holds, and how the contents of several become those of one. */
import { MomentsTable } from '../../kernels/index.js';
import type { GroupId } from '../groups.js';
import type { RowLengths } from '../lengths.js';
import type { FamilyOptions, FamilyTables, Skipped, StepFamily, TensorFamily } from './families.js';

/** What a state holds. Lists have one entry per row. */
export interface StateContents {
  readonly options: FamilyOptions;
  readonly rows: number;
  readonly tables: Readonly<Partial<Record<TensorFamily, FamilyTables>>>;
  /** Why a wanted family that looks at tensors is missing. */
  readonly skipped: Skipped;
  /** Families that are wanted; undefined for all. */
  readonly families: readonly StepFamily[] | undefined;
  /** The lengths of the rows, or why nobody knows them. */
  readonly lengths: RowLengths | string;
  readonly responseWidth: number | undefined;
  readonly promptWidth: number | undefined;
  readonly numTurns: Float64Array | undefined;
  readonly toolCallCounts: Float64Array | undefined;
  readonly groups: readonly GroupId[] | undefined;
  /** Tokens of every sequence of the global batch; not one per row. */
  readonly globalTokenNum: Float64Array | undefined;
}

/** What keeps two states from being parts of one step; undefined if nothing does. */
export function differenceOf(a: StateContents, b: StateContents): string | undefined {
  const inputsOf = ({ tables, lengths, ...contents }: StateContents): unknown => [
    Object.entries(tables).map(([family, own]) => [family, Object.keys(own)]),
    typeof lengths,
    ...(['numTurns', 'toolCallCounts', 'groups'] as const).map((field) => contents[field] === undefined),
  ];
  const tokensOf = ({ globalTokenNum }: StateContents): unknown => globalTokenNum && [...globalTokenNum];
  const isSame = (of: (contents: StateContents) => unknown): boolean =>
    JSON.stringify(of(a)) === JSON.stringify(of(b));
  if (!isSame(({ options, families }) => [sorted(options), families])) return 'options';
  if (!isSame(inputsOf)) return 'inputs and families';
  return isSame(tokensOf) ? undefined : 'list of global_token_num, which is of all ranks,';
}

/** The same options in one order, whatever order they were written in. */
function sorted(value: unknown): unknown {
  if (typeof value === 'number') return String(value); // JSON has no infinities
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, own]) => own !== undefined);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, own]) => [name, sorted(own)]);
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
          join(all.map((contents) => contents.tables[family as TensorFamily]![channel]!)),
        ]),
      ),
    ]),
  );
  const column = (of: (contents: StateContents) => Float64Array | undefined): Float64Array | undefined =>
    of(first) && joined(all.map((contents) => of(contents)!));
  const lengthsOf = (of: 'prompt' | 'response'): Float64Array =>
    joined(all.map(({ lengths }) => (lengths as RowLengths)[of]));
  const widest = (of: (contents: StateContents) => number | undefined): number | undefined => {
    const widths = all.map(of);
    return widths.some((width) => width === undefined) ? undefined : Math.max(...(widths as number[]));
  };
  return {
    ...first,
    rows,
    tables,
    lengths:
      typeof first.lengths === 'string'
        ? first.lengths
        : { prompt: lengthsOf('prompt'), response: lengthsOf('response') },
    responseWidth: widest(({ responseWidth }) => responseWidth),
    promptWidth: widest(({ promptWidth }) => promptWidth),
    numTurns: column(({ numTurns }) => numTurns),
    toolCallCounts: column(({ toolCallCounts }) => toolCallCounts),
    groups: first.groups && all.flatMap(({ groups }) => groups!),
  };
}

/** Joins tables one below the other; families that share a channel go on sharing it. */
function joinedTables(): (tables: readonly MomentsTable[]) => MomentsTable {
  const numbers = new Map<MomentsTable, number>();
  const known = new Map<string, MomentsTable>();
  const numberOf = (table: MomentsTable): number => {
    if (!numbers.has(table)) numbers.set(table, numbers.size);
    return numbers.get(table)!;
  };
  return (tables) => {
    const key = tables.map(numberOf).join(' ');
    let table = known.get(key);
    if (table === undefined) {
      table = new MomentsTable(tables.reduce((rows, { length }) => rows + length, 0));
      let at = 0;
      for (const { cells } of tables) {
        table.cells.set(cells, at);
        at += cells.length;
      }
      known.set(key, table);
    }
    return table;
  };
}

function joined(lists: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(lists.reduce((length, list) => length + list.length, 0));
  let at = 0;
  for (const list of lists) {
    all.set(list, at);
    at += list.length;
  }
  return all;
}
