/**
 * Masks: what is selected of a tile, bits and runs, see ../assembly/selection.ts and ../assembly/packing.ts.
 *
 * A selection is written and read by these loops alone, so it is the simplest form: the number of selected elements of
 * every row, then one byte per element. Packed masks are kept and have the form of the module.
 */
import type { SimdExports } from '../module.generated.js';
import { type Cells, type Stored, bytesOf } from './cells.js';

/** Most elements and most rows of a tile. */
const ELEMENTS = 4096;
const ROWS = 256;

/** Where the bytes of the elements are, from the address of a selection. */
const FLAGS = ROWS * Int32Array.BYTES_PER_ELEMENT;

const WORD_BITS = 32;

/** Bits that masks are packed by. */
const BLOCK = 64;

type Masks = Pick<
  SimdExports,
  | 'findChanges'
  | 'packBool'
  | 'packFloat32'
  | 'packInt32'
  | 'selectBits'
  | 'selectBool'
  | 'selectFloat32'
  | 'selectInt32'
  | 'selectedEnd'
  | 'selectionBytes'
  | 'tileElements'
  | 'tileRows'
>;

/** Number of selected elements of row `row`. */
export function countOf(cells: Cells, selection: number, row: number): number {
  return cells.int32[selection / Int32Array.BYTES_PER_ELEMENT + row]!;
}

/** One byte per element of row `row`, 0 where it is not selected. */
export function flagsOf(cells: Cells, selection: number, row: number, cols: number): Uint8Array {
  const start = selection + FLAGS + row * cols;
  return cells.bytes.subarray(start, start + cols);
}

export function masks(cells: Cells): Masks {
  /** Writes the selection that `isSelected` tells of the elements of the tile, in order; returns its count. */
  const write = (
    rows: number,
    cols: number,
    selection: number,
    isSelected: (element: number) => boolean,
  ): number => {
    let total = 0;
    for (let row = 0; row < rows; row++) {
      const flags = flagsOf(cells, selection, row, cols);
      let count = 0;
      for (let col = 0; col < cols; col++) {
        flags[col] = Number(isSelected(row * cols + col));
        count += flags[col]!;
      }
      cells.int32[selection / Int32Array.BYTES_PER_ELEMENT + row] = count;
      total += count;
    }
    return total;
  };
  const select =
    (stored: Stored) =>
    (mask: number, rows: number, cols: number, selection: number): number => {
      const elements = cells.elements(stored, mask, rows * cols);
      return write(rows, cols, selection, (element) => elements[element] !== 0);
    };
  const pack =
    (stored: Stored) =>
    (mask: number, n: number, bits: number): number => {
      const elements = cells.elements(stored, mask, n);
      const words = cells.elements('Int32', bits, (Math.ceil(n / BLOCK) * BLOCK) / WORD_BITS).fill(0);
      let count = 0;
      for (let i = 0; i < n; i++) {
        if (elements[i] === 0) continue;
        words[i >>> 5]! |= 1 << i;
        count++;
      }
      return count;
    };
  const bitAt = (words: Int32Array, bit: number): number => (words[bit >>> 5]! >>> bit) & 1;
  return {
    tileElements: () => ELEMENTS,
    tileRows: () => ROWS,
    selectionBytes: () => FLAGS + ELEMENTS,
    selectFloat32: select('Float32'),
    selectInt32: select('Int32'),
    selectBool: select('Bool'),
    selectBits: (bits, first, rows, cols, selection) => {
      const words = cells.int32.subarray(bits / bytesOf.Int32);
      return write(rows, cols, selection, (element) => bitAt(words, first + element) === 1);
    },
    selectedEnd: (selection, cols) => flagsOf(cells, selection, 0, cols).lastIndexOf(1) + 1,
    packFloat32: pack('Float32'),
    packInt32: pack('Int32'),
    packBool: pack('Bool'),
    findChanges: (bits, blocks, first, previous, out, room) => {
      const words = cells.int32.subarray(bits / bytesOf.Int32);
      const changes = cells.elements('Int32', out, room);
      let found = 0;
      let last = previous;
      for (let i = 0; i < blocks * BLOCK; i++) {
        const bit = bitAt(words, i);
        if (bit === last) continue;
        if (found === room) return -1;
        changes[found++] = first + i;
        last = bit;
      }
      return found;
    },
  };
}
