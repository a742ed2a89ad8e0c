/**
 * The numerical contract of masked moments, as assertions.
 *
 * | quantity         | bound against the float64 reference of the same inputs                         |
 * |------------------|--------------------------------------------------------------------------------|
 * | counts, min, max | exact                                                                          |
 * | mean             | 1e-6 · max(|mean|, std)                                                        |
 * | variance, m2     | relative 1e-5, for |mean| / std up to 1e5                                      |
 *
 * Where |mean| / std exceeds 1e5, the spread is below what the contract speaks of; the bound of m2 is then the one
 * that holds at a ratio of exactly 1e5. Nothing here is tuned to a backend.
 */

import { expect } from 'vitest';

import type { Moments } from '../../src/kernels/index.js';

const MEAN_REL = 1e-6;
const M2_REL = 1e-5;
const MAX_RATIO = 1e5;

/** Largest error of the mean that the contract allows. */
export function meanBound(reference: Moments): number {
  const std = reference.std(0);
  return MEAN_REL * Math.max(Math.abs(reference.mean), Number.isNaN(std) ? 0 : std);
}

/** Largest error of m2 that the contract allows. */
export function m2Bound(reference: Moments): number {
  const leastStd = Math.abs(reference.mean) / MAX_RATIO;
  return M2_REL * Math.max(reference.m2, reference.count * leastStd * leastStd);
}

/** The numbers of finished moments by name, for comparing all of them to the bit. */
export function fieldsOf(moments: Moments): Record<string, number> {
  return Object.fromEntries(Object.entries(moments));
}

/**
 * Asserts that `actual` meets the contract.
 *
 * @param actual finished moments, one or one per row
 * @param reference the float64 moments of the same elements under the same policy
 * @param where names the case in the failure
 * @param extremes what min and max may be off by; 0 unless the elements themselves are computed on the device
 */
export function expectContract(
  actual: Moments | readonly Moments[],
  reference: Moments | readonly Moments[],
  where: string,
  extremes = 0,
): void {
  const got = Array.isArray(actual) ? (actual as readonly Moments[]) : [actual as Moments];
  const want = Array.isArray(reference) ? (reference as readonly Moments[]) : [reference as Moments];
  expect(got.length, `${where}: rows`).toBe(want.length);

  const close = (what: string, pick: (m: Moments) => number, bounds: readonly number[]): void => {
    expect(got.map(pick), `${where}: ${what}`).toBeCloseToReference(want.map(pick), { abs: bounds });
  };
  for (const field of ['count', 'nan', 'posInf', 'negInf', 'min', 'max'] as const) {
    const bound = field === 'min' || field === 'max' ? extremes : 0;
    close(
      field,
      (m) => m[field],
      want.map(() => bound),
    );
  }
  const mean = want.map(meanBound);
  const sum = want.map((m, i) => m.count * mean[i]!);
  close('mean', (m) => m.mean, mean);
  close('sum', (m) => m.sum, sum);

  const m2 = want.map(m2Bound);
  close('m2', (m) => m.m2, m2);
  for (const correction of [0, 1]) {
    close(
      `variance(${correction})`,
      (m) => m.variance(correction),
      want.map((m, i) => (m.count > correction ? m2[i]! / (m.count - correction) : 0)),
    );
  }
}
