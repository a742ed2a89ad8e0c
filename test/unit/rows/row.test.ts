/** The moments row as a value: finishing, tables, and reading per-row moments by column. Its laws are in test/laws. */

import { describe, expect, test } from 'vitest';

import { Moments } from '../../../src/rows/moments.js';
import { emptyRow, finiteCount, liftRow, mergeRows, type MomentsRow } from '../../../src/rows/row.js';
import { MomentsTable } from '../../../src/rows/table.js';
import { RowMoments } from '../../../src/kernels/moments/row-moments.js';
import { fieldsOf } from '../../support/contract.js';

function rowOf(...values: number[]): MomentsRow {
  return values.map(liftRow).reduce(mergeRows, emptyRow);
}

describe('finishing a row', () => {
  test('an empty selection has count, sum and m2 zero and the rest undefined', () => {
    expect(fieldsOf(new Moments(emptyRow))).toEqual({
      count: 0,
      nan: 0,
      posInf: 0,
      negInf: 0,
      sum: 0,
      mean: NaN,
      m2: 0,
      min: NaN,
      max: NaN,
    });
    expect(new Moments(emptyRow).variance()).toBeNaN();
  });

  test('variance follows torch: unbiased by default, population with correction 0', () => {
    const moments = new Moments(rowOf(1, 2, 3, 6));
    expect(moments.m2).toBe(14);
    expect(moments.variance()).toBe(14 / 3);
    expect(moments.variance(0)).toBe(14 / 4);
    expect(moments.std(0)).toBe(Math.sqrt(14 / 4));
  });

  test('variance is undefined where there are no degrees of freedom', () => {
    expect(new Moments(rowOf(3)).variance()).toBeNaN();
    expect(new Moments(rowOf(3)).variance(0)).toBe(0);
    expect(new Moments(rowOf(3, 4)).variance(2)).toBeNaN();
  });

  // Expected: sum, min, max under the policy propagate.
  test.each([
    { name: 'NaN wins over all', values: [1, NaN, Infinity, -Infinity], sum: NaN, min: NaN, max: NaN },
    { name: '+Infinity', values: [1, 2, Infinity], sum: Infinity, min: 1, max: Infinity },
    { name: '−Infinity', values: [1, 2, -Infinity], sum: -Infinity, min: -Infinity, max: 2 },
    { name: 'both infinities', values: [1, Infinity, -Infinity], sum: NaN, min: -Infinity, max: Infinity },
    { name: 'only +Infinity', values: [Infinity], sum: Infinity, min: Infinity, max: Infinity },
    { name: 'only −Infinity', values: [-Infinity], sum: -Infinity, min: -Infinity, max: -Infinity },
  ])('propagates $name', ({ values, sum, min, max }) => {
    const moments = new Moments(rowOf(...values));
    expect([moments.sum, moments.mean, moments.min, moments.max]).toBeCloseToReference(
      [sum, sum, min, max],
      {},
    );
    expect(moments.m2).toBeNaN();
    expect(moments.variance()).toBeNaN();
    expect(moments.count).toBe(values.length);
  });

  test('ignore leaves non-finite values out of the count, and still reports them', () => {
    const moments = new Moments(rowOf(1, NaN, 3, Infinity, -Infinity, -Infinity), 'ignore');
    expect(fieldsOf(moments)).toEqual({
      count: 2,
      nan: 1,
      posInf: 1,
      negInf: 2,
      sum: 4,
      mean: 2,
      m2: 2,
      min: 1,
      max: 3,
    });
  });

  test('ignore of nothing but NaN is an empty selection', () => {
    const moments = new Moments(rowOf(NaN, NaN), 'ignore');
    expect(moments).toMatchObject({ count: 0, nan: 2, sum: 0, mean: NaN, min: NaN, max: NaN });
  });
});

describe('a table of rows', () => {
  test('starts empty and takes rows by index', () => {
    const table = new MomentsTable(3);
    expect([...table]).toEqual([emptyRow, emptyRow, emptyRow]);
    table.set(1, rowOf(1, NaN));
    expect(table.row(1)).toEqual(rowOf(1, NaN));
    expect(table.row(0)).toEqual(emptyRow);
  });

  test('add merges into a row, total merges all', () => {
    const table = new MomentsTable(2);
    table.add(0, rowOf(1, 2));
    table.add(0, rowOf(6));
    table.add(1, rowOf(-Infinity));
    expect(table.row(0)).toEqual(mergeRows(rowOf(1, 2), rowOf(6)));
    expect(table.total()).toMatchObject({ count: 4, negInf: 1, sum: 9, min: 1, max: 6 });
    expect(finiteCount(table.total())).toBe(3);
  });

  test('holds counts that int32 and float32 cannot', () => {
    const table = new MomentsTable(1);
    table.set(0, { ...emptyRow, count: 2 ** 40 + 1, nan: 2 ** 33 + 1 });
    expect(table.row(0)).toMatchObject({ count: 2 ** 40 + 1, nan: 2 ** 33 + 1 });
  });
});

describe('moments per row', () => {
  const table = new MomentsTable(3);
  table.set(0, rowOf(1, 2, 3));
  table.set(1, rowOf(5, NaN));
  const rows = RowMoments.fromTable(table);

  test('are read by row and by column', () => {
    expect(rows).toHaveLength(3);
    expect(rows[0]?.mean).toBe(2);
    expect(rows.mean).toEqual(Float64Array.of(2, NaN, NaN));
    expect(rows.count).toEqual(Float64Array.of(3, 2, 0));
    expect(rows.nan).toEqual(Float64Array.of(0, 1, 0));
    expect([...rows.posInf, ...rows.negInf]).toEqual([0, 0, 0, 0, 0, 0]);
    expect(rows.sum).toEqual(Float64Array.of(6, NaN, 0));
    expect(rows.m2).toEqual(Float64Array.of(2, NaN, 0));
    expect(rows.min).toEqual(Float64Array.of(1, NaN, NaN));
    expect(rows.max).toEqual(Float64Array.of(3, NaN, NaN));
    expect(rows.variance(0)).toEqual(Float64Array.of(2 / 3, NaN, NaN));
    expect(rows.std()).toEqual(Float64Array.of(1, NaN, NaN));
  });

  test('follow the policy', () => {
    expect(RowMoments.fromTable(table, 'ignore').mean).toEqual(Float64Array.of(2, 5, NaN));
  });

  test('array methods give plain arrays', () => {
    const means = rows.map((m) => m.mean);
    expect(means).not.toBeInstanceOf(RowMoments);
    expect(means).toEqual([2, NaN, NaN]);
  });
});
