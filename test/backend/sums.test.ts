/** Sums are as good as those of float64 on every backend, whatever cancels: equality of rewards depends on it. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { maskedMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const random = seeded(26);
const times = (count: number, value: number): number[] => Array<number>(count).fill(value);
const drawn = (count: number, mean: number, std: number): number[] =>
  Array.from({ length: count }, () => normal(random, mean, std));

const rows: readonly (readonly [string, readonly number[]])[] = [
  ['equal parts before zeros', [...times(200, 0.005), ...times(800, 0)]],
  ['ones before small parts', [...times(8, 1), ...times(992, 0.001)]],
  ['parts that cancel', [...times(1000, 0.003), ...times(10, -0.3)]],
  ['a large one and its opposite around small ones', [1e7, ...drawn(998, 0, 1), -1e7]],
  ['far from 0', drawn(1000, 1e5, 1)],
  ['beyond 2^90', [1e30, ...drawn(500, 0, 1e25), -1e30]],
  ['below 2^-60', drawn(1000, 1e-20, 1e-22)],
  ['of all sizes', Array.from({ length: 3000 }, () => normal(random, 0, 10 ** (20 * random() - 10)))],
  ['of several chunks', drawn(70000, 0.1, 0.01)],
];

test.each(rows)('the sum of a row is that of its float32 elements in float64: %s', async (_what, values) => {
  const floats = values.map(Math.fround);
  const x = deviceTensor({ shape: [2, floats.length], values: [...floats, ...floats.toReversed()] });
  const mask = deviceTensor({
    shape: [2, floats.length],
    dtype: 'bool',
    values: times(2 * floats.length, 1),
  });
  const [plain, masked] = await Promise.all([
    maskedMoments(x, undefined, { axis: -1 }),
    maskedMoments(x, mask, { axis: -1 }),
  ]);
  tf.dispose([x, mask]);
  const sum = floats.reduce((total, value) => total + value, 0);
  // Σ|x| · n · 2⁻⁵³ is what float64 may lose, and 2⁻⁴⁴ what two float32 do.
  const size = floats.reduce((total, value) => total + Math.abs(value), 0);
  const bound = { abs: size * 2 ** -44 + size * floats.length * 2 ** -52 };
  for (const moments of [plain, masked]) {
    expect(moments.sum[0]).toBeCloseToReference(sum, bound);
    expect(moments.sum[1]).toBeCloseToReference(sum, bound);
  }
});

test('sums of int32 beyond 2^24 are exact', async () => {
  const values = Array.from({ length: 1000 }, () => Math.round((random() - 0.3) * 2 ** 31));
  const x = deviceTensor({ shape: [1, 1000], dtype: 'int32', values });
  const moments = await maskedMoments(x);
  x.dispose();
  expect(moments.sum).toBe(values.reduce((total, value) => total + value, 0));
});
