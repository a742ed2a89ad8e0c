/**
 * Sealed bytes: the one form in which rows travel and are kept, whatever is about them.
 *
 *   0  uint32   CRC-32 of everything after it
 *   4  uint32   mark, which also tells the byte order
 *   8  uint32   what is sealed, and the number of its form
 *  12  uint32   bytes of the head, a multiple of 8
 *  16  head     texts and bits, as what is sealed has them, padded
 *      float64  numbers, as what is sealed has them, and tables of rows
 *
 * A table: a bit for every row that has elements which are not finite, padded to 8 bytes; count, sum, m2, min and max of
 * every row; nan, posInf and negInf of the rows that have such elements. Most rows take 40 bytes.
 */
import { crc32 } from 'node:zlib';
import { rowFault } from './row-fault.js';
import { MomentsTable } from './table.js';

/** What is sealed. A number is never used again, nor is that of a form: bytes of another version are told as such. */
export const SEALED = {
  stepState: { number: 1, form: 4 },
  delta: { number: 2, form: 3 },
} as const;

export type SealedKind = keyof typeof SEALED;

const MARK = 0x594c5454;
/** Bytes before the head. */
export const PREFIX_BYTES = 16;
const [CHECKSUM, MARKED, KIND, HEAD_BYTES] = [0, 1, 2, 3];
const WORD = Uint32Array.BYTES_PER_ELEMENT;
const NUMBER = Float64Array.BYTES_PER_ELEMENT;

/** Fields of a row in `MomentsTable#cells`: count first, then those of elements that are not finite, then four numbers. */
const [NON_FINITE, NUMBERS] = [1, 4];
/** Numbers of a row whose elements are all finite, and what non-finite ones add. */
const FINITE_NUMBERS = 1 + MomentsTable.WIDTH - NUMBERS;
const NON_FINITE_NUMBERS = NUMBERS - NON_FINITE;

function kindNumber(kind: SealedKind): number {
  const { number, form } = SEALED[kind];
  return number * 2 ** 16 + form;
}

const multipleOf8 = (bytes: number): number => (bytes + 7) & ~7;

/**
 * Seals what `write` puts into the numbers.
 *
 * @param count of the numbers, tables included
 * @param padding the byte that fills the head up
 */
export function seal(
  kind: SealedKind,
  head: Uint8Array,
  count: number,
  write: (numbers: Float64Array) => void,
  padding = 0,
): Uint8Array {
  const headBytes = multipleOf8(head.length);
  const bodyAt = PREFIX_BYTES + headBytes;
  const bytes = new Uint8Array(bodyAt + count * NUMBER);
  const words = new Uint32Array(bytes.buffer, 0, PREFIX_BYTES / WORD);
  words[MARKED] = MARK;
  words[KIND] = kindNumber(kind);
  words[HEAD_BYTES] = headBytes;
  bytes.set(head, PREFIX_BYTES);
  if (padding !== 0) bytes.fill(padding, PREFIX_BYTES + head.length, bodyAt);
  write(new Float64Array(bytes.buffer, bodyAt, count));
  words[CHECKSUM] = checksumOf(bytes);
  return bytes;
}

function checksumOf(bytes: Uint8Array): number {
  return crc32(bytes.subarray(WORD));
}

/** What was sealed. Both lie in the bytes, or in a copy of them. */
export interface Unsealed {
  readonly head: Uint8Array;
  readonly numbers: Float64Array;
}

/** What was sealed as this kind, or why these bytes were not. */
export function unsealed(kind: SealedKind, given: Uint8Array): Unsealed | string {
  const { length } = given;
  if (length < PREFIX_BYTES || length % NUMBER !== 0) return `${length} bytes`;
  // Bytes that came in a larger buffer may begin anywhere in it; float64 may not. Not slice(): Node's Buffers share theirs.
  const bytes = given.byteOffset % NUMBER === 0 ? given : new Uint8Array(given);
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, PREFIX_BYTES / WORD);
  if (words[MARKED] !== MARK) return 'bytes of something else';
  if (words[KIND] !== kindNumber(kind)) return otherKind(kind, words[KIND]!);
  if (words[CHECKSUM] !== checksumOf(bytes)) return 'a part of them, or bytes that were changed';
  const bodyAt = PREFIX_BYTES + words[HEAD_BYTES]!;
  if (bodyAt % NUMBER !== 0 || bodyAt > length) return `${length} bytes with a head that ends at ${bodyAt}`;
  return {
    head: bytes.subarray(PREFIX_BYTES, bodyAt),
    numbers: new Float64Array(bytes.buffer, bytes.byteOffset + bodyAt, (length - bodyAt) / NUMBER),
  };
}

function otherKind(kind: SealedKind, found: number): string {
  const [number, form] = [found >>> 16, found & 0xffff];
  if (number === SEALED[kind].number) return `bytes of form ${form}, which is not ${SEALED[kind].form}`;
  const other = Object.entries(SEALED).find(([, known]) => known.number === number);
  return other === undefined ? 'bytes of something else' : `the bytes of a ${other[0]}`;
}

