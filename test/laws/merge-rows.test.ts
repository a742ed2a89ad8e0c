/**
 * The laws that make a moments row mergeable: identity, order, association, and any split equals the whole.
 *
 * Bounds are derived. Merging n elements of magnitude at most M in float64 rounds each mean by δ ≤ 4u·M per merge,
 * u = 2⁻⁵³, counting the rounding of the sum behind it. A mean is then off by at most n·δ, and m2 by
 * 2·n·δ·√(n·m2) + n³·δ² + 8·n·u·m2: the first two terms are what δ does to the squared differences of means, the
 * last is the rounding of the additions.
 */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { Moments } from '../../src/rows/moments.js';
import { emptyRow, finiteMean, liftRow, mergeRows, type MomentsRow, repeatRow } from '../../src/rows/row.js';
import { MomentsTable } from '../../src/rows/table.js';
import { RowMoments } from '../../src/kernels/moments/row-moments.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { momentsOf } from '../../src/metrics/numbers/statistics.js';
import { anyValues, finiteValues } from '../support/arbitraries.js';
import { fieldsOf } from '../support/contract.js';

const U = 2 ** -53;

function rowOf(values: readonly number[]): MomentsRow {
  return values.map(liftRow).reduce(mergeRows, emptyRow);
}

/** Asserts that two rows of the same `values` agree within what float64 merging may lose. */
function expectSameRow(actual: MomentsRow, reference: MomentsRow, values: readonly number[]): void {
  for (const exact of ['count', 'nan', 'posInf', 'negInf', 'min', 'max'] as const) {
    expect(actual[exact], exact).toBe(reference[exact]);
  }
  const finite = values.filter(Number.isFinite);
  const n = finite.length;
  const delta = 4 * U * Math.max(0, ...finite.map(Math.abs));
  if (n > 0) {
    expect(finiteMean(actual), 'mean').toBeCloseToReference(finiteMean(reference), { abs: n * delta });
  }
  expect(actual.sum, 'sum').toBeCloseToReference(reference.sum, { abs: n * n * delta });
  const { m2 } = reference;
  expect(actual.m2, 'm2').toBeCloseToReference(m2, {
    abs: 2 * n * delta * Math.sqrt(n * m2) + n ** 3 * delta * delta + 8 * n * U * m2,
  });
}

describe('merging rows', () => {
  test('the empty row is the identity, on both sides, to the bit', () => {
    fc.assert(
      fc.property(anyValues(0, 20), (values) => {
        const row = rowOf(values);
        expect(mergeRows(emptyRow, row)).toEqual(row);
        expect(mergeRows(row, emptyRow)).toEqual(row);
      }),
    );
  });

  test.each([1e200, -1e200, 1.7976931348623157e308, 5e-324])('the identity holds for %d', (x) => {
    expect(mergeRows(emptyRow, liftRow(x))).toEqual(liftRow(x));
    expect(mergeRows(liftRow(x), emptyRow)).toEqual(liftRow(x));
  });

  test.each([NaN, Infinity, -Infinity])('a row of %d alone does not touch the moments of the finite', (x) => {
    const row = rowOf([1e200, 3]);
    const merged = mergeRows(liftRow(x), row);
    expect(merged).toEqual({
      ...row,
      count: 3,
      nan: merged.nan,
      posInf: merged.posInf,
      negInf: merged.negInf,
    });
    expect(mergeRows(row, liftRow(x))).toEqual(merged);
    expect(merged.nan + merged.posInf + merged.negInf).toBe(1);
  });

  test('order does not matter', () => {
    fc.assert(
      fc.property(anyValues(0, 20), anyValues(0, 20), (a, b) => {
        expectSameRow(mergeRows(rowOf(b), rowOf(a)), mergeRows(rowOf(a), rowOf(b)), [...a, ...b]);
      }),
    );
  });

  test('grouping does not matter', () => {
    fc.assert(
      fc.property(anyValues(0, 20), anyValues(0, 20), anyValues(0, 20), (a, b, c) => {
        const left = mergeRows(mergeRows(rowOf(a), rowOf(b)), rowOf(c));
        const right = mergeRows(rowOf(a), mergeRows(rowOf(b), rowOf(c)));
        expectSameRow(left, right, [...a, ...b, ...c]);
      }),
    );
  });

  test('any split merges to the whole', () => {
    const split = fc.tuple(anyValues(0, 100), fc.array(fc.nat(100), { maxLength: 6 }));
    fc.assert(
      fc.property(split, ([values, cuts]) => {
        const bounds = [0, ...cuts.sort((a, b) => a - b), values.length];
        const parts = bounds.slice(1).map((end, i) => values.slice(bounds[i], end));
        const merged = parts.map(rowOf).reduce(mergeRows, emptyRow);
        expectSameRow(merged, referenceMoments(values, undefined, 1, values.length).row(0), values);
      }),
    );
  });

  test('any permutation of the elements gives the same row', () => {
    const shuffled = finiteValues(1, 60).chain((values) =>
      fc.tuple(fc.constant(values), fc.shuffledSubarray(values, { minLength: values.length })),
    );
    fc.assert(
      fc.property(shuffled, ([values, permuted]) => {
        expectSameRow(rowOf(permuted), rowOf(values), values);
      }),
    );
  });

  test('m2 is never negative and min ≤ mean ≤ max up to rounding', () => {
    fc.assert(
      fc.property(finiteValues(1, 60), (values) => {
        const row = rowOf(values);
        const slack = 4 * U * values.length * Math.max(...values.map(Math.abs));
        expect(row.m2).toBeGreaterThanOrEqual(0);
        expect(finiteMean(row)).toBeGreaterThanOrEqual(row.min - slack);
        expect(finiteMean(row)).toBeLessThanOrEqual(row.max + slack);
      }),
    );
  });

  test('counts stay exact above 2^24 and far beyond', () => {
    const large: MomentsRow = { ...liftRow(1), count: 2 ** 52, sum: 2 ** 52, m2: 0 };
    const more = mergeRows(large, liftRow(1));
    expect(more.count).toBe(2 ** 52 + 1);
    expect(more.sum).toBe(2 ** 52 + 1);
  });
});

