/**
 * Masks of one bit per element: packed once, read by any number of passes.
 *
 * Bit i mod 64 of word ⌊i / 64⌋ stands for element i.
 */
import { BLOCK, fullWord, lanesOf, storeLanesOf, wordOfBlock, wordOfPart, wordsOf } from './selection.js';

/**
 * Reads a tile of a mask of bits, see `selectFloat32`: the element 0 is bit `first` of the 32 bits at `bits`, and those of
 * all rows follow each other. Up to 8 bytes are read behind the word of the last one.
 */
export function selectBits(bits: usize, first: i32, rows: i32, cols: i32, selection: usize): i32 {
  let total = 0;
  let next = <usize>first;
  for (let row = 0; row < rows; row++) {
    let words = wordsOf(selection, row, cols);
    let lanes = lanesOf(selection, row, cols);
    let count = 0;
    for (let start = 0; start < cols; start += BLOCK) {
      const n = min(cols - start, BLOCK);
      const full = fullWord(n);
      const word = bitsFrom(bits, next) & full;
      store<u64>(words, word);
      count += <i32>popcnt(word);
      // Lanes behind the last one spill into those of the next row, which are written later.
      if (word != 0 && word != full) storeLanesOf(word, n, lanes);
      words += 8;
      lanes += (<usize>BLOCK) << 2;
      next += <usize>n;
    }
    store<i32>(selection + ((<usize>row) << 2), count);
    total += count;
  }
  return total;
}

/** The 64 bits from bit `at` on. */
/* @inline */ function bitsFrom(bits: usize, at: usize): u64 {
  const word = bits + ((at >> 5) << 2);
  const shift = <u64>(at & 31);
  const low = load<u64>(word) >> shift;
  return shift == 0 ? low : low | ((<u64>load<u32>(word, 8)) << (64 - shift));
}

/**
 * Packs `n` elements of a mask of float32 into words of 64 bits, the last of which is filled with zeros; returns how
 * many are selected.
 */
export function packFloat32(mask: usize, n: i32, bits: usize): i32 {
  return packElements<f32>(mask, n, bits);
}

/** Packs a mask of int32, see `packFloat32`. */
export function packInt32(mask: usize, n: i32, bits: usize): i32 {
  return packElements<i32>(mask, n, bits);
}

/** Packs a mask of bool, one byte each, see `packFloat32`. */
export function packBool(mask: usize, n: i32, bits: usize): i32 {
  return packElements<u8>(mask, n, bits);
}

/* @inline */ function packElements<T>(mask: usize, n: i32, bits: usize): i32 {
  let count = 0;
  for (let start = 0; start < n; start += BLOCK) {
    const rest = n - start;
    const word = rest >= BLOCK ? wordOfBlock<T>(mask) : wordOfPart<T>(mask, rest);
    store<u64>(bits, word);
    count += <i32>popcnt(word);
    bits += 8;
    mask += <usize>BLOCK * sizeof<T>();
  }
  return count;
}

/**
 * Writes where the bits of `blocks` words of 64 change, the first bit being element `first` and coming behind one that is
 * `previous`; returns how many changes there are, −1 if they are more than `room`.
 */
export function findChanges(bits: usize, blocks: i32, first: i32, previous: i32, out: usize, room: i32): i32 {
  let carry = <u64>previous;
  let found = 0;
  for (let block = 0; block < blocks; block++) {
    const word = load<u64>(bits + ((<usize>block) << 3));
    let changes = word ^ ((word << 1) | carry);
    carry = word >> (BLOCK - 1);
    for (; changes != 0; changes &= changes - 1) {
      if (found == room) return -1;
      store<i32>(out + ((<usize>found) << 2), first + block * BLOCK + <i32>ctz(changes));
      found++;
    }
  }
  return found;
}
