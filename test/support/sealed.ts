/** Sealed bytes as a program makes them that knows the form: damage that only the checks behind the checksum can find. */
import { crc32 } from 'node:zlib';
import { PREFIX_BYTES, type SealedKind, seal, unsealed } from '../../src/rows/sealed.js';

/** The bytes of a head and numbers, however wrong these are. */
export function sealedOf(
  kind: SealedKind,
  head: string | Uint8Array,
  numbers: ArrayLike<number>,
): Uint8Array {
  const bytes = typeof head === 'string' ? new TextEncoder().encode(head) : head;
  const write = (into: Float64Array): void => {
    into.set(numbers);
  };
  return seal(kind, bytes, numbers.length, write, kind === 'stepState' ? 0x20 : 0);
}

/** What honest bytes hold: copies of their head and numbers. */
export function openedOf(kind: SealedKind, bytes: Uint8Array): { head: Uint8Array; numbers: Float64Array } {
  const opened = unsealed(kind, bytes);
  if (typeof opened === 'string') throw new Error(opened);
  return { head: opened.head.slice(), numbers: opened.numbers.slice() };
}

/** Gives bytes the checksum that belongs to them, however they were changed. */
export function sealAgain(bytes: Uint8Array): Uint8Array {
  if (bytes.length < PREFIX_BYTES) return bytes;
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(0, crc32(bytes.subarray(4)), true);
  return bytes;
}
