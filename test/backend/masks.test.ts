/** Compact masks on every backend: the numbers of a pass are those of the tensor, and what is held comes back. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { add, constant, input, multiply } from '../../src/kernels/expression.js';
import {
  type CompactMask,
  type MomentsTable,
  channelTables,
  collect,
  compactMask,
  maskedMoments,
  momentsTables,
} from '../../src/kernels/index.js';
import { denseWindow, passTables } from '../../src/kernels/moments/pass.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { elsewhere, hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { type TensorDtype, deviceTensor, hostTensor, tidied } from '../support/tensors.js';

const backend = await testBackend();

/** What a mask takes that selects the elements with 1. */
function bytesOf(chosen: Uint8Array): number {
  const size = chosen.length;
  if (backend === 'webgpu') return size > 4096 ? 4 * Math.ceil(size / 32) : 4 * size;
  if (hasDevice()) return size;
  // Two numbers per run, or a bit per element, in blocks of 64 with one more behind.
  const runs = chosen.filter((x, i) => x === 1 && chosen[i - 1] !== 1).length;
  return 8 * Math.min(Math.max(runs, 1), Math.ceil(size / 64) + 1);
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1);

function numbers(shape: readonly number[], seed: number): Float32Array {
  const random = seeded(seed);
  return Float32Array.from({ length: sizeOf(shape) }, () => normal(random, 3, 2));
}

type Pattern = (i: number, size: number) => boolean;

/** What masks select: whole words of 32, parts of them, their first and last bits. */
const PATTERNS: Readonly<Record<string, Pattern>> = {
  some: (i) => Math.sin(12.9898 * i) > -0.2,
  all: () => true,
  nothing: () => false,
  'the last one': (i, size) => i === size - 1,
  'both sides of words': (i) => i % 32 === 0 || i % 32 === 31,
  'prefixes of rows': (i) => i % 1500 < 1100,
  'runs of all lengths': (i) => Math.floor(Math.sqrt(i)) % 2 === 1,
  'all but one': (i) => i !== 700,
  'dense at first': (i) => (i < 3000 ? i % 2 === 0 : true),
};

/** A mask that selects by this dtype's ways to be something, and not to be. */
function maskValues(shape: readonly number[], selects: Pattern, dtype: TensorDtype): number[] {
  const [yes, no] = {
    bool: [[1], [0]],
    int32: [[1, -3, 2 ** 30], [0]],
    float32: [
      [1, NaN, -0.25, Infinity],
      [0, -0],
    ],
  }[dtype] as [number[], number[]];
  const size = sizeOf(shape);
  return Array.from({ length: size }, (_, i) => {
    const choices = selects(i, size) ? yes : no;
    return choices[i % choices.length]!;
  });
}

function maskTensor(shape: readonly number[], selects: Pattern, dtype: TensorDtype = 'bool'): tf.Tensor {
  return deviceTensor({ shape, dtype, values: maskValues(shape, selects, dtype) });
}

const cellsOf = (tables: Readonly<Record<string, MomentsTable>>): Record<string, Float64Array> =>
  Object.fromEntries(Object.entries(tables).map(([name, { cells }]) => [name, cells]));

/** Sizes around words, around the least mask that is packed, and in rows that vectors fit or do not. */
const SHAPES = [
  [1],
  [31],
  [33],
  [4096],
  [4097],
  [4099],
  [3, 1500],
  [7, 701],
  [64, 65],
  [2, 3, 1024],
  [3000, 2],
  [32768],
  [70_001],
];

describe.each(['bool', 'int32', 'float32'] as const)('a mask of %s', (dtype) => {
  test.each(SHAPES.map((shape) => ({ shape })))('of shape $shape', async ({ shape }) => {
    const values = numbers(shape, 1);
    for (const [name, selects] of Object.entries(PATTERNS)) {
      await expectNoLeaks(async () => {
        const x = deviceTensor({ shape, values });
        const tensor = maskTensor(shape, selects, dtype);
        const compact = compactMask(tensor);
        expect(compact.shape).toEqual(shape);
        const chosen = Uint8Array.from(values, (_, i) => Number(selects(i, values.length)));
        const selected = chosen.filter(Boolean).length;
        expect(compact.bytes, name).toBe(bytesOf(chosen));
        expect(compact.selected, name).toBe(hasDevice() ? undefined : selected);
        const expected = [momentsTables({ x }, tensor), momentsTables({ x }, tensor, { axis: -1 })] as const;
        tensor.dispose();
        // What the pass before has left in scratch memory is to help nobody.
        const others = maskTensor(shape, (i, size) => !selects(i, size));
        const before = [momentsTables({ x }, others), momentsTables({ x }, others, { axis: -1 })] as const;
        others.dispose();
        const [all, rows, wantAll, wantRows] = await collect(
          momentsTables({ x }, compact),
          momentsTables({ x }, compact, { axis: -1 }),
          ...expected,
          ...before,
        );
        expect(all.x.cells, name).toEqual(wantAll.x.cells);
        expect(rows.x.cells, name).toEqual(wantRows.x.cells);
        // And both are right about what is selected.
        const cols = shape.at(-1)!;
        const reference = referenceMoments(values, chosen, values.length / cols, cols);
        for (let row = 0; row < rows.x.length; row++) {
          const { count, min, max } = reference.row(row);
          expect(rows.x.row(row), `${name}, row ${row}`).toMatchObject({ count, min, max });
        }
        compact.release();
        x.dispose();
      });
    }
  });
});

