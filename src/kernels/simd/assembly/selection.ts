/**
 * What a mask selects of a tile: the mask read once, in a form that every channel under it can use.
 *
 * A tile is `rows` rows of `cols` elements, one behind the other; each row is cut into blocks of 64, the last one
 * shorter. A selection holds the number of selected elements per row, a word of 64 bits per block, and, for blocks that
 * are selected in part, one lane of 32 bits per element: −1 if selected, 0 if not. Blocks of which nothing is selected
 * are skipped, and those selected whole are read without looking at lanes.
 */
import { firstLanes, loadQuad, loadRest } from './quads.js';

/** Elements of a block. */
export const BLOCK: i32 = 64;

/** The word of a block of 64 that are all selected. */
export const FULL: u64 = 0xffffffffffffffff;

/** Most elements and most rows of a tile. */
const ELEMENTS: i32 = 4096;
const ROWS: i32 = 256;

/** Where words and lanes are, from the address of a selection. A row has a block of its own, however short it is. */
const WORDS: usize = <usize>ROWS * 4;
const LANES: usize = WORDS + <usize>(ROWS + ELEMENTS / BLOCK) * 8;
/** The last quad of lanes may end behind the last element. */
const BYTES: usize = LANES + <usize>(ELEMENTS + 16) * 4;

/** Most elements that a tile may have. */
export function tileElements(): i32 {
  return ELEMENTS;
}

/** Most rows that a tile may have. */
export function tileRows(): i32 {
  return ROWS;
}

/** Bytes of memory that a selection takes, a multiple of 64. */
export function selectionBytes(): i32 {
  return <i32>BYTES;
}

/** Number of selected elements of row `row`. */
/* @inline */ export function countOf(selection: usize, row: i32): i32 {
  return load<i32>(selection + ((<usize>row) << 2));
}

/** The words of row `row`: one per block. */
/* @inline */ export function wordsOf(selection: usize, row: i32, cols: i32): usize {
  return selection + WORDS + ((<usize>(row * blocksIn(cols))) << 3);
}

/** The lanes of row `row`: one per element. */
/* @inline */ export function lanesOf(selection: usize, row: i32, cols: i32): usize {
  return selection + LANES + ((<usize>(row * cols)) << 2);
}

/** Where the word of the element `i` of a row is. */
/* @inline */ export function wordAt(words: usize, i: i32): usize {
  return words + ((<usize>(<u32>i / BLOCK)) << 3);
}

/** Whether the element `i` of a row is selected. */
/* @inline */ export function isSelected(words: usize, i: i32): bool {
  return ((load<u64>(wordAt(words, i)) >> (<u32>i % BLOCK)) & 1) != 0;
}

/** Writes the lanes of the first `n` elements that a word stands for, and up to three behind them. */
export function storeLanesOf(word: u64, n: i32, lanes: usize): void {
  const places = i32x4(1, 2, 4, 8);
  for (let i = 0; i < n; i += 4) {
    const bits = v128.and(i32x4.splat(<i32>(word >> i)), places);
    v128.store(lanes + ((<usize>i) << 2), i32x4.eq(bits, places));
  }
}

/** Index of the first selected element of a row that has one. */
/* @inline */ export function firstSelected(words: usize): i32 {
  let first = 0;
  let word = load<u64>(words);
  while (word == 0) {
    first += BLOCK;
    words += 8;
    word = load<u64>(words);
  }
  return first + <i32>ctz(word);
}

/** The word of a block of `n` elements that are all selected. */
/* @inline */ export function fullWord(n: i32): u64 {
  return FULL >> (<u64>(BLOCK - n));
}

/* @inline */ function blocksIn(cols: i32): i32 {
  return (cols + BLOCK - 1) / BLOCK;
}

/** Index behind the last selected element of a tile of one row; 0 if there is none. */
export function selectedEnd(selection: usize, cols: i32): i32 {
  const words = wordsOf(selection, 0, cols);
  for (let block = blocksIn(cols) - 1; block >= 0; block--) {
    const word = load<u64>(words + ((<usize>block) << 3));
    if (word != 0) return (block + 1) * BLOCK - <i32>clz(word);
  }
  return 0;
}

/** Reads a mask of float32; returns how many elements of the tile are selected. Zero does not select, NaN does. */
export function selectFloat32(mask: usize, rows: i32, cols: i32, selection: usize): i32 {
  return selectTile<f32>(mask, rows, cols, selection);
}

/** Reads a mask of int32, see `selectFloat32`. */
export function selectInt32(mask: usize, rows: i32, cols: i32, selection: usize): i32 {
  return selectTile<i32>(mask, rows, cols, selection);
}

