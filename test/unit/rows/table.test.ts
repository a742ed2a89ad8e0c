/** Tables of rows: what is done where the cells lie is what is done with rows. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  MomentsTable,
  emptyRow,
  liftRow,
  mergeRows,
  packTable,
  packedLength,
  NumbersReader,
} from '../../../src/rows/index.js';
import { anyValues } from '../../support/arbitraries.js';

const huge = fc.array(fc.constantFrom(1e308, -1e308, 5e-324, -0, 1), { maxLength: 4 });
const rows = fc.oneof(anyValues(0, 6), huge).map((xs) => xs.map(liftRow).reduce(mergeRows, emptyRow));

function tableOf(list: readonly ReturnType<typeof liftRow>[]): MomentsTable {
  const table = new MomentsTable(list.length);
  list.forEach((row, i) => {
    table.set(i, row);
  });
  return table;
}

test('merging a row of another table has the bits of mergeRows', () => {
  fc.assert(
    fc.property(rows, rows, (a, b) => {
      const table = tableOf([emptyRow, a]);
      table.addFrom(1, tableOf([b]), 0);
      expect(table.row(1)).toEqual(mergeRows(a, b));
    }),
  );
});

test('packed tables come back one after the other, with 40 bytes per row of finite elements', () => {
  fc.assert(
    fc.property(fc.array(fc.array(rows, { maxLength: 70 }), { maxLength: 3 }), (lists) => {
      const tables = lists.map(tableOf);
      const length = tables.reduce((sum, table) => sum + packedLength(table), 0);
      const numbers = new Float64Array(length);
      expect(tables.reduce((at, table) => packTable(table, numbers, at), 0)).toBe(length);
      const reader = new NumbersReader(numbers, (received) => new Error(received));
      expect(lists.map((list) => [...reader.table(list.length)])).toEqual(lists);
      reader.end();
      const others = lists.flat().filter(({ nan, posInf, negInf }) => nan + posInf + negInf > 0).length;
      const words = lists.reduce((sum, list) => sum + Math.ceil(list.length / 64), 0);
      expect(length).toBe(words + 5 * lists.flat().length + 3 * others);
    }),
  );
});
