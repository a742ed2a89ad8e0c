/** The keys of the golden suite `moments`, and how each is read off finished moments. */
import type { Moments } from '../../src/kernels/index.js';

export const KEYS: Readonly<Record<string, (m: Moments) => number>> = {
  count: (m) => m.count,
  sum: (m) => m.sum,
  mean: (m) => m.mean,
  m2: (m) => m.m2,
  variance: (m) => m.variance(),
  min: (m) => m.min,
  max: (m) => m.max,
  nonfinite: (m) => m.nan + m.posInf + m.negInf,
};
