/** Mean, extremes and shares of numbers that are already on the host, one per row of a batch. */
import { type MomentsRow, Moments, emptyRow, liftRow, mergeRows } from '../kernels/index.js';

/** Named metrics. Numerically undefined values are NaN. */
export type Metrics = Record<string, number>;

/** The moments of host numbers. */
export function momentsOf(values: Iterable<number>): Moments {
  let total: MomentsRow = emptyRow;
  for (const value of values) total = mergeRows(total, liftRow(value));
  return new Moments(total);
}

/** `{prefix}/mean`, `{prefix}/max` and `{prefix}/min`. */
export function meanMaxMin(
  prefix: string,
  { mean, max, min }: Pick<Moments, 'mean' | 'max' | 'min'>,
): Metrics {
  return { [`${prefix}/mean`]: mean, [`${prefix}/max`]: max, [`${prefix}/min`]: min };
}

/** Fraction of `values` for which `holds`; NaN for none. */
export function fraction(values: Float64Array, holds: (value: number) => boolean): number {
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
