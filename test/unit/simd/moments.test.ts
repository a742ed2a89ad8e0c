/** The moments of a tile against the float64 reference: every storage, length, mask and alignment. */
import { describe, expect, test } from 'vitest';

import { Moments } from '../../../src/rows/moments.js';
import type { MomentsRow } from '../../../src/rows/row.js';
import { MomentsTable } from '../../../src/rows/table.js';
import { referenceMoments } from '../../../src/kernels/moments/reference.js';
import { normal, seeded } from '../../support/random.js';
import { type TestArray, TestMemory } from './memory.js';

type Values = Float32Array | Int32Array | Uint8Array | Float64Array;
type Mask = Float32Array | Int32Array | Uint8Array;

const TILE = 4096;
const RECORD = 8 * MomentsTable.WIDTH;

function storageOf(array: TestArray): 'Float32' | 'Int32' | 'Bool' | 'Float64' {
  if (array instanceof Float32Array) return 'Float32';
  if (array instanceof Float64Array) return 'Float64';
  return array instanceof Int32Array ? 'Int32' : 'Bool';
}

/** What tests vary besides values and mask. */
interface Placement {
  /** Bytes by which the values miss a multiple of 64; without it they end at the end of the memory. */
  readonly shift?: number;
  readonly maskShift?: number;
}

/** Records of a tile of `rows` rows, merged into the records `before`. */
function reduceTile(
  values: Values,
  mask: Mask | undefined,
  rows: number,
  { shift, maskShift = 0 }: Placement = {},
  before?: MomentsTable,
): MomentsTable {
  const cols = values.length / rows;
  const memory = new TestMemory();
  const { simd } = memory;
  const spare = memory.room(simd.selectionBytes());
  const out = memory.room(rows * RECORD);
  simd.clearRecords(out, rows);
  if (before !== undefined) memory.float64(out, before.cells.length).set(before.cells);
  let selection = 0;
  if (mask !== undefined) {
    selection = memory.room(simd.selectionBytes());
    const at = memory.put(mask, maskShift);
    const count = simd[`select${storageOf(mask) as 'Float32' | 'Int32' | 'Bool'}`](at, rows, cols, selection);
    expect(count, 'selected elements').toBe(Array.from(mask).filter((m) => m !== 0).length);
  }
  const x = shift === undefined ? memory.putAtEnd(values) : memory.put(values, shift);
  simd[`reduce${storageOf(values)}`](x, rows, cols, selection, spare, out);
  const table = new MomentsTable(rows);
  table.cells.set(memory.float64(out, table.cells.length));
  return table;
}

/** Counts, extremes and sums of integers to the bit; sums to their rounding, m2 far within its contract. */
function expectRows(actual: MomentsTable, reference: MomentsTable, values: Values, where: string): void {
  const largest = Array.from(values).reduce((a, x) => (Number.isFinite(x) ? Math.max(a, Math.abs(x)) : a), 0);
  const isExact = !(values instanceof Float32Array || values instanceof Float64Array);
  for (let i = 0; i < reference.length; i++) {
    const [a, r] = [actual.row(i), reference.row(i)];
    const exact = ({ count, nan, posInf, negInf, min, max }: MomentsRow): object => ({
      ...{ count, nan, posInf, negInf },
      // −0 is 0.
      ...{ min: min + 0, max: max + 0 },
    });
    expect(exact(a), `${where}, row ${i}`).toEqual(exact(r));
    const bound = isExact ? 0 : r.count * largest * 1e-14;
    expect([a.sum], `${where}, row ${i}: sum`).toBeCloseToReference([r.sum], { abs: bound });
    expect([a.m2], `${where}, row ${i}: m2`).toBeCloseToReference([r.m2], { rel: 1e-10, abs: 1e-300 });
  }
}

function check(values: Values, mask: Mask | undefined, rows: number, where: string, at?: Placement): void {
  const reference = referenceMoments(values, mask, rows, values.length / rows);
  expectRows(reduceTile(values, mask, rows, at), reference, values, where);
}

const random = seeded(5);

const VALUES = {
  float32: (n: number) => Float32Array.from({ length: n }, () => normal(random, 5, 2)),
  float64: (n: number) => Float64Array.from({ length: n }, () => Math.exp(normal(random, 0, 2))),
  int32: (n: number) => Int32Array.from({ length: n }, () => Math.round(normal(random, 0, 1e9))),
  bool: (n: number) => Uint8Array.from({ length: n }, () => Number(random() < 0.4)),
} as const;

const MASKS: Readonly<Record<string, (i: number, n: number) => boolean>> = {
  everything: () => true,
  nothing: () => false,
  'the first': (i) => i === 0,
  'the last': (i, n) => i === n - 1,
  'every other': (i) => i % 2 === 1,
  'the first third': (i, n) => i * 3 < n,
  'all but the first': (i) => i > 0,
  'one block in three': (i) => Math.floor(i / 64) % 3 === 1,
  scattered: () => random() < 0.7,
};

