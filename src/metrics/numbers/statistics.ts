/** Mean, extremes and shares of numbers that are already on the host, one per row of a batch. */
import { Moments, emptyRow, liftRow, mergeRows } from '../../rows/index.js';

/** Named metrics. Numerically undefined values are NaN. */
export type Metrics = Record<string, number>;

/** The moments of host numbers, in two passes: there is one per row of a batch, and they are at hand. */
export function momentsOf(values: ArrayLike<number>): Moments {
  const { length } = values;
  let [nan, posInf, negInf, sum, min, max] = [0, 0, 0, 0, Infinity, -Infinity];
  for (let i = 0; i < length; i++) {
    const x = values[i]!;
    if (x - x !== 0) {
      if (x === Infinity) posInf++;
      else if (x === -Infinity) negInf++;
      else nan++;
      continue;
    }
    sum += x;
    if (x < min) min = x;
    if (x > max) max = x;
  }
  // A sum beyond float64 says nothing about the mean.
  if (!Number.isFinite(sum)) return new Moments(Array.from(values, liftRow).reduce(mergeRows, emptyRow));
  const mean = sum / (length - nan - posInf - negInf);
  let m2 = 0;
  for (let i = 0; i < length; i++) {
    const deviation = values[i]! - mean;
    if (deviation - deviation === 0) m2 += deviation * deviation;
  }
  return new Moments({ count: length, nan, posInf, negInf, sum, m2, min, max });
}

/** `{prefix}/mean`, `{prefix}/max` and `{prefix}/min`. */
export function meanMaxMin(
  prefix: string,
  { mean, max, min }: Pick<Moments, 'mean' | 'max' | 'min'>,
): Metrics {
  // + 0 makes 0 of −0, which no reader of a log expects.
  return { [`${prefix}/mean`]: mean + 0, [`${prefix}/max`]: max + 0, [`${prefix}/min`]: min + 0 };
}

/** Fraction of `values` for which `holds`; NaN for none. */
export function fraction<T>(values: ArrayLike<T> & Iterable<T>, holds: (value: T) => boolean): number {
  let hits = 0;
  for (const value of values) if (holds(value)) hits++;
  return hits / values.length;
}

/** Exact sum of integers up to 2^53. */
export function total(values: ArrayLike<number>): number {
  let sum = 0;
  for (const value of Array.from(values)) sum += value;
  return sum;
}
