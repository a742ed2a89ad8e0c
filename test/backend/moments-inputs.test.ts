/**
 * Where the inputs of `maskedMoments` may come from, and several of them under one mask, on every backend.
 */

import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { collect, maskedMoments, momentsTables } from '../../src/kernels/index.js';
import { Moments } from '../../src/rows/moments.js';
import { RowMoments } from '../../src/kernels/moments/row-moments.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor, hostTensor, tidied } from '../support/tensors.js';

await testBackend();

const ROWS = 6;
const COLS = 131;

function batch(seed: number): { values: Float32Array; mask: Uint8Array } {
  const random = seeded(seed);
  const values = Float32Array.from({ length: ROWS * COLS }, () => normal(random, 3, 2));
  const mask = Uint8Array.from({ length: ROWS * COLS }, () => (random() < 0.6 ? 1 : 0));
  return { values, mask };
}

/** Asserts both axes of `values` under `mask`, given what the tensors hold. */
async function expectMomentsOf(
  build: () => { values: tf.Tensor; mask: tf.Tensor },
  held: { values: ArrayLike<number>; mask: ArrayLike<number>; rows: number; cols: number },
): Promise<void> {
  const [all, perRow] = await expectNoLeaks(() =>
    collect(
      ...tidied(() => {
        const { values, mask } = build();
        return [maskedMoments(values, mask), maskedMoments(values, mask, { axis: -1 })] as const;
      }),
    ),
  );
  const { values, mask, rows, cols } = held;
  expectContract(all, new Moments(referenceMoments(values, mask, 1, rows * cols).row(0)), 'all');
  expectContract(perRow, RowMoments.fromTable(referenceMoments(values, mask, rows, cols)), 'per row');
}

describe('inputs from anywhere', () => {
  const { values, mask } = batch(1);
  const shape = [ROWS, COLS];
  const held = { values, mask, rows: ROWS, cols: COLS };

  test('tensors that still are in host memory', async () => {
    await expectMomentsOf(
      () => ({
        values: hostTensor({ shape, values }),
        mask: hostTensor({ shape, values: mask, dtype: 'bool' }),
      }),
      held,
    );
  });

  test('a mask in host memory for values on the device', async () => {
    await expectMomentsOf(
      () => ({
        values: deviceTensor({ shape, values }),
        mask: hostTensor({ shape, values: mask, dtype: 'bool' }),
      }),
      held,
    );
  });

  test('results of the op before', async () => {
    await expectMomentsOf(
      () => {
        const x = deviceTensor({ shape, values });
        const m = deviceTensor({ shape, values: mask });
        return { values: tf.mul(x, 2), mask: tf.greater(m, 0.5) };
      },
      { ...held, values: values.map((x) => 2 * x) },
    );
  });

  test('reshaped views of other tensors', async () => {
    await expectMomentsOf(
      () => ({
        values: tf.reshape(deviceTensor({ shape: [ROWS * COLS], values }), shape),
        mask: tf.reshape(deviceTensor({ shape: [COLS, ROWS], values: mask, dtype: 'bool' }), shape),
      }),
      held,
    );
  });

  test('slices of other tensors', async () => {
    const wide = COLS + 9;
    const inner = (padded: Float32Array): Float32Array =>
      padded.filter((_, i) => i % wide >= 4 && i % wide < 4 + COLS);
    const random = seeded(2);
    const padded = Float32Array.from({ length: ROWS * wide }, () => normal(random));
    const paddedMask = Float32Array.from({ length: ROWS * wide }, () => (random() < 0.5 ? 1 : 0));
    await expectMomentsOf(
      () => ({
        values: tf.slice(deviceTensor({ shape: [ROWS, wide], values: padded }), [0, 4], [ROWS, COLS]),
        mask: tf.slice(deviceTensor({ shape: [ROWS, wide], values: paddedMask }), [0, 4], [ROWS, COLS]),
      }),
      { ...held, values: inner(padded), mask: inner(paddedMask) },
    );
  });

  test('the same tensor as values and mask', async () => {
    await expectMomentsOf(
      () => {
        const x = deviceTensor({ shape, values: mask, dtype: 'bool' });
        return { values: x, mask: x };
      },
      { ...held, values: mask },
    );
  });

  test('a variable', async () => {
    const x = hostTensor({ shape, values });
    const variable = tf.variable(x);
    const m = hostTensor({ shape, values: mask, dtype: 'bool' });
    const moments = await maskedMoments(variable, m);
    expectContract(moments, new Moments(referenceMoments(values, mask, 1, ROWS * COLS).row(0)), 'variable');
    expect(variable.isDisposed).toBe(false);
    variable.dispose();
    tf.dispose([x, m]);
  });
});

