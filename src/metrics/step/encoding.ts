/**
 * A step's state as bytes: a header in JSON that says what there is, then all numbers as float64.
 *
 *   0  uint32   mark, which also tells the byte order
 *   4  uint32   number of this format
 *   8  uint32   bytes of the header, a multiple of 8
 *  12  uint32   checksum of everything else
 *  16  header   JSON in UTF-8, padded with spaces
 *      float64  the tables, each once though families share them; lengths; columns; global_token_num
 *
 * Every row has numbers in the body, if only a column of zeros, so that the size of the bytes bounds what reading takes.
 */
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { rowFault, MomentsTable } from '../../rows/index.js';
import type { GroupId } from '../groups.js';
import { checksumBut } from './checksum.js';
import type { StateContents } from './contents.js';
import type { FamilyTables, TensorFamily } from './families.js';
import { scanFault } from './header-scan.js';
import { type Header, faultOf, isBare } from './header.js';

const MARK = 0x54535431;
const FORMAT = 3;
/** Bytes before the header. */
const PREFIX = 16;
/** Which of the words is the checksum. */
const CHECKSUM_AT = 3;

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
  const body = [
    ...Array.from(tables.keys(), ({ cells }) => cells),
    ...[lengths.prompt, lengths.response].filter((list) => typeof list !== 'string'),
    ...[numTurns, toolCallCounts, globalTokenNum].filter((list) => list !== undefined),
    ...(isBare(header) ? [new Float64Array(rows)] : []),
  ];
  const text = new TextEncoder().encode(JSON.stringify(header, infinitiesSpelled));
  const headerBytes = Math.ceil(text.length / 8) * 8;
  const size = PREFIX + headerBytes + body.reduce((sum, list) => sum + list.byteLength, 0);
  const bytes = new Uint8Array(size);
  const words = new Uint32Array(bytes.buffer);
  words.set([MARK, FORMAT, headerBytes]);
  bytes.fill(0x20, PREFIX, PREFIX + headerBytes).set(text, PREFIX);
  let at = PREFIX + headerBytes;
  for (const list of body) {
    new Float64Array(bytes.buffer, at, list.length).set(list);
    at += list.byteLength;
  }
  words[CHECKSUM_AT] = checksumBut(CHECKSUM_AT, words);
  return bytes;
}

/** @throws ValueError for what `encodeState` did not make, whatever it is and however little of it is changed */
export function decodeState(where: string, bytes: Uint8Array): StateContents {
  const refuse = (received: string): never => {
    throw new ValueError({
      where,
      input: 'bytes',
      expected: 'what StepState#toBytes made, whole, in the same version and on the same kind of machine',
      received,
      remedy: 'send the bytes as they are, e.g. through a ReduceGroup',
    });
  };
  if (!(bytes instanceof Uint8Array)) return refuse(kindOf(bytes));
  // Bytes that came in a larger buffer may begin anywhere in it; float64 may not. Not slice(): Node's Buffers share theirs.
  const { buffer } = new Uint8Array(bytes);
  const { byteLength } = buffer;
  if (byteLength < PREFIX || byteLength % 8 !== 0) return refuse(`${byteLength} bytes`);
  const words = new Uint32Array(buffer);
  const [mark, format, headerBytes, checksum] = words as unknown as [number, number, number, number];
  if (mark !== MARK) return refuse('bytes of something else');
  if (format !== FORMAT) return refuse(`bytes of format ${format}, which is not ${FORMAT}`);
  if (checksum !== checksumBut(CHECKSUM_AT, words))
    return refuse('a part of them, or bytes that were changed');
  const bodyAt = PREFIX + headerBytes;
  if (headerBytes % 8 !== 0 || bodyAt > byteLength) return refuse('a part of them');
  const header = headerOf(where, new Uint8Array(buffer, PREFIX, headerBytes), (byteLength - bodyAt) / 8);
  if (typeof header === 'string') return refuse(`bytes with ${header}`);
  const { rows, tables: count, unknownLengths, hasNumTurns, hasToolCallCounts, globalTokens } = header;
  const known = 2 - Object.keys(unknownLengths).length;
  const columns = known + Number(hasNumTurns) + Number(hasToolCallCounts) + Number(isBare(header));
  const tableRows = header.tableRows ?? Array<number>(count).fill(rows);
  const records = tableRows.reduce((sum, length) => sum + length, 0);
  const numbers = records * MomentsTable.WIDTH + rows * columns + (globalTokens ?? 0);
  if (bodyAt + 8 * numbers !== byteLength) return refuse('a part of them, or more');

  let at = bodyAt;
  const next = (length: number): Float64Array => {
    const list = new Float64Array(buffer, at, length);
    at += list.byteLength;
    return list;
  };
  const counts = (what: string, length: number): Float64Array => {
    const list = next(length);
    const stranger = list.find((count) => !(count >= 0 && count < Infinity));
    return stranger === undefined ? list : refuse(`bytes with the number ${stranger} of ${what}`);
  };
  const tables = tableRows.map((length) => {
    const table = new MomentsTable(length);
    table.cells.set(next(length * MomentsTable.WIDTH));
    for (let i = 0; i < length; i++) {
      if (!isCounted(table, i)) return refuse('bytes with moments that count nothing');
      const fault = rowFault(table, i);
      if (fault !== undefined) return refuse(`bytes with ${fault}`);
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
  if (isBare(header) && next(rows).some((zero) => zero !== 0)) return refuse('bytes with numbers of no row');
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
