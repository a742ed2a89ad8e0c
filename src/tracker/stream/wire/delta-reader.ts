/** Reads deltas. Bytes come from outside, so everything is checked before anything is believed. */
import { kindOf } from '../../../arguments.js';
import { ValueError } from '../../../errors.js';
import { type MomentsTable, NumbersReader, unsealed } from '../../../rows/index.js';
import { DeltaError } from '../errors.js';
import { type Delta, NO_NUMBER, NUMBERS, bitmapBytes } from './delta.js';
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

function refuseNumbers(received: string): DeltaError {
  return refuse('what a delta holds', received);
}

function text(what: string, bytes: Uint8Array): string {
  if (bytes.length === 0) throw refuse(`a ${what}`, 'an empty text');
  try {
    return asciiIn(bytes) ?? utf8.decode(bytes);
  } catch (error) {
    throw refuse(`a ${what} in UTF-8`, 'other bytes', error);
  }
}

/** Short texts of ASCII, as ids of workers are, in a fifth of the time of a TextDecoder; undefined for others. */
function asciiIn(bytes: Uint8Array): string | undefined {
  if (bytes.length > 64) return undefined;
  let ascii = '';
  for (const byte of bytes) {
    if (byte >= 0x80) return undefined;
    ascii += String.fromCharCode(byte);
  }
  return ascii;
}

function whole(what: string, x: number, least: number, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(x) && x >= least && x <= most && !Object.is(x, -0)) return x;
  throw refuse(`${what} that is an integer from ${least}${most < 2 ** 32 ? ` to ${most}` : ''}`, `${x}`);
}

function optional(what: string, x: number, least: number, most?: number): number | undefined {
  return x === NO_NUMBER ? undefined : whole(what, x, least, most);
}

/**
 * The delta that `encodeDelta` wrote.
 *
 * @returns without definitions if they were left out
 * @throws DeltaError for bytes that no delta has: damaged, cut short, too long, of another version, or with numbers that nothing
 *   can have counted; ValueError for what are no bytes
 */
export function decodeDelta(bytes: Uint8Array): Delta {
  return readDelta(bytes, () => false);
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
  tableFor?: (length: number) => MomentsTable,
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
  const opened = unsealed('delta', bytes);
  if (typeof opened === 'string') throw refuse('the bytes of a delta', opened);
  const { head, numbers } = opened;
  // A number that is not there is refused like one that is wrong.
  const epoch = whole('an epoch', numbers[0]!, 0);
  const seq = whole('a sequence number', numbers[1]!, 1);
  const policyVersion = optional('a policy version', numbers[2]!, Number.MIN_SAFE_INTEGER);
  const fingerprint = whole('a fingerprint', numbers[3]!, 0);
  const parent = optional('a fingerprint', numbers[4]!, 0);
  const keyCount = whole('a number of keys', numbers[5]!, 0, 0xffff);
  const isFinal = whole('a mark of the last delta', numbers[6]!, 0, 1) === 1;
  const definitionsAt = whole('bytes of a worker id', numbers[7]!, 0, 0xffff);
  const definitionBytes = optional('bytes of definitions', numbers[8]!, 0, head.length);
  const bitsAt = definitionsAt + (definitionBytes ?? 0);
  assertHead(head, bitsAt + bitmapBytes(keyCount));
  const workerId = text('worker id', head.subarray(0, definitionsAt));
  if (parent !== undefined && definitionBytes === undefined)
    throw refuse('the keys that follow those of the parent', 'none');
  const definitions =
    definitionBytes === undefined || isKnown(fingerprint)
      ? undefined
      : readDefinitions(head.subarray(definitionsAt, bitsAt), { keyCount, fingerprint, parent });
  const positions = positionsIn(head, bitsAt, keyCount);
  const reader = new NumbersReader(numbers, refuseNumbers, NUMBERS.length);
  const rows = reader.table(positions.length, tableFor);
  reader.end();
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

/** @throws DeltaError unless a head ends there, but for its padding */
function assertHead(head: Uint8Array, end: number): void {
  if (end > head.length || end <= head.length - 8) throw refuse(`a head of ${end} bytes`, `${head.length}`);
  for (let at = end; at < head.length; at++) if (head[at] !== 0) throw refuse('a head', 'more than that');
}

function readDefinitions(
  bytes: Uint8Array,
  { keyCount, fingerprint, parent }: Pick<Delta, 'keyCount' | 'fingerprint' | 'parent'>,
): KeyDefinition[] {
  const definitions: KeyDefinition[] = [];
  let at = 0;
  let before = '';
  while (at < bytes.length) {
    if (definitions.length === keyCount) throw refuse(`definitions of ${keyCount} keys`, 'more');
    const code = bytes[at]!;
    const reduction = streamReductions[code];
    if (reduction === undefined) throw refuse('a known reduction', `reduction ${code}`);
    const start = at + 3;
    at = start + (bytes[at + 1]! | (bytes[at + 2]! << 8));
    if (!(at <= bytes.length)) throw refuse(`${at} bytes of definitions`, `${bytes.length}`);
    const key = text('key', bytes.subarray(start, at));
    if (definitions.length > 0 && before >= key)
      throw refuse('keys in ascending order', `'${key}' after '${before}'`);
    definitions.push({ key, reduction });
    before = key;
  }
  // How many keys the parent has is not known here.
  if (parent === undefined && definitions.length !== keyCount)
    throw refuse(`definitions of ${keyCount} keys`, `${definitions.length}`);
  const actual = fingerprintOf(bytes, parent);
  if (actual !== fingerprint) throw refuse(`definitions with fingerprint ${fingerprint}`, `${actual}`);
  return definitions;
}

/** Which keys have a row, by the bits over the schema. */
function positionsIn(head: Uint8Array, bitsAt: number, keyCount: number): number[] {
  const positions: number[] = [];
  const end = bitsAt + bitmapBytes(keyCount);
  for (let at = bitsAt; at < end; at++) {
    const byte = head[at]!;
    if (byte === 0) continue;
    const first = 8 * (at - bitsAt);
    for (let bit = 0; bit < 8; bit++) if (byte & (1 << bit)) positions.push(first + bit);
  }
  if (positions.length > 0 && positions.at(-1)! >= keyCount)
    throw refuse(`rows of ${keyCount} keys`, 'rows of further ones');
  return positions;
}
