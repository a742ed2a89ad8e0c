/** Reads deltas. Bytes come from outside, so everything is checked before anything is believed. */
import { crc32 } from 'node:zlib';
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { rowFault, MomentsTable } from '../../rows/index.js';
import {
  ADDITIONS_VERSION,
  CHECKSUM_BYTES,
  type Delta,
  DELTA_VERSION,
  FINITE_NUMBERS,
  FLAG_DEFINITIONS,
  FLAG_FINAL,
  FLAG_PARENT,
  FLAG_POLICY_VERSION,
} from './delta.js';
import { DeltaError } from './errors.js';
import { type KeyDefinition, fingerprintOf, streamReductions } from './schema.js';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function refuse(expected: string, received: string, cause?: unknown): DeltaError {
  return new DeltaError(
    {
      where: 'decodeDelta',
      input: 'bytes',
      expected,
      received,
      remedy:
        'hand over the bytes of encodeDelta unchanged, and run the same version on workers and controller',
    },
    { cause },
  );
}

class Reader {
  readonly bytes: Uint8Array;
  readonly #view: DataView;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Moves past `size` bytes that must be there; returns where they start. */
  skip(size: number): number {
    const start = this.at;
    this.at += size;
    if (this.at > this.bytes.length) throw refuse(`at least ${this.at} bytes`, `${this.bytes.length}`);
    return start;
  }

  u8(): number {
    return this.#view.getUint8(this.skip(1));
  }

  u16(): number {
    return this.#view.getUint16(this.skip(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.skip(4), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.skip(8), true);
  }

  text(what: string): string {
    const size = this.u16();
    const start = this.skip(size);
    if (size === 0) throw refuse(`a ${what}`, 'an empty text');
    try {
      return utf8.decode(this.bytes.subarray(start, start + size));
    } catch (error) {
      throw refuse(`a ${what} in UTF-8`, 'other bytes', error);
    }
  }
}

function whole(what: string, x: number, least: number): number {
  if (Number.isSafeInteger(x) && x >= least) return x;
  throw refuse(`${what} that is an integer from ${least}`, `${x}`);
}

/**
 * The delta that `encodeDelta` wrote.
 *
 * @returns without definitions if they were left out
 * @throws DeltaError for bytes that no delta has: damaged, cut short, too long, of another version, or with numbers that nothing
 *   can have counted; ValueError for what are no bytes
 */
export function decodeDelta(bytes: Uint8Array): Delta {
  return readDelta(
    bytes,
    () => false,
    (length) => new MomentsTable(length),
  );
}

/**
 * `decodeDelta` for a receiver of many deltas.
 *
 * @param isKnown whether the definitions of a schema may be skipped
 * @param tableFor where the rows go: a table of this length, whose cells are all written
 */
export function readDelta(
  bytes: Uint8Array,
  isKnown: (fingerprint: number) => boolean,
  tableFor: (length: number) => MomentsTable,
): Delta {
  if (!(bytes instanceof Uint8Array)) {
    throw new ValueError({
      where: 'decodeDelta',
      input: 'bytes',
      expected: 'a Uint8Array',
      received: kindOf(bytes),
      remedy: 'pass what encodeDelta returned',
    });
  }
  // First of all: another version may well end in another way.
  const version = new Reader(bytes).u8();
  const isAddition = version === ADDITIONS_VERSION;
  if (version !== DELTA_VERSION && !isAddition)
    throw refuse(`version ${DELTA_VERSION} or ${ADDITIONS_VERSION} of the format`, `version ${version}`);
  const reader = new Reader(sealedPart(bytes));
  reader.skip(1);
  const flags = reader.u8();
  const needed = isAddition ? FLAG_PARENT | FLAG_DEFINITIONS : 0;
  const known = FLAG_DEFINITIONS | FLAG_FINAL | FLAG_POLICY_VERSION | needed;
  if ((flags & ~known) !== 0 || (flags & needed) !== needed) throw refuse('known flags', `flags ${flags}`);
  const keyCount = reader.u16();
  const epoch = whole('an epoch', reader.f64(), 0);
  const seq = whole('a sequence number', reader.f64(), 1);
  const fingerprint = whole('a fingerprint', reader.f64(), 0);
  const policyVersion =
    flags & FLAG_POLICY_VERSION
      ? whole('a policy version', reader.f64(), Number.MIN_SAFE_INTEGER)
      : undefined;
  const workerId = reader.text('worker id');
  const parent = isAddition ? whole('a fingerprint', reader.f64(), 0) : undefined;
  let definitions: KeyDefinition[] | undefined;
  if (flags & FLAG_DEFINITIONS) {
    const size = reader.u32();
    if (isKnown(fingerprint)) reader.skip(size);
    else definitions = readDefinitions(reader, size, { keyCount, fingerprint, parent });
  }
  const { positions, rows } = readRows(reader, keyCount, tableFor);
  const isFinal = (flags & FLAG_FINAL) !== 0;
  return {
    workerId,
    epoch,
    seq,
    policyVersion,
    isFinal,
    fingerprint,
    keyCount,
    parent,
    definitions,
    positions,
    rows,
  };
}