const LENGTHS = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 500, 1021, 4093, 4095, TILE];

describe.each(Object.entries(VALUES))('%s', (_storage, make) => {
  test.each(LENGTHS)('%i elements', (n) => {
    check(make(n), undefined, 1, 'no mask');
    for (const [name, selects] of Object.entries(MASKS)) {
      const mask = Uint8Array.from({ length: n }, (_, i) => Number(selects(i, n)));
      check(make(n), mask, 1, name);
    }
  });

  test('rows that begin anywhere in a vector or a block', () => {
    for (const [rows, cols] of [
      [256, 1],
      [256, 3],
      [200, 7],
      [37, 65],
      [3, 1365],
      [5, 130],
    ] as const) {
      const n = rows * cols;
      check(make(n), undefined, rows, `${rows} × ${cols}`);
      for (const [name, selects] of Object.entries(MASKS)) {
        const mask = Uint8Array.from({ length: n }, (_, i) => Number(selects(i % cols, cols)));
        check(make(n), mask, rows, `${rows} × ${cols}, ${name}`);
      }
    }
  });

  test('at every address that its elements can have', () => {
    const bytes = make(1).BYTES_PER_ELEMENT;
    for (let shift = 0; shift < 32; shift += bytes) {
      const mask = Uint8Array.from({ length: 203 }, () => Number(random() < 0.5));
      check(make(203), mask, 1, `shifted by ${shift}`, { shift });
    }
  });
});

describe('masks', () => {
  const specials = [0, 1, -0, 2, NaN, -1, 0, Infinity, 0, 1e-45, -0, 0.5];

  test.each([1, 3, 12, 64, 65, 100, 1000])('float32: everything but zero selects, %i elements', (n) => {
    const mask = Float32Array.from({ length: n }, (_, i) => specials[(i * 5) % specials.length]!);
    check(VALUES.float32(n), mask, 1, 'float32');
  });

  test.each([1, 3, 12, 64, 65, 100, 1000])('int32: everything but zero selects, %i elements', (n) => {
    const mask = Int32Array.from({ length: n }, (_, i) => [0, 1, 256, -1, 65536, 0][i % 6]!);
    check(VALUES.float32(n), mask, 1, 'int32');
  });

  test('bool: every byte but zero selects', () => {
    const mask = Uint8Array.from({ length: 1000 }, (_, i) => (i * 37) % 256);
    check(VALUES.float32(1000), mask, 1, 'bool');
  });

  test('at every address', () => {
    for (let maskShift = 0; maskShift < 17; maskShift++) {
      const mask = Uint8Array.from({ length: 333 }, () => Number(random() < 0.5));
      check(VALUES.float32(333), mask, 1, `bool shifted by ${maskShift}`, { maskShift });
    }
    for (let maskShift = 0; maskShift < 32; maskShift += 4) {
      const mask = Float32Array.from({ length: 333 }, () => Number(random() < 0.5));
      check(VALUES.float32(333), mask, 1, `float32 shifted by ${maskShift}`, { maskShift });
    }
  });

  test('are not read beyond their end', () => {
    for (const make of [Float32Array, Int32Array, Uint8Array]) {
      for (const n of [1, 2, 3, 15, 17, 63, 65, 127, 1021]) {
        const memory = new TestMemory();
        const selection = memory.room(memory.simd.selectionBytes());
        const at = memory.putAtEnd(new make(n).fill(1));
        expect(memory.simd[`select${storageOf(new make(0)) as 'Bool'}`](at, 1, n, selection)).toBe(n);
      }
    }
  });

  test('know where the last selected element is', () => {
    for (const [n, last] of [
      [1, 0],
      [64, 63],
      [65, 64],
      [200, 63],
      [200, 64],
      [4096, 4095],
      [4096, 1],
    ] as const) {
      const memory = new TestMemory();
      const selection = memory.room(memory.simd.selectionBytes());
      const at = memory.put(Uint8Array.from({ length: n }, (_, i) => Number(i === last || i === last - 5)));
      memory.simd.selectBool(at, 1, n, selection);
      expect(memory.simd.selectedEnd(selection, n), `${last} of ${n}`).toBe(last + 1);
    }
    const memory = new TestMemory();
    const selection = memory.room(memory.simd.selectionBytes());
    memory.simd.selectBool(memory.put(new Uint8Array(100)), 1, 100, selection);
    expect(memory.simd.selectedEnd(selection, 100)).toBe(0);
  });
});