describe('masks with one value per row', () => {
  // Few rows, and so many that the mask is packed.
  test.each([
    { rows: 5, cols: 3 },
    { rows: 4200, cols: 3 },
    { rows: 2, cols: 3 },
    // Rows with tiles of their own.
    { rows: 7, cols: 700 },
  ])('$rows rows of $cols', async ({ rows, cols }) => {
    for (const shape of [[rows], [rows, 1]]) {
      await expectNoLeaks(async () => {
        const x = deviceTensor({ shape: [rows, cols], values: numbers([rows, cols], 2) });
        const tensor = maskTensor(shape, PATTERNS.some!);
        const compact = compactMask(tensor);
        const channels = { x: 'x', double: multiply('x', 2), n: constant(1) };
        const want = channelTables(channels, { x }, tensor, { axis: -1 });
        tensor.dispose();
        const got = await channelTables(channels, { x }, compact, { axis: -1 });
        expect(cellsOf(got)).toEqual(cellsOf(await want));
        compact.release();
        x.dispose();
      });
    }
  });
});

test('a computed channel over two short rows, each selected in part', async () => {
  await expectNoLeaks(async () => {
    const shape = [2, 5];
    const x = deviceTensor({ shape, values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] });
    const compact = tidied(() =>
      compactMask(deviceTensor({ shape, dtype: 'bool', values: [0, 1, 0, 0, 0, 0, 0, 0, 1, 0] })),
    );
    const { double } = await channelTables({ double: multiply('x', 2) }, { x }, compact, { axis: -1 });
    expect([0, 1].map((row) => double.row(row))).toMatchObject([
      { count: 1, sum: 4, min: 4, max: 4 },
      { count: 1, sum: 18, min: 18, max: 18 },
    ]);
    compact.release();
    x.dispose();
  });
});

test('compact masks and tensors in one pass, of elements and of rows', async () => {
  await expectNoLeaks(async () => {
    const shape = [4200, 5];
    const tensors = {
      x: deviceTensor({ shape, values: numbers(shape, 3) }),
      y: deviceTensor({ shape, values: numbers(shape, 4) }),
    };
    const masks = {
      some: maskTensor(shape, PATTERNS.some!, 'float32'),
      ends: maskTensor(shape, PATTERNS['both sides of words']!),
      rows: maskTensor([4200], PATTERNS.some!, 'int32'),
      odd: maskTensor([4200, 1], (i) => i % 2 === 1),
    };
    const compact = { some: compactMask(masks.some), rows: compactMask(masks.rows) };
    const channels = {
      x: { of: 'x', mask: 'some' },
      y: { of: 'y', mask: 'ends' },
      sum: { of: add('x', 'y'), mask: 'rows' },
      odd: { of: 'x', mask: 'odd' },
      rest: { of: 'y', mask: undefined },
    } as const;
    for (const options of [undefined, { axis: -1 }] as const) {
      const [got, want] = await collect(
        channelTables(channels, tensors, { ...masks, ...compact }, options),
        channelTables(channels, tensors, masks, options),
      );
      expect(cellsOf(got)).toEqual(cellsOf(want));
      expect(want.x.total().count).toBeGreaterThan(want.y.total().count);
    }
    for (const mask of Object.values(compact)) mask.release();
    tf.dispose([tensors, masks]);
  });
});

describe('windows of a wider mask', () => {
  // Where vectors begin and end in the mask, and where they do not.
  test.each([
    { rows: 9, cols: 600, stride: 608, offset: 4 },
    { rows: 9, cols: 600, stride: 603, offset: 3 },
    { rows: 13, cols: 501, stride: 512, offset: 8 },
    { rows: 5000, cols: 1, stride: 3, offset: 1 },
  ])('$rows × $cols at $offset of $stride', async ({ rows, cols, stride, offset }) => {
    await expectNoLeaks(async () => {
      const x = deviceTensor({ shape: [rows, cols], values: numbers([rows, cols], 5) });
      const tensor = maskTensor([rows, stride], PATTERNS.some!);
      const compact = compactMask(tensor);
      const launch = (mask: tf.Tensor | CompactMask) =>
        passTables({
          where: 'test',
          rows,
          cols,
          inputs: { x },
          channels: { x: input('x'), n: constant(1) },
          mask: { ...denseWindow(mask, cols), stride, offset },
        });
      const [want, got] = await collect(launch(tensor), launch(compact));
      expect(cellsOf(got)).toEqual(cellsOf(want));
      const selected = Array.from({ length: rows * cols }, (_, i) =>
        PATTERNS.some!(Math.floor(i / cols) * stride + offset + (i % cols), 0),
      );
      expect(got.n.total().count).toBe(selected.filter(Boolean).length);
      compact.release();
      tf.dispose([x, tensor]);
    });
  });
});

