/**
 * The checksum of a state's bytes: CRC-32, which no flipped bit, and no damage that spans 32 bits or less, leaves as it is.
 *
 * It is of 32-bit words as the machine has them, four tables at once, since a state can have megabytes.
 */

/** The polynomial of Ethernet and zip, its bits reversed. */
const POLYNOMIAL = 0xedb88320;

const tables = ((): readonly [Uint32Array, Uint32Array, Uint32Array, Uint32Array] => {
  const [first, second, third, fourth] = [0, 1, 2, 3].map(() => new Uint32Array(256)) as [
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
  ];
  for (let byte = 0; byte < 256; byte++) {
    let rest = byte;
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ POLYNOMIAL : rest >>> 1;
    first[byte] = rest;
  }
  const next = (rest: number): number => (rest >>> 8) ^ first[rest & 0xff]!;
  for (let byte = 0; byte < 256; byte++) {
    second[byte] = next(first[byte]!);
    third[byte] = next(second[byte]!);
    fourth[byte] = next(third[byte]!);
  }
  return [first, second, third, fourth];
})();

/** The checksum of all words but the one at `place`, where it is kept. */
export function checksumBut(place: number, words: Uint32Array): number {
  const [first, second, third, fourth] = tables;
  let crc = 0xffffffff;
  for (let i = 0; i < words.length; i++) {
    if (i === place) continue;
    crc ^= words[i]!;
    crc =
      fourth[crc & 0xff]! ^ third[(crc >>> 8) & 0xff]! ^ second[(crc >>> 16) & 0xff]! ^ first[crc >>> 24]!;
  }
  return ~crc >>> 0;
}