describe('integers', () => {
  // Lengths, rewards of 0 and 1, counts: a sum of them is a number that people compare with ===.
  test.each(['float32', 'int32', 'bool'] as const)(
    'in %s tensors have exact sums and means',
    async (dtype) => {
      const random = seeded(7);
      const values = Array.from({ length: 50 * 333 }, () =>
        Math.floor(random() * (dtype === 'bool' ? 2 : 4097)),
      );
      const mask = values.map(() => (random() < 0.7 ? 1 : 0));
      const selected = values.filter((_, i) => mask[i] === 1);
      const sum = selected.reduce((a, b) => a + b, 0);
      const x = deviceTensor({ shape: [50, 333], values, dtype });
      const m = deviceTensor({ shape: [50, 333], values: mask, dtype: 'bool' });
      const [all, perRow] = await collect(maskedMoments(x, m), maskedMoments(x, m, { axis: -1 }));
      expect(all.sum).toBe(sum);
      expect(all.mean).toBe(sum / selected.length);
      expect(perRow.sum.reduce((a, b) => a + b)).toBe(sum);
      tf.dispose([x, m]);
    },
  );
});

describe('several values under one mask', () => {
  // Above the number of storage buffers that any WebGPU device must offer (8), and above SwiftShader's 12.
  const NAMES = Array.from({ length: 20 }, (_, i) => `value${i}`);

  test.each([1, 2, 5, 20])('%i at once agree with the reference, each under its own name', async (n) => {
    const names = NAMES.slice(0, n);
    const { mask } = batch(3);
    const data = Object.fromEntries(names.map((name, i) => [name, batch(10 + i).values]));
    const shape = [ROWS, COLS];
    const [all, perRow] = await expectNoLeaks(() => {
      const m = deviceTensor({ shape, values: mask, dtype: 'bool' });
      const tensors = Object.fromEntries(names.map((k) => [k, deviceTensor({ shape, values: data[k]! })]));
      const pending = collect(maskedMoments(tensors, m), maskedMoments(tensors, m, { axis: -1 }));
      tf.dispose([m, tensors]);
      return pending;
    });
    expect(Object.keys(all)).toEqual(names);
    for (const name of names) {
      const whole = referenceMoments(data[name]!, mask, 1, ROWS * COLS).row(0);
      const table = referenceMoments(data[name]!, mask, ROWS, COLS);
      expectContract(all[name]!, new Moments(whole), name);
      expectContract(perRow[name]!, RowMoments.fromTable(table), `${name} per row`);
    }
  });

  test('dtypes may differ between them', async () => {
    const shape = [3, 5];
    const x = Float32Array.from({ length: 15 }, (_, i) => i / 4);
    const n = Int32Array.from({ length: 15 }, (_, i) => 16777217 + i);
    const b = Uint8Array.from({ length: 15 }, (_, i) => i % 2);
    const mask = Uint8Array.from({ length: 15 }, (_, i) => (i % 3 === 0 ? 0 : 1));
    const tensors = {
      float: deviceTensor({ shape, values: x }),
      int: deviceTensor({ shape, values: n, dtype: 'int32' }),
      bool: deviceTensor({ shape, values: b, dtype: 'bool' }),
    };
    const m = deviceTensor({ shape, values: mask, dtype: 'bool' });
    const moments = await maskedMoments(tensors, m);
    for (const [name, held] of Object.entries({ float: x, int: n, bool: b })) {
      const reference = new Moments(referenceMoments(held, mask, 1, 15).row(0));
      expectContract(moments[name as keyof typeof moments], reference, name);
    }
    tf.dispose([tensors, m]);
  });

  test('one tensor may stand under two names', async () => {
    const { values, mask } = batch(4);
    const x = deviceTensor({ shape: [ROWS, COLS], values });
    const m = deviceTensor({ shape: [ROWS, COLS], values: mask, dtype: 'bool' });
    const { a, b } = await maskedMoments({ a: x, b: x }, m);
    expect(a).toEqual(b);
    tf.dispose([x, m]);
  });

  test('a NaN in one value leaves the others alone', async () => {
    const { values, mask } = batch(5);
    const bad = values.map((v, i) => (mask[i] === 1 ? NaN : v));
    const tensors = {
      good: deviceTensor({ shape: [ROWS, COLS], values }),
      bad: deviceTensor({ shape: [ROWS, COLS], values: bad }),
    };
    const m = deviceTensor({ shape: [ROWS, COLS], values: mask, dtype: 'bool' });
    const moments = await maskedMoments(tensors, m);
    expectContract(moments.good, new Moments(referenceMoments(values, mask, 1, ROWS * COLS).row(0)), 'good');
    expect(moments.bad.mean).toBeNaN();
    expect(moments.bad.nan).toBe(moments.bad.count);
    tf.dispose([tensors, m]);
  });

  test('momentsTables gives the mergeable rows behind them', async () => {
    const { values, mask } = batch(6);
    const x = deviceTensor({ shape: [ROWS, COLS], values });
    const m = deviceTensor({ shape: [ROWS, COLS], values: mask, dtype: 'bool' });
    const [perRow, all] = await collect(momentsTables({ x }, m, { axis: -1 }), momentsTables({ x }, m));
    const whole = new Moments(referenceMoments(values, mask, 1, ROWS * COLS).row(0));
    expect(perRow.x.length).toBe(ROWS);
    expectContract(
      RowMoments.fromTable(perRow.x),
      RowMoments.fromTable(referenceMoments(values, mask, ROWS, COLS)),
      'per row',
    );
    expectContract(new Moments(perRow.x.total()), whole, 'rows merged');
    expectContract(new Moments(all.x.total()), whole, 'all');
    tf.dispose([x, m]);
  });
});