describe('what is held', () => {
  const shape = [50, 101];
  const size = 50 * 101;

  test.each(['bool', 'int32', 'float32'] as const)(
    'of %s outlives its tensor, and is given back once',
    async (dtype) => {
      const x = deviceTensor({ shape, values: numbers(shape, 6) });
      await expectNoLeaks(async () => {
        const before = tf.memory();
        const compact = tidied(() => compactMask(maskTensor(shape, PATTERNS.some!, dtype)));
        const held = tf.memory();
        expect(held.numTensors - before.numTensors).toBe(1);
        // tfjs counts a byte per bool wherever it is.
        const chosen = Uint8Array.from({ length: size }, (_, i) => Number(PATTERNS.some!(i, 0)));
        expect(held.numBytes - before.numBytes).toBe(bytesOf(chosen));
        expect(compact.bytes).toBe(bytesOf(chosen));
        const pending = maskedMoments(x, compact);
        compact.release();
        compact.release();
        expect([compact.bytes, compact.isReleased]).toEqual([0, true]);
        expect(tf.memory().numBytes).toBe(before.numBytes);
        const { count } = await pending;
        expect(count).toBe(chosen.filter(Boolean).length);
      });
      x.dispose();
    },
  );

  test('is the elements of a bool tensor themselves on TensorFlow’s GPUs, and new everywhere else', async () => {
    await expectNoLeaks(async () => {
      const tensor = maskTensor(shape, PATTERNS.some!);
      const before = tf.backend().numDataIds();
      const compact = compactMask(tensor);
      expect(tf.backend().numDataIds() - before).toBe(backend === 'tensorflow' && hasDevice() ? 0 : 1);
      compact.release();
      expect(compact.selected).toBeUndefined();
      tensor.dispose();
      await Promise.resolve();
    });
  });

  test('of a mask that still is in host memory, of a view and of a cast', async () => {
    await expectNoLeaks(async () => {
      const x = hostTensor({ shape, values: numbers(shape, 7) });
      const values = maskValues(shape, PATTERNS.some!, 'bool');
      const makers: readonly (() => tf.Tensor)[] = [
        () => hostTensor({ shape, values, dtype: 'bool' }),
        () => hostTensor({ shape, values }),
        () => tf.reshape(deviceTensor({ shape: [size], values, dtype: 'bool' }), shape),
        () => tf.cast(deviceTensor({ shape, values, dtype: 'bool' }), 'float32'),
        () => tf.cast(deviceTensor({ shape, values, dtype: 'bool' }), 'int32'),
        () => tf.cast(deviceTensor({ shape, values, dtype: 'int32' }), 'float32'),
        () => tf.cast(deviceTensor({ shape, values, dtype: 'int32' }), 'bool'),
        () => tf.greater(deviceTensor({ shape, values }), 0.5),
      ];
      const selected = values.filter((value) => value !== 0).length;
      for (const make of makers) {
        const mask = tidied(() => compactMask(make()));
        const { count } = await maskedMoments(x, mask);
        expect(count, String(make)).toBe(selected);
        mask.release();
      }
      x.dispose();
    });
  });

  test('of nothing', async () => {
    await expectNoLeaks(async () => {
      for (const empty of [[0], [3, 0], [0, 4]]) {
        const x = hostTensor({ shape: empty, values: [] });
        const compact = compactMask(x);
        expect(compact.bytes).toBeLessThanOrEqual(8);
        expect((await momentsTables({ x }, compact)).x.total().count).toBe(0);
        compact.release();
        x.dispose();
      }
    });
  });

  test('can be counted without values', async () => {
    const tensor = maskTensor([4100], (i) => i % 3 === 0);
    const compact = compactMask(tensor);
    const { n } = await channelTables({ n: constant(1) }, {}, compact);
    expect(n.total()).toMatchObject({ count: 1367, sum: 1367 });
    compact.release();
    tensor.dispose();
  });
});

test.each(['bool', 'int32', 'float32'] as const)(
  'a mask of %s is made where its tensor is, whatever backend is active',
  async (dtype) => {
    await expectNoLeaks(async () => {
      const x = deviceTensor({ shape: [4100], values: numbers([4100], 9) });
      const tensor = maskTensor([4100], PATTERNS.some!, dtype);
      const mask = await elsewhere(() => compactMask(tensor));
      const [got, want] = await collect(maskedMoments(x, mask), maskedMoments(x, tensor));
      expect(got).toEqual(want);
      mask.release();
      tf.dispose([x, tensor]);
    });
  },
);