/** Whether row `i` of a table has elements that are not finite. */
function hasNonFinite(cells: Float64Array, i: number): boolean {
  const at = MomentsTable.WIDTH * i;
  return cells[at + 1] !== 0 || cells[at + 2] !== 0 || cells[at + 3] !== 0;
}

const bitmapNumbers = (rows: number): number => Math.ceil(rows / 64);

/** Numbers that a table takes in sealed bytes. */
export function packedLength({ cells, length }: MomentsTable): number {
  let numbers = bitmapNumbers(length) + FINITE_NUMBERS * length;
  for (let i = 0; i < length; i++) if (hasNonFinite(cells, i)) numbers += NON_FINITE_NUMBERS;
  return numbers;
}

/** Writes a table from `at` on; returns where it ends. */
export function packTable({ cells, length }: MomentsTable, numbers: Float64Array, at: number): number {
  const bits = new Uint8Array(
    numbers.buffer,
    numbers.byteOffset + at * NUMBER,
    bitmapNumbers(length) * NUMBER,
  );
  let finite = at + bitmapNumbers(length);
  let rest = finite + FINITE_NUMBERS * length;
  for (let i = 0; i < length; i++) {
    const cell = MomentsTable.WIDTH * i;
    numbers[finite++] = cells[cell]!;
    for (let field = NUMBERS; field < MomentsTable.WIDTH; field++) numbers[finite++] = cells[cell + field]!;
    if (!hasNonFinite(cells, i)) continue;
    bits[i >>> 3]! |= 1 << (i & 7);
    for (let field = NON_FINITE; field < NUMBERS; field++) numbers[rest++] = cells[cell + field]!;
  }
  return rest;
}

/** Reads the numbers of sealed bytes in order. They come from outside: nothing is believed before it is checked. */
export class NumbersReader {
  readonly #numbers: Float64Array;
  readonly #refuse: (received: string) => Error;
  #at: number;

  /**
   * @param refuse the error for bytes that hold something else
   * @param at where it begins
   */
  constructor(numbers: Float64Array, refuse: (received: string) => Error, at = 0) {
    this.#numbers = numbers;
    this.#refuse = refuse;
    this.#at = at;
  }

  /** The next numbers, where they lie. */
  next(length: number): Float64Array {
    const start = this.#at;
    if (!(length <= this.#numbers.length - start)) throw this.#refuse(this.#tooFew());
    this.#at += length;
    return this.#numbers.subarray(start, this.#at);
  }

  /**
   * The next table, whose rows are rows that some elements can have.
   *
   * @param tableFor where the rows go: a table of this length, whose cells are all written
   */
  table(length: number, tableFor = (rows: number) => new MomentsTable(rows)): MomentsTable {
    const words = bitmapNumbers(length);
    // Before anything is made for them.
    if (!(words + FINITE_NUMBERS * length <= this.#numbers.length - this.#at))
      throw this.#refuse(this.#tooFew());
    const numbers = this.#numbers;
    const bitsAt = this.#at;
    let from = bitsAt + words;
    this.#at = from + FINITE_NUMBERS * length;
    const table = tableFor(length);
    const { cells } = table;
    for (let i = 0, cell = 0; i < length; i++, cell += MomentsTable.WIDTH) {
      cells[cell] = numbers[from]!;
      cells[cell + 1] = cells[cell + 2] = cells[cell + 3] = 0;
      cells[cell + 4] = numbers[from + 1]!;
      cells[cell + 5] = numbers[from + 2]!;
      cells[cell + 6] = numbers[from + 3]!;
      cells[cell + 7] = numbers[from + 4]!;
      from += FINITE_NUMBERS;
    }
    this.#readNonFinite(table, bitsAt);
    for (let i = 0; i < length; i++) {
      const fault = rowFault(table, i);
      if (fault !== undefined) throw this.#refuse(fault);
    }
    return table;
  }

  /** @throws the refusal if there are more numbers */
  end(): void {
    const more = this.#numbers.length - this.#at;
    if (more > 0) throw this.#refuse(`${more} numbers more than there are`);
  }

  /** Adds the elements that are not finite to the rows of a table whose bits begin at `bitsAt`. */
  #readNonFinite({ cells, length }: MomentsTable, bitsAt: number): void {
    const numbers = this.#numbers;
    for (let word = 0; word < bitmapNumbers(length); word++) {
      // No bit is set, not even the sign.
      if (Object.is(numbers[bitsAt + word], 0)) continue;
      const bits = new Uint8Array(numbers.buffer, numbers.byteOffset + (bitsAt + word) * NUMBER, NUMBER);
      for (let bit = 0; bit < 64; bit++) {
        if ((bits[bit >>> 3]! & (1 << (bit & 7))) === 0) continue;
        const i = 64 * word + bit;
        if (i >= length) throw this.#refuse(`elements of row ${i} of ${length}`);
        cells.set(this.next(NON_FINITE_NUMBERS), MomentsTable.WIDTH * i + NON_FINITE);
        if (!hasNonFinite(cells, i))
          throw this.#refuse('a row with elements that are not finite, of which there are none');
      }
    }
  }

  #tooFew(): string {
    return `${this.#numbers.length} numbers, which are too few`;
  }
}
