/** The float64 reference against golden truth (numpy float64 with exact summation), far inside the contract. */

import { describe, expect, test } from 'vitest';

import { ShapeError } from '../../../src/errors.js';
import type { Moments } from '../../../src/rows/moments.js';
import { emptyRow, liftRow } from '../../../src/rows/row.js';
import { RowMoments } from '../../../src/kernels/moments/row-moments.js';
import { referenceMoments } from '../../../src/kernels/moments/reference.js';
import { KEYS } from '../../support/golden-moments.js';
import { decodeInputs, isRefusal, loadGolden, type GoldenCase } from '../../support/golden.js';

/** Golden sums are exact and rounded once; ours may lose a few units in the last place. */
const REL = 1e-14;

function momentsOf(golden: GoldenCase, nonFinite: 'propagate' | 'ignore'): Moments[] {
  const { values, mask } = decodeInputs(golden.inputs);
  const size = values!.values.length;
  const cols = golden.options.axis === -1 ? values!.shape.at(-1)! : size;
  const rows = golden.options.axis === -1 ? size / cols : 1;
  return [...RowMoments.fromTable(referenceMoments(values!.values, mask?.values, rows, cols), nonFinite)];
}

describe.each([
  ['float64', 'propagate'],
  ['float64-finite-only', 'ignore'],
] as const)('the reference gives the golden %s moments', (reference, nonFinite) => {
  // The two large cases are about float32 counters and sums of devices, and take seconds in plain numbers.
  const cases = loadGolden('moments').cases.filter((golden) => golden.options.large !== true);

  test.each(cases)('$id', (golden) => {
    const expected = golden.expected[reference] ?? golden.expected.float64!;
    if (isRefusal(expected)) throw new Error(`${golden.id} expects a refusal`);
    const moments = momentsOf(golden, nonFinite);
    for (const [key, value] of Object.entries(expected)) {
      // A sum that cancels is exact relative to its terms, not to itself.
      const abs = key === 'sum' || key === 'mean' ? moments.map((m) => REL * Math.sqrt(m.m2)) : 0;
      expect(moments.map(KEYS[key]!), key).toBeCloseToReference(typeof value === 'number' ? [value] : value, {
        rel: REL,
        abs,
      });
    }
  });
});

describe('the reference', () => {
  test('is exact where naive sums lose everything', () => {
    const row = referenceMoments([1e30, 1, -1e30, 1], undefined, 1, 4).row(0);
    expect(row.sum).toBe(2);
  });

  test('takes the rounding of the mean out of m2', () => {
    const values = Float32Array.from({ length: 10_000 }, (_, i) => 1e7 + (i % 2));
    expect(referenceMoments(values, undefined, 1, 10_000).row(0).m2).toBeCloseToReference(2500, {
      rel: 1e-15,
    });
  });

  test('selects by anything but zero, also by NaN, and not by −0', () => {
    const row = referenceMoments([1, 2, 4, 8], [0, -0, NaN, 0.5], 1, 4).row(0);
    expect(row).toMatchObject({ count: 2, sum: 12, min: 4, max: 8 });
  });

  test('classifies what it selects and nothing else', () => {
    const row = referenceMoments([NaN, Infinity, -Infinity, NaN, 3], [1, 1, 1, 0, 1], 1, 5).row(0);
    expect(row).toEqual({ ...liftRow(3), count: 4, nan: 1, posInf: 1, negInf: 1 });
  });

  test('gives the empty row for no rows, no columns and no selection', () => {
    expect(referenceMoments([], undefined, 0, 5).length).toBe(0);
    expect([...referenceMoments([], undefined, 2, 0)]).toEqual([emptyRow, emptyRow]);
    expect(referenceMoments([1, 2], [0, 0], 1, 2).row(0)).toEqual(emptyRow);
  });

  test('refuses data that does not fill its rows', () => {
    expect(() => referenceMoments([1, 2, 3], undefined, 2, 2)).toThrow(ShapeError);
    expect(() => referenceMoments([1, 2, 3, 4], [1], 2, 2)).toThrow(/mask/);
  });
});
