/**
 * Histograms by arithmetic on numbers: the living specification.
 *
 * The simplest code that is right, so that every device kernel can be held against it. It rounds the selected elements to
 * seven significant bits by multiplication and division, where kernels look at bits, and knows no tensor and no device.
 */
import { Histogram } from '../../rows/index.js';

/** The bucket of a finite number: its distance from zero in buckets, with its sign. */
export function bucketOf(x: number): number {
  const magnitude = Math.abs(x);
  if (magnitude === 0) return 0;
  let exponent = Math.max(-149, Math.floor(Math.log2(magnitude)) - 1); // a rounded logarithm may be one too large
  while (magnitude >= 2 ** (exponent + 1)) exponent++;
  const inOctave = Math.floor((magnitude / 2 ** exponent) * 64 + 0.5) - 64;
  return Math.sign(x) * (1 + (exponent + 149) * 64 + inOctave);
}

/**
 * The histogram of the selected elements.
 *
 * @param mask as many entries as values; anything but 0 and −0 selects, also NaN. Without one, everything is selected
 */
export function referenceHistogram(values: ArrayLike<number>, mask?: ArrayLike<number>): Histogram {
  const selected = Array.from(values, Math.fround).filter((_, i) => mask?.[i] !== 0);
  const finite = new Map<number, number>();
  for (const x of selected.filter(Number.isFinite)) {
    const bucket = bucketOf(x);
    finite.set(bucket, (finite.get(bucket) ?? 0) + 1);
  }
  return Histogram.fromRow([
    2,
    selected.filter(Number.isNaN).length,
    selected.filter((x) => x === Infinity).length,
    selected.filter((x) => x === -Infinity).length,
    ...[...finite].sort(([a], [b]) => a - b).flat(),
  ]);
}
