/** Rows of moments are an array like any other, and their columns cost no rows. */
import { inspect } from 'node:util';

import fc from 'fast-check';
import { expect, test } from 'vitest';

import { Moments } from '../../../src/rows/moments.js';
import { liftRow, mergeRows, emptyRow } from '../../../src/rows/row.js';
import { MomentsTable } from '../../../src/rows/table.js';
import { RowMoments } from '../../../src/kernels/moments/row-moments.js';

const COLUMNS = ['count', 'nan', 'posInf', 'negInf', 'sum', 'mean', 'm2', 'min', 'max'] as const;

function tableOf(rows: readonly (readonly number[])[]): MomentsTable {
  const table = new MomentsTable(rows.length);
  rows.forEach((values, i) => {
    table.set(i, values.map(liftRow).reduce(mergeRows, emptyRow));
  });
  return table;
}

test.each(['propagate', 'ignore'] as const)('columns say what the elements say (%s)', (policy) => {
  const number = fc.oneof(fc.integer({ min: -9, max: 9 }), fc.constantFrom(NaN, Infinity, -Infinity));
  fc.assert(
    fc.property(fc.array(fc.array(number, { maxLength: 4 }), { maxLength: 6 }), (values) => {
      const table = tableOf(values);
      const untouched = RowMoments.fromTable(table, policy);
      const elements = Array.from(table, (row) => new Moments(row, policy));
      for (const name of COLUMNS) {
        expect(Array.from(untouched[name]), name).toEqual(elements.map((row) => row[name]));
      }
      for (const correction of [0, 1]) {
        expect(Array.from(untouched.variance(correction))).toEqual(
          elements.map((row) => row.variance(correction)),
        );
        expect(Array.from(untouched.std(correction))).toEqual(elements.map((row) => row.std(correction)));
      }
      expect([...untouched]).toEqual(elements);
    }),
  );
});

test('an array in all respects', () => {
  const rows = RowMoments.fromTable(tableOf([[3], [1], [2]]));
  expect(Array.isArray(rows)).toBe(true);
  expect(rows).toHaveLength(3);
  expect(Object.keys(rows)).toEqual(['0', '1', '2']);
  expect(1 in rows).toBe(true);
  expect(rows.at(-1)?.mean).toBe(2);
  expect(JSON.parse(JSON.stringify(rows))).toMatchObject([{ mean: 3 }, { mean: 1 }, { mean: 2 }]);
  expect(structuredClone([...rows]).map((row) => row.mean)).toEqual([3, 1, 2]);
});

test('shows its rows, and can be frozen, before anything has touched them', () => {
  expect(inspect(RowMoments.fromTable(tableOf([[3], [1]])))).toContain('mean: 3');
  const frozen = Object.freeze(RowMoments.fromTable(tableOf([[3], [1]])));
  expect(frozen[1]?.mean).toBe(1);
  expect(frozen.mean).toEqual(Float64Array.of(3, 1));
});

test('columns follow what is done to the elements', () => {
  const rows = RowMoments.fromTable(tableOf([[3], [1], [2]]));
  rows.sort((a, b) => a.mean - b.mean);
  expect(rows.mean).toEqual(Float64Array.of(1, 2, 3));
  rows.length = 1;
  expect(rows.sum).toEqual(Float64Array.of(1));
});

test('a column of many rows makes none of them', () => {
  const rows = RowMoments.fromTable(new MomentsTable(3_000_000));
  const before = process.memoryUsage().heapUsed;
  expect(rows.count).toHaveLength(3_000_000);
  // Three million objects of ten numbers would be some 700 MB.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(100e6);
});