describe('sums beyond float64', () => {
  const lift = (...values: number[]): MomentsRow => rowOf(values);

  test.each([
    [[1e308, 1e308], 1e308],
    [[1e308, 1.5e308, 1.25e308], 1.25e308],
    [[-1e308, -1.5e308], -1.25e308],
    [[1e308, 1e308, -1e308, -1e308], 0],
    [[1e308, 1.7e308, -1e308], 1.7e308 / 3],
    [[Number.MAX_VALUE, Number.MAX_VALUE, Number.MAX_VALUE], Number.MAX_VALUE],
    [[1.6e308, 1.6e308, 1], (1.6e308 / 3) * 2],
  ])('%j has its mean, in any order and grouping', (values, mean) => {
    const bound = { abs: 8 * U * Math.max(...values.map(Math.abs)) };
    expect(finiteMean(lift(...values))).toBeCloseToReference(mean, bound);
    expect(finiteMean(lift(...values.toReversed()))).toBeCloseToReference(mean, bound);
    const grouped = mergeRows(lift(values[0]!), lift(...values.slice(1)));
    expect(new Moments(grouped).mean).toBeCloseToReference(mean, bound);
    const table = new MomentsTable(1);
    for (const x of values) table.add(0, liftRow(x));
    expect(RowMoments.fromTable(table).mean[0]).toBeCloseToReference(mean, bound);
    expect(new Moments(mergeRows(grouped, liftRow(NaN)), 'ignore').mean).toBeCloseToReference(mean, bound);
  });

  test('show as infinite, and come back into float64 with elements of the other sign', () => {
    const beyond = lift(1e308, 1e308);
    expect(beyond.sum).toBe(Infinity);
    const back = mergeRows(beyond, lift(-1.5e308));
    expect(back.sum).toBeCloseToReference(0.5e308, { abs: 1e293 });
    expect(back).toMatchObject({ count: 3, m2: Infinity, min: -1.5e308, max: 1e308 });
    expect(mergeRows(lift(1e308, 1e308), lift(-1e308, -1e308)).sum).toBe(0);
  });

  test('leave squared deviations as they are: 0 of equal elements, else infinite', () => {
    expect(new Moments(lift(1e308, 1e308))).toMatchObject({ sum: Infinity, m2: 0, min: 1e308, max: 1e308 });
    expect(new Moments(lift(1e308, 1.1e308))).toMatchObject({ sum: Infinity, m2: Infinity });
    expect(new Moments(lift(-1e308, -1e308)).std()).toBe(0);
    const table = new MomentsTable(1);
    table.set(0, lift(1e308, 1e308));
    expect(RowMoments.fromTable(table).m2[0]).toBe(0);
  });

  test('of a repeated number, too', () => {
    expect(repeatRow(1e308, 10)).toMatchObject({ count: 10, sum: Infinity });
    expect(finiteMean(repeatRow(-1e308, 10))).toBe(-1e308);
    expect(finiteMean(mergeRows(repeatRow(1e308, 10), repeatRow(0.5e308, 10)))).toBe(0.75e308);
  });

  test('of a device, whose mean is gone with them, stay infinite', () => {
    const lost: MomentsRow = { ...lift(1e308, 1.5e308), sum: Infinity, m2: NaN };
    expect(finiteMean(lost)).toBe(Infinity);
    expect(finiteMean(mergeRows(lost, liftRow(1)))).toBe(Infinity);
  });

  test('are no reason for numbers of the host to lose their mean', () => {
    expect(momentsOf([1e308, 1.5e308, NaN])).toMatchObject({ nan: 1 });
    expect(momentsOf([1e308, 1.5e308]).mean).toBe(1.25e308);
  });
});

describe('finishing rows', () => {
  test('ignoring non-finite values equals leaving them out beforehand', () => {
    fc.assert(
      fc.property(anyValues(0, 40), (values) => {
        const finished = new Moments(rowOf(values), 'ignore');
        const finite = new Moments(rowOf(values.filter(Number.isFinite)));
        expect({ ...fieldsOf(finished), nan: 0, posInf: 0, negInf: 0 }).toEqual(fieldsOf(finite));
      }),
    );
  });

  test('propagation shows what IEEE arithmetic on the elements shows', () => {
    fc.assert(
      fc.property(anyValues(1, 40), (values) => {
        const { sum, mean, min, max } = new Moments(rowOf(values));
        const plainSum = values.reduce((a, b) => a + b, 0);
        if (!Number.isFinite(plainSum)) {
          expect(sum).toBe(plainSum);
          expect(mean).toBe(plainSum);
        }
        expect(min).toBeCloseToReference(Math.min(...values), {});
        expect(max).toBeCloseToReference(Math.max(...values), {});
      }),
    );
  });
});