/** Reads a mask of bool, one byte each, see `selectFloat32`. */
export function selectBool(mask: usize, rows: i32, cols: i32, selection: usize): i32 {
  return selectTile<u8>(mask, rows, cols, selection);
}

/* @inline */ function selectTile<T>(mask: usize, rows: i32, cols: i32, selection: usize): i32 {
  let total = 0;
  for (let row = 0; row < rows; row++) {
    let words = wordsOf(selection, row, cols);
    let lanes = lanesOf(selection, row, cols);
    let count = 0;
    for (let start = 0; start < cols; start += BLOCK) {
      const n = min(cols - start, BLOCK);
      const word = n == BLOCK ? wordOfBlock<T>(mask) : wordOfPart<T>(mask, n);
      store<u64>(words, word);
      count += <i32>popcnt(word);
      if (word != 0 && word != fullWord(n)) storeLanes<T>(mask, n, lanes);
      words += 8;
      lanes += (<usize>BLOCK) << 2;
      mask += <usize>n * sizeof<T>();
    }
    store<i32>(selection + ((<usize>row) << 2), count);
    total += count;
  }
  return total;
}

/** One bit per element for 64. */
/* @inline */ export function wordOfBlock<T>(mask: usize): u64 {
  return (
    bitsOf16<T>(mask) |
    (bitsOf16<T>(mask + 16 * sizeof<T>()) << 16) |
    (bitsOf16<T>(mask + 32 * sizeof<T>()) << 32) |
    (bitsOf16<T>(mask + 48 * sizeof<T>()) << 48)
  );
}

/** One bit per element for 16 elements. */
/* @inline */ function bitsOf16<T>(mask: usize): u64 {
  if (sizeof<T>() == 1) return <u64>(<u32>i8x16.bitmask(i8x16.ne(v128.load(mask), i8x16.splat(0))));
  const low = i16x8.narrow_i32x4_s(lanesOfQuad<T>(loadQuad<T>(mask)), lanesOfQuad<T>(loadQuad<T>(mask + 16)));
  const high = i16x8.narrow_i32x4_s(
    lanesOfQuad<T>(loadQuad<T>(mask + 32)),
    lanesOfQuad<T>(loadQuad<T>(mask + 48)),
  );
  return <u64>(<u32>i8x16.bitmask(i8x16.narrow_i16x8_s(low, high)));
}

/** One bit per element for fewer than 64. */
/* @inline */ export function wordOfPart<T>(mask: usize, n: i32): u64 {
  let word: u64 = 0;
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const lanes = lanesOfQuad<T>(loadQuad<T>(mask + <usize>i * sizeof<T>()));
    word |= (<u64>(<u32>i32x4.bitmask(lanes))) << i;
  }
  if (i < n) {
    const lanes = lanesOfQuad<T>(loadRest<T>(mask + <usize>i * sizeof<T>(), n - i));
    word |= (<u64>(<u32>i32x4.bitmask(lanes))) << i;
  }
  return word;
}

/* @inline */ function storeLanes<T>(mask: usize, n: i32, lanes: usize): void {
  let i = 0;
  if (sizeof<T>() == 1) {
    for (; i + 16 <= n; i += 16) storeLanesOf16(mask + i, lanes + ((<usize>i) << 2));
  }
  for (; i + 4 <= n; i += 4) {
    v128.store(lanes + ((<usize>i) << 2), lanesOfQuad<T>(loadQuad<T>(mask + <usize>i * sizeof<T>())));
  }
  // Spills into the lanes of the next row, which are written later.
  if (i < n) {
    v128.store(lanes + ((<usize>i) << 2), lanesOfQuad<T>(loadRest<T>(mask + <usize>i * sizeof<T>(), n - i)));
  }
}

/** The lanes of 16 bytes. */
/* @inline */ function storeLanesOf16(mask: usize, lanes: usize): void {
  const bytes = i8x16.ne(v128.load(mask), i8x16.splat(0));
  const low = i16x8.extend_low_i8x16_s(bytes);
  const high = i16x8.extend_high_i8x16_s(bytes);
  v128.store(lanes, i32x4.extend_low_i16x8_s(low));
  v128.store(lanes, i32x4.extend_high_i16x8_s(low), 16);
  v128.store(lanes, i32x4.extend_low_i16x8_s(high), 32);
  v128.store(lanes, i32x4.extend_high_i16x8_s(high), 48);
}

/* @inline */ function lanesOfQuad<T>(quad: v128): v128 {
  if (isFloat<T>()) return f32x4.ne(quad, f32x4.splat(0));
  return i32x4.ne(quad, i32x4.splat(0));
}