describe.each([
  ['float32', Float32Array],
  ['float64', Float64Array],
] as const)('%s that are not finite', (_name, make) => {
  const bad = [NaN, Infinity, -Infinity];

  test.each([1, 2, 3, 5, 64, 67, 129, 1023, TILE])('among %i elements are counted and left out', (n) => {
    for (const share of [0.01, 0.5, 1]) {
      const values = new make(n).map(() =>
        random() < share ? bad[Math.floor(random() * 3)]! : normal(random),
      );
      check(values, undefined, 1, `${share} of all`);
      const mask = Uint8Array.from({ length: n }, () => Number(random() < 0.6));
      check(values, mask, 1, `${share} under a mask`);
    }
  });

  test.each([0, 1, 3, 4, 62, 63, 64, 70, 128, 130])('one of them, at %i', (index) => {
    for (const one of bad) {
      const values = new make(131).map(() => normal(random, 2, 1));
      values[index] = one;
      check(values, undefined, 1, `${one}`);
      // Where it is not selected it does not matter.
      const mask = new Uint8Array(131).fill(1);
      mask[index] = 0;
      check(values, mask, 1, `${one}, not selected`);
    }
  });
});

describe('digits', () => {
  test('of the spread survive a mean 10^5 times as large, and a first element far from all others', () => {
    for (const [mean, std] of [
      [1e5, 1],
      [-3e7, 400],
      [1e-20, 1e-24],
    ] as const) {
      const values = Float32Array.from({ length: TILE }, () => normal(random, mean, std));
      check(values, undefined, 1, `${mean} ± ${std}`);
      const mask = Uint8Array.from(values, () => Number(random() < 0.3));
      check(values, mask, 1, `${mean} ± ${std} under a mask`);
      values[0] = -1000 * mean;
      check(values, undefined, 1, `${mean} ± ${std} after an outlier`);
    }
  });

  test('of equal elements are no spread at all', () => {
    const values = new Float32Array(1000).fill(Math.fround(0.1));
    expect(reduceTile(values, undefined, 1).row(0).m2).toBe(0);
    const mask = Uint8Array.from(values, (_, i) => Number(i % 3 === 0));
    expect(reduceTile(values, mask, 1).row(0).m2).toBe(0);
  });

  test('of integer sums are exact', () => {
    const large = Float32Array.from({ length: TILE }, (_, i) => 2 ** 24 - (i % 100));
    expect(reduceTile(large, undefined, 1).row(0).sum).toBe(large.reduce((a, x) => a + x, 0));
    const extreme = Int32Array.from({ length: TILE }, (_, i) => (i % 2 === 0 ? 2147483647 : -2147483648));
    expect(reduceTile(extreme, undefined, 1).row(0).sum).toBe(-TILE / 2);
  });

  test('of float64 beyond the square root of the largest number', () => {
    const values = Float64Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? 1e300 : -3e299));
    const row = reduceTile(values, undefined, 1).row(0);
    expect(row).toMatchObject({ count: 100, nan: 0, min: -3e299, max: 1e300, m2: Infinity });
    expect(row.sum).toBeCloseTo(3.5e301, -290);
    const widest = Float64Array.from({ length: 64 }, (_, i) => (i % 2 === 0 ? 1e308 : -1e308));
    expect(reduceTile(widest, undefined, 1).row(0)).toMatchObject({ count: 64, sum: 0, m2: Infinity });
  });
});

test('the same tile gives the same bits', () => {
  const values = VALUES.float32(TILE);
  const mask = Uint8Array.from(values, () => Number(random() < 0.7));
  const once = reduceTile(values, mask, 1, { shift: 0 });
  const again = reduceTile(values, mask, 1, { shift: 20, maskShift: 3 });
  expect(again.cells).toEqual(once.cells);
});

test('tiles are merged into the records that are there', () => {
  const values = VALUES.float32(3 * 1000);
  const mask = Uint8Array.from(values, () => Number(random() < 0.7));
  values[1500] = NaN;
  mask.fill(0, 2000, 3000);
  mask[1500] = 1;
  let table: MomentsTable | undefined;
  for (let start = 0; start < values.length; start += 1000) {
    const tile = [values.slice(start, start + 1000), mask.slice(start, start + 1000)] as const;
    table = reduceTile(tile[0], tile[1], 1, {}, table);
  }
  expectRows(table!, referenceMoments(values, mask, 1, 3000), values, 'three tiles');
});

test('what is the same everywhere is counted', () => {
  const memory = new TestMemory();
  const { simd } = memory;
  const selection = memory.room(simd.selectionBytes());
  const mask = memory.put(Uint8Array.from([1, 0, 1, 0, 0, 0, 1, 1, 1]));
  simd.selectBool(mask, 3, 3, selection);
  for (const value of [2.5, 0, NaN, Infinity, -Infinity]) {
    for (const under of [selection, 0]) {
      const out = memory.room(3 * RECORD);
      simd.clearRecords(out, 3);
      simd.reduceConstant(value, 3, 3, under, out);
      const table = new MomentsTable(3);
      table.cells.set(memory.float64(out, table.cells.length));
      const chosen = under === 0 ? undefined : [1, 0, 1, 0, 0, 0, 1, 1, 1];
      const reference = referenceMoments(new Float64Array(9).fill(value), chosen, 3, 3);
      expect(
        Array.from(table, (row) => new Moments(row)),
        `${value}`,
      ).toEqual(Array.from(reference, (row) => new Moments(row)));
    }
  }
});
