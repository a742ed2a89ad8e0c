/**
 * A delta: what one worker has recorded since its last one, and what sealed bytes hold of it.
 *
 *   head     worker id · definitions · a bit for every key of the schema that has a row
 *   float64  the numbers of `NUMBERS`, then the rows as a table
 *
 * A definition is `u8 reduction · u16 length, key`, little endian; texts are UTF-8. What a schema with this fingerprint is about need
 * not come along: a receiver that does not know it asks. Where a delta names its parent, its definitions are the keys that
 * its schema has after those of the parent. Reading is in `delta-reader.ts`.
 */
import { assertNamed, assertOptions, kindOf } from '../../../arguments.js';
import { ValueError } from '../../../errors.js';
import { MomentsTable, packTable, packedLength, seal } from '../../../rows/index.js';
import { type KeyDefinition, MOST_TEXT_BYTES, fingerprintOf, streamReductions } from './schema.js';

/** The numbers before the rows, in their order; `NO_NUMBER` where there is none. */
export const NUMBERS = [
  'epoch',
  'seq',
  'policyVersion',
  'fingerprint',
  'parent',
  'keyCount',
  'isFinal',
  'workerBytes',
  'definitionBytes',
] as const;

/** Not NaN, which has many forms: a delta is written in one way. */
export const NO_NUMBER = Infinity;

/** Bytes of the bits over a schema. */
export function bitmapBytes(keyCount: number): number {
  return (keyCount + 7) >>> 3;
}

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
 * @returns 88 bytes, the worker id, a bit per key, 40 to 64 bytes per row, the definitions, and up to 14 bytes of padding
 * @throws ValueError for a field that no delta has, e.g. a sequence number of 0 or a worker id longer than 65535 bytes,
 *   or for definitions that are asked for and not there; MissingInputError for no delta
 */
export function encodeDelta(delta: Delta, options: { readonly definitions?: boolean } = {}): Uint8Array {
  assertDelta(delta);
  assertOptions('encodeDelta', options, { definitions: 'boolean' });
  const { epoch, seq, policyVersion, fingerprint, keyCount, positions, rows } = delta;
  const worker = utf8.encode(delta.workerId);
  lengthOf('workerId', worker);
  const definitions = options.definitions === false ? undefined : writtenDefinitions(delta);
  const parent = definitions === undefined ? undefined : delta.parent;
  const definitionBytes = definitions?.length ?? 0;
  const head = new Uint8Array(worker.length + definitionBytes + bitmapBytes(keyCount));
  head.set(worker);
  if (definitions !== undefined) head.set(definitions, worker.length);
  const bits = head.subarray(worker.length + definitionBytes);
  for (const position of positions) bits[position >>> 3]! |= 1 << (position & 7);
  return seal('delta', head, NUMBERS.length + packedLength(rows), (numbers) => {
    numbers[0] = epoch;
    numbers[1] = seq;
    numbers[2] = policyVersion ?? NO_NUMBER;
    numbers[3] = fingerprint;
    numbers[4] = parent ?? NO_NUMBER;
    numbers[5] = keyCount;
    numbers[6] = Number(delta.isFinal);
    numbers[7] = worker.length;
    numbers[8] = definitions?.length ?? NO_NUMBER;
    packTable(rows, numbers, NUMBERS.length);
  });
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
