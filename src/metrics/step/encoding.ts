/**
 * A step's state as bytes: a header in JSON that says what there is, then all numbers as float64.
 *
 *   0  uint32   mark, which also tells the byte order
 *   4  uint32   bytes of the header, a multiple of 8
 *   8  header   JSON in UTF-8, padded with spaces
 *      float64  the tables, each once though families share them; lengths; columns; global_token_num
 */
import { ValueError } from '../../errors.js';
import { kindOf } from '../../kernels/arguments.js';
import { MomentsTable } from '../../kernels/index.js';
import type { GroupId } from '../groups.js';
import type { StateContents } from './contents.js';
import { type FamilyOptions, type FamilyTables, type TensorFamily, tensorFamilies } from './families.js';

const MARK = 0x54535431;
const FORMAT = 1;
const PREFIX = 8;

interface Header extends Pick<
  StateContents,
  'rows' | 'skipped' | 'families' | 'responseWidth' | 'promptWidth'
> {
  readonly format: number;
  readonly options: FamilyOptions;
  /** By family and channel, which of the tables. */
  readonly channels: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly tables: number;
  /** Why the lengths are unknown; undefined if they follow. */
  readonly unknownLengths?: string;
  readonly hasNumTurns: boolean;
  readonly hasToolCallCounts: boolean;
  readonly groups?: readonly string[];
  /** Entries of global_token_num. */
  readonly globalTokens?: number;
}

/** The state as bytes. */
export function encodeState(contents: StateContents): Uint8Array {
  const { rows, skipped, families, responseWidth, promptWidth, options, lengths } = contents;
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
    format: FORMAT,
    ...{ rows, skipped, families, responseWidth, promptWidth, options, channels },
    tables: tables.size,
    ...(typeof lengths === 'string' && { unknownLengths: lengths }),
    hasNumTurns: numTurns !== undefined,
    hasToolCallCounts: toolCallCounts !== undefined,
    ...(groups && { groups: groups.map(spelled) }),
    ...(globalTokenNum && { globalTokens: globalTokenNum.length }),
  };
  const body = [
    ...Array.from(tables.keys(), ({ cells }) => cells),
    ...(typeof lengths === 'string' ? [] : [lengths.prompt, lengths.response]),
    ...[numTurns, toolCallCounts, globalTokenNum].filter((list) => list !== undefined),
  ];
  const text = new TextEncoder().encode(JSON.stringify(header, infinitiesSpelled));
  const headerBytes = Math.ceil(text.length / 8) * 8;
  const size = PREFIX + headerBytes + body.reduce((sum, list) => sum + list.byteLength, 0);
  const bytes = new Uint8Array(size);
  new Uint32Array(bytes.buffer, 0, 2).set([MARK, headerBytes]);
  bytes.fill(0x20, PREFIX, PREFIX + headerBytes).set(text, PREFIX);
  let at = PREFIX + headerBytes;
  for (const list of body) {
    new Float64Array(bytes.buffer, at, list.length).set(list);
    at += list.byteLength;
  }
  return bytes;
}

/** @throws ValueError for what `encodeState` did not make */
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
  // Bytes that came in a larger buffer may begin anywhere in it; float64 may not.
  const { buffer } = bytes.slice();
  if (buffer.byteLength < PREFIX) return refuse(`${buffer.byteLength} bytes`);
  const [mark, headerBytes] = new Uint32Array(buffer, 0, 2) as unknown as [number, number];
  if (mark !== MARK) return refuse('bytes of something else');
  const bodyAt = PREFIX + headerBytes;
  if (headerBytes % 8 !== 0 || bodyAt > buffer.byteLength) return refuse('a part of them');
  const header = headerOf(new TextDecoder().decode(new Uint8Array(buffer, PREFIX, headerBytes)));
  if (header === undefined) return refuse('bytes of another version');
  const { rows, tables: count, unknownLengths, hasNumTurns, hasToolCallCounts, globalTokens } = header;
  const columns = (unknownLengths === undefined ? 2 : 0) + Number(hasNumTurns) + Number(hasToolCallCounts);
  const numbers = rows * (count * MomentsTable.WIDTH + columns) + (globalTokens ?? 0);
  if (bodyAt + 8 * numbers !== buffer.byteLength) return refuse('a part of them, or more');

  let at = bodyAt;
  const next = (length: number): Float64Array => {
    const list = new Float64Array(buffer, at, length);
    at += list.byteLength;
    return list;
  };
  const tables = Array.from({ length: count }, () => {
    const table = new MomentsTable(rows);
    table.cells.set(next(rows * MomentsTable.WIDTH));
    return table;
  });
  const tablesOf = (places: Readonly<Record<string, number>>): FamilyTables =>
    Object.fromEntries(Object.entries(places).map(([channel, place]) => [channel, tables[place]!]));
  const { skipped, families, responseWidth, promptWidth, options, channels, groups } = header;
  return {
    ...{ rows, skipped, families, responseWidth, promptWidth, options },
    tables: Object.fromEntries(
      Object.entries(channels).map(([family, places]) => [family as TensorFamily, tablesOf(places)]),
    ),
    lengths: unknownLengths ?? { prompt: next(rows), response: next(rows) },
    numTurns: hasNumTurns ? next(rows) : undefined,
    toolCallCounts: hasToolCallCounts ? next(rows) : undefined,
    groups: groups?.map(unspelled),
    globalTokenNum: globalTokens === undefined ? undefined : next(globalTokens),
  };
}

/** The header, if it is one of this version. */
function headerOf(text: string): Header | undefined {
  try {
    const header = JSON.parse(text, infinitiesRead) as Header;
    const isKnown = (family: string): boolean => (tensorFamilies as readonly string[]).includes(family);
    return header.format === FORMAT && Object.keys(header.channels).every(isKnown) ? header : undefined;
  } catch {
    return undefined;
  }
}

/** JSON has no infinities; among the options there can be some. No option is a text that looks like this. */
function infinitiesSpelled(_key: string, value: unknown): unknown {
  return value === Infinity || value === -Infinity ? `#${value}` : value;
}

function infinitiesRead(_key: string, value: unknown): unknown {
  return value === '#Infinity' ? Infinity : value === '#-Infinity' ? -Infinity : value;
}

/** A group's id with its type: 1 and '1' are two groups. */
function spelled(id: GroupId): string {
  return typeof id === 'number' ? `n${id}` : `s${id}`;
}

function unspelled(text: string): GroupId {
  return text.startsWith('n') ? Number(text.slice(1)) : text.slice(1);
}
