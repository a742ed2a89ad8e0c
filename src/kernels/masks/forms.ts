/** What masks are made of in memory, and how to find one's way in it. */
import type { HostArray } from '../host/arrays.js';

/**
 * What the tensor of a mask holds:
 *
 * - `elements`: one per element of the mask, which selects unless it is zero.
 * - `bits`: int32 words; bit i mod 32 of word ⌊i / 32⌋ is element i. What is behind the last element is 0 on hosts and
 *   means nothing on devices, and so do words behind the last one.
 * - `runs`: int32 pairs of the first element that is selected and the first behind it that is not, in order; (0, 0)
 *   alone is none. Only on hosts.
 */
export type MaskForm = 'elements' | 'bits' | 'runs';

/** Elements of a mask in a word of bits. */
export const WORD_BITS = 32;

/** Index of the first run that ends behind an element, where its first element is; `length` if there is none. */
export function firstRunBehind(runs: HostArray, element: number): number {
  let low = 0;
  let high = runs.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (runs[2 * middle + 1]! > element) high = middle;
    else low = middle + 1;
  }
  return 2 * low;
}