/** The bytes before the checksum, which they must have. */
function sealedPart(bytes: Uint8Array): Uint8Array {
  const size = bytes.length - CHECKSUM_BYTES;
  if (size < 0) throw refuse(`at least ${CHECKSUM_BYTES} bytes`, `${bytes.length}`);
  const content = bytes.subarray(0, size);
  const found = new DataView(bytes.buffer, bytes.byteOffset + size).getUint32(0, true);
  if (crc32(content) !== found) throw refuse('bytes that match their checksum', 'damaged ones');
  return content;
}

function readDefinitions(
  reader: Reader,
  size: number,
  { keyCount, fingerprint, parent }: Pick<Delta, 'keyCount' | 'fingerprint' | 'parent'>,
): KeyDefinition[] {
  const start = reader.at;
  const definitions: KeyDefinition[] = [];
  // How many keys the parent has is not known here.
  while (definitions.length < keyCount && (parent === undefined || reader.at < start + size)) {
    const code = reader.u8();
    const reduction = streamReductions[code];
    if (reduction === undefined) throw refuse('a known reduction', `reduction ${code}`);
    const key = reader.text('key');
    const before = definitions.at(-1)?.key;
    if (before !== undefined && before >= key)
      throw refuse('keys in ascending order', `'${key}' after '${before}'`);
    definitions.push({ key, reduction });
  }
  if (reader.at !== start + size) throw refuse(`${size} bytes of definitions`, `${reader.at - start}`);
  const actual = fingerprintOf(reader.bytes.subarray(start, reader.at), parent);
  if (actual !== fingerprint) throw refuse(`definitions with fingerprint ${fingerprint}`, `${actual}`);
  return definitions;
}

function readRows(
  reader: Reader,
  keyCount: number,
  tableFor: (length: number) => MomentsTable,
): { positions: number[]; rows: MomentsTable } {
  const { bytes } = reader;
  const bitmap = (keyCount + 7) >>> 3;
  const has = reader.skip(bitmap);
  const nonFinite = reader.skip(bitmap);
  let count = 0;
  for (let i = 0; i < bitmap; i++) {
    const present = bytes[has + i]!;
    if (bytes[nonFinite + i]! & ~present)
      throw refuse('non-finite elements in rows that are there', 'others');
    for (let bits = present; bits !== 0; bits &= bits - 1) count++;
  }
  if (keyCount & 7 && bytes[has + bitmap - 1]! >>> (keyCount & 7) !== 0) {
    throw refuse(`rows of ${keyCount} keys`, 'rows of further ones');
  }
  const least = count * FINITE_NUMBERS * 8;
  if (least > bytes.length - reader.at)
    throw refuse(`at least ${least} bytes of rows`, `${bytes.length - reader.at}`);
  const positions: number[] = [];
  const rows = tableFor(count);
  const { cells } = rows;
  for (let position = 0; position < keyCount; position++) {
    const byte = position >>> 3;
    const bit = 1 << (position & 7);
    if ((bytes[has + byte]! & bit) === 0) continue;
    const i = positions.push(position) - 1;
    const cell = i * MomentsTable.WIDTH;
    cells[cell] = reader.f64();
    cells[cell + 1] = cells[cell + 2] = cells[cell + 3] = 0;
    for (let field = 4; field < MomentsTable.WIDTH; field++) cells[cell + field] = reader.f64();
    if (bytes[nonFinite + byte]! & bit) {
      for (let field = 1; field < 4; field++) cells[cell + field] = reader.f64();
      if (cells[cell + 1] === 0 && cells[cell + 2] === 0 && cells[cell + 3] === 0) {
        throw refuse('non-finite elements where they are announced', 'none');
      }
    }
    const fault = rowFault(rows, i);
    if (fault !== undefined) throw refuse('a row of moments', fault);
  }
  if (reader.at !== bytes.length) throw refuse(`${reader.at} bytes`, `${bytes.length}`);
  return { positions, rows };
}
