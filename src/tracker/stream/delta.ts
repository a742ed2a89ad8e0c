/**
 * A delta: what one worker has recorded since its last one, and its form on the wire.
 *
 * Little endian, without padding:
 *
 *     u8 version · u8 flags · u16 keys in the schema · f64 epoch · f64 sequence number · f64 fingerprint
 *     [f64 policy version] · u16 length, worker id · [f64 fingerprint of the parent] · [u32 length, definitions]
 *     bit per key: has a row · bit per key: its row has non-finite elements · rows
 *     u32 CRC-32 of everything before it
 *
 * A definition is `u8 reduction · u16 length, key`; a row is count, sum, m2, min, max and, with non-finite elements, nan,
 * posInf and negInf, f64 each. Texts are UTF-8. What a schema with this fingerprint is about need not come along: a
 * receiver that does not know it asks. Where a delta names its parent, its definitions are the keys that its schema has
 * after those of the parent; such a delta is of version 2, all others are of version 1. Reading is in `delta-reader.ts`.
 */
import { crc32 } from 'node:zlib';
import { assertNamed, assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { MomentsTable } from '../../rows/index.js';
import { type KeyDefinition, MOST_TEXT_BYTES, fingerprintOf, streamReductions } from './schema.js';

/** First byte of every delta that names no parent. */
export const DELTA_VERSION = 1;
/** First byte of a delta whose definitions are additions. */
export const ADDITIONS_VERSION = 2;

/** Bits of the second byte. */
export const FLAG_DEFINITIONS = 1;
export const FLAG_FINAL = 2;
export const FLAG_POLICY_VERSION = 4;
export const FLAG_PARENT = 8;

/** Bytes before the first part of variable length. */
export const FIXED_BYTES = 28;
/** Bytes of the checksum at the end. */
export const CHECKSUM_BYTES = 4;
/** Numbers of a row whose elements are all finite, and what non-finite ones add. */
export const FINITE_NUMBERS = 5;
export const NON_FINITE_NUMBERS = 3;

/** Mergeable records of one worker. Merging one twice, or one of many twice, is told apart by its numbers. */
export interface Delta {
  readonly workerId: string;
  /** Which life of the worker: larger after every restart. */
  readonly epoch: number;
  /** Counts the deltas of a life from 1. */
  readonly seq: number;
  /** Of the policy that made the samples. */
  readonly policyVersion?: number | undefined;
  /** The worker has closed its stream: this is its last delta. */
  readonly isFinal: boolean;
  /** Of the schema; see `fingerprintOf`. */
  readonly fingerprint: number;
  /** Keys in the schema, with or without a row. */
  readonly keyCount: number;
  /** Fingerprint of the schema that this one begins with; undefined where it does not say. */
  readonly parent?: number | undefined;
  /** The schema in its order, or what follows its parent, ascending by key; undefined where it was left out. */
  readonly definitions?: readonly KeyDefinition[] | undefined;
  /** Places in the schema of the keys that have a row, ascending. */
  readonly positions: readonly number[];
  /** One row per position. */
  readonly rows: MomentsTable;
}

const utf8 = new TextEncoder();

/** How a schema is written; its fingerprint is taken of these bytes. */
export function writeDefinitions(definitions: readonly KeyDefinition[]): Uint8Array {
  const texts = definitions.map(({ key }) => utf8.encode(key));
  const bytes = new Uint8Array(texts.reduce((total, text) => total + 3 + text.length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  texts.forEach((text, i) => {
    view.setUint8(at, streamReductions.indexOf(definitions[i]!.reduction));
    view.setUint16(at + 1, lengthOf('key', text), true);
    bytes.set(text, at + 3);
    at += 3 + text.length;
  });
  return bytes;
}

/**
 * The fingerprint of keys in ascending order.
 *
 * @param parent the fingerprint of the schema that they follow
 */
export function schemaFingerprint(definitions: readonly KeyDefinition[], parent?: number): number {
  return fingerprintOf(writeDefinitions(definitions), parent);
}

function lengthOf(input: string, text: Uint8Array): number {
  if (text.length > 0 && text.length <= MOST_TEXT_BYTES) return text.length;
  throw new ValueError({
    where: 'encodeDelta',
    input,
    expected: `a text of 1 to ${MOST_TEXT_BYTES} bytes of UTF-8`,
    received: `${text.length} bytes`,
    remedy: 'shorten it',
  });
}

/**
 * The bytes of a delta, for any transport.
 *
 * @param options `definitions`: false leaves out names and reductions, for a receiver that knows the fingerprint
 * @returns 28 bytes, the worker id, two bits per key and 40 to 64 bytes per row, and the definitions
 * @throws ValueError for a field that no delta has, e.g. a sequence number of 0 or a worker id longer than 65535 bytes,
 *   or for definitions that are asked for and not there; MissingInputError for no delta
 */
export function encodeDelta(delta: Delta, options: { readonly definitions?: boolean } = {}): Uint8Array {
  assertDelta(delta);
  assertOptions('encodeDelta', options, { definitions: 'boolean' });
  const { keyCount, rows, policyVersion } = delta;
  const worker = utf8.encode(delta.workerId);
  lengthOf('workerId', worker);
  const definitions = options.definitions === false ? undefined : writtenDefinitions(delta);
  const bitmap = Math.ceil(keyCount / 8);
  let size = FIXED_BYTES + (policyVersion === undefined ? 0 : 8) + 2 + worker.length + 2 * bitmap;
  const parent = definitions === undefined ? undefined : delta.parent;
  if (parent !== undefined) size += 8;
  if (definitions !== undefined) size += 4 + definitions.length;
  for (let i = 0; i < rows.length; i++)
    size += 8 * (FINITE_NUMBERS + (allFinite(rows, i) ? 0 : NON_FINITE_NUMBERS));

  const bytes = new Uint8Array(size + CHECKSUM_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, parent === undefined ? DELTA_VERSION : ADDITIONS_VERSION);
  view.setUint8(
    1,
    (definitions === undefined ? 0 : FLAG_DEFINITIONS) |
      (delta.isFinal ? FLAG_FINAL : 0) |
      (parent === undefined ? 0 : FLAG_PARENT) |
      (policyVersion === undefined ? 0 : FLAG_POLICY_VERSION),
  );
  view.setUint16(2, keyCount, true);
  view.setFloat64(4, delta.epoch, true);
  view.setFloat64(12, delta.seq, true);
  view.setFloat64(20, delta.fingerprint, true);
  let at = FIXED_BYTES;
  if (policyVersion !== undefined) {
    view.setFloat64(at, policyVersion, true);
    at += 8;
  }
  view.setUint16(at, worker.length, true);
  bytes.set(worker, at + 2);
  at += 2 + worker.length;
  if (parent !== undefined) {
    view.setFloat64(at, parent, true);
    at += 8;
  }
  if (definitions !== undefined) {
    view.setUint32(at, definitions.length, true);
    bytes.set(definitions, at + 4);
    at += 4 + definitions.length;
  }
  writeRows(delta, bytes, view, at, bitmap);
  view.setUint32(size, crc32(bytes.subarray(0, size)), true);
  return bytes;
}

/** Why a field cannot be written, by field. */
const FIELD_FAULTS: Readonly<Record<string, (delta: Delta) => boolean>> = {
  workerId: ({ workerId }) => typeof workerId !== 'string',
  epoch: ({ epoch }) => !Number.isSafeInteger(epoch) || epoch < 0,
  seq: ({ seq }) => !Number.isSafeInteger(seq) || seq < 1,
  policyVersion: ({ policyVersion }) => policyVersion !== undefined && !Number.isSafeInteger(policyVersion),
  fingerprint: ({ fingerprint }) => !Number.isSafeInteger(fingerprint) || fingerprint < 0,
  keyCount: ({ keyCount }) => !Number.isSafeInteger(keyCount) || keyCount < 0 || keyCount > 0xffff,
  parent: ({ parent }) => parent !== undefined && (!Number.isSafeInteger(parent) || parent < 0),
  definitions: ({ definitions, keyCount, parent }) =>
    definitions !== undefined &&
    (parent === undefined ? definitions.length !== keyCount : definitions.length > keyCount),
  rows: ({ rows }) => !(rows instanceof MomentsTable),
  positions: ({ positions, rows, keyCount }) =>
    positions.length !== rows.length ||
    positions.some((at, i) => !(at < keyCount) || !(at > (i === 0 ? -1 : positions[i - 1]!))),
};

function assertDelta(delta: Delta): void {
  const remedy = 'pass what decodeDelta returned, or what an emitter sends';
  assertNamed('encodeDelta', 'delta', delta, { expected: 'a delta', remedy });
  for (const [field, isFault] of Object.entries(FIELD_FAULTS)) {
    if (!isFault(delta)) continue;
    throw new ValueError({
      where: 'encodeDelta',
      input: `delta.${field}`,
      expected: 'what a delta holds there',
      received: kindOf(delta[field as keyof Delta]),
      remedy,
    });
  }
}

function writtenDefinitions({ definitions }: Delta): Uint8Array {
  if (definitions !== undefined) return writeDefinitions(definitions);
  throw new ValueError({
    where: 'encodeDelta',
    input: 'definitions',
    expected: 'the keys that the rows are about',
    received: kindOf(definitions),
    remedy: 'add them, or encode with { definitions: false } for a receiver that knows the schema',
  });
}

function allFinite({ cells }: MomentsTable, i: number): boolean {
  const at = MomentsTable.WIDTH * i;
  return cells[at + 1] === 0 && cells[at + 2] === 0 && cells[at + 3] === 0;
}

/** Two bitmaps over the schema, then the rows in the order of their keys. */
function writeRows(
  { positions, rows }: Delta,
  bytes: Uint8Array,
  view: DataView,
  start: number,
  bitmap: number,
): void {
  let at = start + 2 * bitmap;
  const { cells } = rows;
  const put = (x: number): void => {
    view.setFloat64(at, x, true);
    at += 8;
  };
  for (let i = 0; i < rows.length; i++) {
    const byte = start + (positions[i]! >>> 3);
    const bit = 1 << (positions[i]! & 7);
    bytes[byte]! |= bit;
    const cell = MomentsTable.WIDTH * i;
    put(cells[cell]!);
    for (let field = 4; field < MomentsTable.WIDTH; field++) put(cells[cell + field]!);
    if (allFinite(rows, i)) continue;
    bytes[byte + bitmap]! |= bit;
    for (let field = 1; field < 4; field++) put(cells[cell + field]!);
  }
}
