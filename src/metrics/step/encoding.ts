/**
 * What sealed bytes hold of a step's state.
 *
 *   head     JSON in UTF-8 that says what there is, padded with spaces
 *   float64  the tables, each once though families share them; lengths; columns; global_token_num
 *
 * Every row has numbers, if only a column of zeros, so that the size of the bytes bounds what reading takes.
 */
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { MomentsTable, NumbersReader, packTable, packedLength, seal, unsealed } from '../../rows/index.js';
import type { GroupId } from '../groups.js';
import type { StateContents } from './contents.js';
import type { FamilyTables, TensorFamily } from './families.js';
import { scanFault } from './header-scan.js';
import { type Header, faultOf, isBare } from './header.js';

const SPACE = 0x20;

/** The state as bytes. */
export function encodeState(contents: StateContents): Uint8Array {
  const { rows, skipped, families, responseWidth, promptWidth, isFullSequence, options, lengths } = contents;
  const { numTurns, toolCallCounts, groups, globalTokenNum } = contents;
  const tables = new Map<MomentsTable, number>();
  const placeOf = (table: MomentsTable): number => {
    if (!tables.has(table)) tables.set(table, tables.size);
    return tables.get(table)!;
  };
  const channels = Object.fromEntries(
    Object.entries(contents.tables).map(([family, own]) => [
      family,
      Object.fromEntries(Object.entries(own).map(([channel, table]) => [channel, placeOf(table)])),
    ]),
  );
  const header: Header = {
    ...{ rows, skipped, responseWidth, promptWidth, isFullSequence, options, channels },
    families: families && [...new Set(families)],
    tables: tables.size,
    ...([...tables.keys()].some(({ length }) => length !== rows) && {
      tableRows: Array.from(tables.keys(), ({ length }) => length),
    }),
    unknownLengths: {
      ...(typeof lengths.prompt === 'string' && { prompt: lengths.prompt }),
      ...(typeof lengths.response === 'string' && { response: lengths.response }),
    },
    hasNumTurns: numTurns !== undefined,
    hasToolCallCounts: toolCallCounts !== undefined,
    ...(groups && { groups: groups.map(spelled) }),
    ...(globalTokenNum && { globalTokens: globalTokenNum.length }),
  };
  const lists = [
    ...[lengths.prompt, lengths.response].filter((list) => typeof list !== 'string'),
    ...[numTurns, toolCallCounts, globalTokenNum].filter((list) => list !== undefined),
    ...(isBare(header) ? [new Float64Array(rows)] : []),
  ];
  const packed = Array.from(tables.keys());
  const count =
    packed.reduce((sum, table) => sum + packedLength(table), 0) +
    lists.reduce((sum, list) => sum + list.length, 0);
  const text = new TextEncoder().encode(JSON.stringify(header, infinitiesSpelled));
  const write = (numbers: Float64Array): void => {
    let at = packed.reduce((start, table) => packTable(table, numbers, start), 0);
    for (const list of lists) {
      numbers.set(list, at);
      at += list.length;
    }
  };
  return seal('stepState', text, count, write, SPACE);
}

/** @throws ValueError for what `encodeState` did not make, whatever it is and however little of it is changed */
export function decodeState(where: string, bytes: Uint8Array): StateContents {
  const refusal = (received: string): ValueError =>
    new ValueError({
      where,
      input: 'bytes',
      expected: 'what StepState#toBytes made, whole, in the same version and on the same kind of machine',
      received,
      remedy: 'send the bytes as they are, e.g. through a ReduceGroup',
    });
  const refuse = (received: string): never => {
    throw refusal(received);
  };
  if (!(bytes instanceof Uint8Array)) return refuse(kindOf(bytes));
  const opened = unsealed('stepState', bytes);
  if (typeof opened === 'string') return refuse(opened);
  const header = headerOf(where, opened.head, opened.numbers.length);
  if (typeof header === 'string') return refuse(`bytes with ${header}`);
  const { rows, tables: count, unknownLengths, hasNumTurns, hasToolCallCounts, globalTokens } = header;
  const reader = new NumbersReader(opened.numbers, (received) => refusal(`bytes with ${received}`));
  const counts = (what: string, length: number): Float64Array => {
    // A copy: a state keeps nothing of the bytes.
    const list = reader.next(length).slice();
    const stranger = list.find((count) => !(count >= 0 && count < Infinity));
    return stranger === undefined ? list : refuse(`bytes with the number ${stranger} of ${what}`);
  };
  const tables = (header.tableRows ?? Array<number>(count).fill(rows)).map((length) => {
    const table = reader.table(length);
    for (let i = 0; i < length; i++) {
      if (!isCounted(table, i)) return refuse('bytes with moments that count nothing');
    }
    return table;
  });
  const tablesOf = (places: Readonly<Record<string, number>>): FamilyTables =>
    Object.fromEntries(Object.entries(places).map(([channel, place]) => [channel, tables[place]!]));
  const { skipped, families, responseWidth, promptWidth, isFullSequence, options, channels, groups } = header;
  const state = {
    ...{ rows, skipped, families, responseWidth, promptWidth, isFullSequence, options },
    tables: Object.fromEntries(
      Object.entries(channels).map(([family, places]) => [family as TensorFamily, tablesOf(places)]),
    ),
    lengths: {
      prompt: unknownLengths.prompt ?? counts('prompt tokens', rows),
      response: unknownLengths.response ?? counts('response tokens', rows),
    },
    numTurns: hasNumTurns ? counts('turns', rows) : undefined,
    toolCallCounts: hasToolCallCounts ? counts('tool calls', rows) : undefined,
    groups: groups?.map(unspelled),
    globalTokenNum: globalTokens === undefined ? undefined : counts('tokens', globalTokens),
  };
  if (isBare(header) && reader.next(rows).some((zero) => zero !== 0))
    return refuse('bytes with numbers of no row');
  reader.end();
  return state;
}

/** Whether what a row counts are elements: the masks of a step have no weights. */
function isCounted({ cells }: MomentsTable, i: number): boolean {
  const at = i * MomentsTable.WIDTH;
  for (let field = at; field < at + 4; field++) if (!Number.isSafeInteger(cells[field])) return false;
  return true;
}

/**
 * The header, or what is wrong with it.
 *
 * @param numbers in the body; each row has one or more
 */
function headerOf(where: string, bytes: Uint8Array, numbers: number): Header | string {
  const fault = scanFault(bytes, numbers);
  if (fault !== undefined) return fault;
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return 'a header that is no JSON';
  }
  if (typeof header === 'object' && header !== null && 'options' in header) {
    // Not by a reviver of the whole: to be called for every group would take many times their memory.
    header = { ...header, options: withInfinities(header.options) };
  }
  return faultOf(where, header) ?? (header as Header);
}

/** JSON has no infinities; among the options there can be some. No option is a text that looks like this. */
function infinitiesSpelled(_key: string, value: unknown): unknown {
  return value === Infinity || value === -Infinity ? `#${value}` : value;
}

function withInfinities(value: unknown): unknown {
  if (value === '#Infinity') return Infinity;
  if (value === '#-Infinity') return -Infinity;
  if (Array.isArray(value)) return value.map(withInfinities);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, withInfinities(part)]));
}

/** A group's id with its type: 1 and '1' are two groups. */
function spelled(id: GroupId): string {
  return typeof id === 'number' ? `n${id}` : `s${id}`;
}

function unspelled(text: string): GroupId {
  return text.startsWith('n') ? Number(text.slice(1)) : text.slice(1);
}
