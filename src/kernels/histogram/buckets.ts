/**
 * The buckets of a histogram: the same for all data, so that histograms of anything merge by adding counts.
 *
 * A bucket is a number of seven significant bits, and counts the float32 numbers that round to it, halves away from zero.
 * Which one that is follows from the bits of the float alone, by an addition and a shift, so that every device agrees.
 * Neighbours are 2⁻⁶ of a power of two apart: a number and its bucket differ by at most 1/129 of the number, and
 * integers up to 128, halves, quarters and powers of two are their own buckets.
 */

/** Bits of a bucket after the leading one. */
const FRACTION_BITS = 6;
const PER_OCTAVE = 2 ** FRACTION_BITS;

/** Exponents of the first and the last bucket; the latter is 2^32, so that all of int32 has a bucket. */
const FIRST_EXPONENT = -31;
const LAST_EXPONENT = 32;

/** Number of the last bucket. The first is 1, and also counts all that is nearer to zero; the last, all beyond it. */
export const LAST_BUCKET = (LAST_EXPONENT - FIRST_EXPONENT) * PER_OCTAVE + 1;

/** How a kernel finds the number of the bucket of a positive float: `(bits + half) >> shift − base`, then clamped. */
export const shift = 23 - FRACTION_BITS;
export const half = 2 ** (shift - 1);
export const base = (127 + FIRST_EXPONENT) * PER_OCTAVE - 1;
/** The bits of +Infinity; those of NaN are larger, after the sign. */
export const INFINITY_BITS = 0x7f800000;

/**
 * Kernels count in slots: zero, the buckets from the first to the last, NaN, Infinity. Those of negative floats come
 * `NEGATIVE` later, and both halves have slots to spare.
 */
export const NEGATIVE = 4096;
export const SLOTS = 2 * NEGATIVE;
export const NAN_SLOT = LAST_BUCKET + 1;
export const INFINITY_SLOT = LAST_BUCKET + 2;
/** Where a kernel may count what is not selected: nobody looks there. */
export const IGNORED_SLOT = SLOTS - 1;

/** The number that a bucket stands for: 0 for bucket 0, negative for negative ones. */
export function bucketValue(bucket: number): number {
  if (bucket === 0) return 0;
  const steps = Math.abs(bucket) - 1;
  const octave = Math.floor(steps / PER_OCTAVE);
  return Math.sign(bucket) * 2 ** (FIRST_EXPONENT + octave) * (1 + (steps % PER_OCTAVE) / PER_OCTAVE);
}
