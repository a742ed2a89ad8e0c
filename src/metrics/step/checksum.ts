/** The checksum of a state's bytes: CRC-32, which no flipped bit, and no damage that spans 32 bits or less, leaves as it is. */
import { crc32 } from 'node:zlib';

/** The checksum of all words but the one at `place`, where it is kept. */
export function checksumBut(place: number, words: Uint32Array): number {
  const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
  const at = place * words.BYTES_PER_ELEMENT;
  return crc32(bytes.subarray(at + words.BYTES_PER_ELEMENT), crc32(bytes.subarray(0, at)));
}
