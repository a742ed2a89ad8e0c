/** Histograms of tensors in host memory: the arrays are read once, where they are. */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { buckets, histogramOfSlots } from '../../rows/index.js';
import { Pending } from '../collect.js';
import type { HistogramKernel } from '../histogram/request.js';
import { type MaskForm, WORD_BITS, firstRunBehind } from '../masks/forms.js';
import type { HostArray } from './arrays.js';

/** Constants of this module are compiled into the loop, those of another are looked up for every element: 3 × the time. */
const { INFINITY_BITS, INFINITY_SLOT, NAN_SLOT, NEGATIVE, NORMAL_BITS, SLOTS, base, half, shift } = buckets;

const FINITE = INFINITY_BITS - NORMAL_BITS;

/** Elements that are converted to float32 at once. */
const TILE = 4096;

/** The kernel of a backend that shows its tensors as arrays. */
export function hostHistograms(
  array: (backend: KernelBackend, info: TensorInfo) => HostArray,
): HistogramKernel {
  return ({ backend, values, mask }) => {
    const count = mask === undefined ? countAll : counts[mask.form];
    const selection = mask === undefined ? NO_MASK : array(backend, mask.tensor);
    return Pending.of(values.map((x) => histogramOfSlots(countSlots(array(backend, x), selection, count))));
  };
}

const NO_MASK = new Uint8Array(0);

/** Counts float32 given by their bits, the first of which is element `start`, a multiple of 32, of the mask. */
type Count = (slots: Uint32Array, bits: Int32Array, mask: HostArray, start: number) => void;

function countSlots(values: HostArray, mask: HostArray, count: Count): Uint32Array {
  const slots = new Uint32Array(SLOTS);
  if (values instanceof Float32Array) {
    count(slots, new Int32Array(values.buffer, values.byteOffset, values.length), mask, 0);
    return slots;
  }
  // Not by dtype: a tensor that was cast may still hold the integers that it was made of.
  const floats = new Float32Array(Math.min(TILE, values.length));
  const bits = new Int32Array(floats.buffer);
  for (let start = 0; start < values.length; start += TILE) {
    const tile = values.subarray(start, start + TILE);
    floats.set(tile);
    count(slots, bits.subarray(0, tile.length), mask, start);
  }
  return slots;
}

const countAll: Count = (slots, bits) => {
  for (const x of bits) slots[slotOf(x)]!++;
};

const countElements: Count = (slots, bits, mask, start) => {
  for (let i = 0; i < bits.length; i++) {
    if (mask[start + i] !== 0) slots[slotOf(bits[i]!)]!++;
  }
};

const countBits: Count = (slots, bits, mask, start) => {
  for (let first = 0; first < bits.length; first += WORD_BITS) {
    let word = mask[(start + first) / WORD_BITS]!;
    // To the last bit that is set. What is behind the last element is none.
    for (let i = first; word !== 0; i++, word >>>= 1) {
      if ((word & 1) !== 0) slots[slotOf(bits[i]!)]!++;
    }
  }
};

const countRuns: Count = (slots, bits, runs, start) => {
  const last = start + bits.length;
  for (let run = firstRunBehind(runs, start); run < runs.length && runs[run]! < last; run += 2) {
    const end = Math.min(runs[run + 1]! - start, bits.length);
    for (let i = Math.max(runs[run]! - start, 0); i < end; i++) slots[slotOf(bits[i]!)]!++;
  }
};

const counts: Readonly<Record<MaskForm, Count>> = {
  elements: countElements,
  bits: countBits,
  runs: countRuns,
};

/** The slot of the float32 with these bits. Half of the numbers are negative, so the sign must not be a branch. */
function slotOf(bits: number): number {
  const sign = (bits >> 31) & NEGATIVE;
  const magnitude = bits & 0x7fffffff;
  if ((magnitude - NORMAL_BITS) >>> 0 < FINITE) return sign + ((magnitude + half) >>> shift) - base;
  return sign + specialSlot(magnitude);
}

/** The slot of zero, a subnormal float, an infinity or NaN. */
function specialSlot(magnitude: number): number {
  if (magnitude === 0) return 0;
  if (magnitude >= INFINITY_BITS) return magnitude === INFINITY_BITS ? INFINITY_SLOT : NAN_SLOT;
  const exponent = 31 - Math.clz32(magnitude);
  // As the float of the integer has them, with an exponent that begins at 0.
  return ((magnitude * 2 ** (23 - exponent) + (exponent - 1) * NORMAL_BITS + half) >>> shift) + 1;
}
