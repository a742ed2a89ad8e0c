/** Statistics of host numbers in plain float64 loops: what all ways are checked against. Written to be obvious. */
import type { Numbers } from './agreement.js';

export interface Statistics {
  readonly count: number;
  readonly nan: number;
  readonly infinite: number;
  readonly sum: number;
  readonly mean: number;
  /** Σ(x − mean)² */
  readonly m2: number;
  readonly min: number;
  readonly max: number;
}

/** Of the elements at which `mask` is not 0, or of all; sum, mean, m2, min and max are of the finite ones. */
export function statisticsOf(values: ArrayLike<number>, mask?: ArrayLike<number>): Statistics {
  let [count, nan, infinite, sum, min, max] = [0, 0, 0, 0, Infinity, -Infinity];
  const isFiniteSelected = (i: number): boolean => mask?.[i] !== 0 && Number.isFinite(values[i]);
  for (let i = 0; i < values.length; i++) {
    if (mask?.[i] === 0) continue;
    const x = values[i]!;
    count++;
    if (Number.isNaN(x)) nan++;
    else if (!Number.isFinite(x)) infinite++;
    else {
      sum += x;
      if (x < min) min = x;
      if (x > max) max = x;
    }
  }
  const mean = sum / (count - nan - infinite);
  let m2 = 0;
  for (let i = 0; i < values.length; i++) if (isFiniteSelected(i)) m2 += (values[i]! - mean) ** 2;
  return { count, nan, infinite, sum, mean, m2, min, max };
}

/** `{prefix}/mean`, `{prefix}/max`, `{prefix}/min`. */
export function meanMaxMin(prefix: string, { mean, max, min }: Statistics): Numbers {
  return { [`${prefix}/mean`]: mean, [`${prefix}/max`]: max, [`${prefix}/min`]: min };
}

/** Sum of each of `rows` rows. */
export function rowSums(values: ArrayLike<number>, rows: number): Float64Array {
  const cols = values.length / rows;
  const sums = new Float64Array(rows);
  for (let i = 0; i < values.length; i++) sums[Math.floor(i / cols)]! += values[i]!;
  return sums;
}
