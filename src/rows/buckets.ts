/**
 * The buckets of a histogram: the same for all data, so that histograms of anything merge by adding counts.
 *
 * A bucket is a number of seven significant bits, and counts the float32 numbers that round to it, halves away from zero.
 * Which one that is follows from the bits of the float alone, by an addition and a shift, so that every device agrees.
 * Neighbours are 2⁻⁶ of a power of two apart: a number and its bucket differ by at most 1/129 of the number, and
 * integers up to 128, halves, quarters and powers of two are their own buckets. All of float32 has buckets, subnormal
 * numbers too.
 */

/** Bits of a bucket after the leading one. */
const FRACTION_BITS = 6;
const PER_OCTAVE = 2 ** FRACTION_BITS;

/** Exponents of the smallest float32 and of the first number beyond the largest, to which the largest ones round. */
const FIRST_EXPONENT = -149;
const LAST_EXPONENT = 128;

const bucketOfPower = (exponent: number): number => (exponent - FIRST_EXPONENT) * PER_OCTAVE + 1;

/** Number of the last bucket; the first is 1. */
export const LAST_BUCKET = bucketOfPower(LAST_EXPONENT);

/**
 * How a kernel finds the number of the bucket of a positive float: `(bits + half) >> shift`, minus `base`. The bits of a
 * subnormal float, m · 2⁻¹⁴⁹, have no leading one: those of the float m are taken, which are `SUBNORMAL` more than what a
 * longer exponent would give.
 */
export const shift = 23 - FRACTION_BITS;
export const half = 2 ** (shift - 1);
export const base = (127 + FIRST_EXPONENT) * PER_OCTAVE - 1;
export const SUBNORMAL = -FIRST_EXPONENT * 2 ** 23;
/** The bits of the smallest float that is not subnormal. */
export const NORMAL_BITS = 2 ** 23;
/** The bits of +Infinity; those of NaN are larger, after the sign. */
export const INFINITY_BITS = 0x7f800000;

/**
 * Kernels count in slots: zero, the buckets from the first to the last, NaN, Infinity. Those of negative floats come
 * `NEGATIVE` later, and both halves have slots to spare.
 */
export const NEGATIVE = 278 * 64;
/** A multiple of what a device may want tables to begin at. */
export const SLOTS = 2 * NEGATIVE;
export const NAN_SLOT = LAST_BUCKET + 1;
export const INFINITY_SLOT = LAST_BUCKET + 2;
/** Where a kernel may count what is not selected: nobody looks there. */
export const IGNORED_SLOT = SLOTS - 1;

/** Buckets of ordinary numbers, from 2⁻³¹ to 2³²: few enough for the fast memory of a workgroup. */
export const ORDINARY = { first: bucketOfPower(-31), last: bucketOfPower(32) } as const;

/** The number that a bucket stands for: 0 for bucket 0, negative for negative ones. */
export function bucketValue(bucket: number): number {
  if (bucket === 0) return 0;
  const steps = Math.abs(bucket) - 1;
  const octave = Math.floor(steps / PER_OCTAVE);
  return Math.sign(bucket) * 2 ** (FIRST_EXPONENT + octave) * (1 + (steps % PER_OCTAVE) / PER_OCTAVE);
}
