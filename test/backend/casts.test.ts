/**
 * Tensors made by tf.cast. tfjs casts without copying where it can, so the memory behind a float32 tensor may hold
 * int32 or bool; kernels have to look at what is there.
 */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { channelMoments, expression as e, maskedMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { type TensorDtype, deviceTensor } from '../support/tensors.js';

await testBackend();

const DTYPES: readonly TensorDtype[] = ['float32', 'int32', 'bool'];
const pairs = DTYPES.flatMap((from) => DTYPES.map((to) => ({ from, to })));

test.each(pairs)('values cast from $from to $to', async ({ from, to }) => {
  await expectNoLeaks(async () => {
    const source = deviceTensor({ shape: [2, 3], dtype: from, values: [1, 0, 1, 1, 0, 0] });
    const values = tf.cast(source, to);
    const mask = deviceTensor({ shape: [2, 3], dtype: 'bool', values: [1, 1, 1, 1, 0, 0] });
    expect(await maskedMoments(values, mask)).toMatchObject({ count: 4, sum: 3, min: 0, max: 1 });
    tf.dispose([source, values, mask]);
  });
});

test.each(pairs)('a mask cast from $from to $to', async ({ from, to }) => {
  await expectNoLeaks(async () => {
    const source = deviceTensor({ shape: [2, 3], dtype: from, values: [1, 0, 1, 1, 0, 0] });
    const mask = tf.cast(source, to);
    const values = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
    expect(await maskedMoments(values, mask)).toMatchObject({ count: 3, sum: 8, min: 1, max: 4 });
    tf.dispose([source, values, mask]);
  });
});

test('casts and their sources in one pass', async () => {
  const flags = deviceTensor({ shape: [4], dtype: 'bool', values: [1, 0, 1, 1] });
  const share = tf.cast(flags, 'float32');
  const weights = deviceTensor({ shape: [4], values: [0.5, 0.25, 1, 2] });
  const moments = await maskedMoments({ flags, share, weights }, flags);
  expect(moments.share).toEqual(moments.flags);
  expect(moments.weights.sum).toBe(3.5);
  tf.dispose([flags, share, weights]);
});

test.each(pairs)('expressions over values cast from $from to $to', async ({ from, to }) => {
  const source = deviceTensor({ shape: [2, 3], dtype: from, values: [1, 0, 1, 1, 0, 1] });
  const cast = tf.cast(source, to);
  const other = deviceTensor({ shape: [2, 3], values: [0.5, 2, 0.5, 4, 0.25, 8] });
  const row = tf.cast(deviceTensor({ shape: [2], dtype: from, values: [1, 0] }), to);
  const moments = await channelMoments(
    {
      difference: e.subtract('cast', 'other'),
      reversed: e.subtract('other', 'cast'),
      none: e.subtract('cast', 'source'),
      product: e.multiply('cast', 'other'),
      ofRow: e.subtract('other', 'row'),
    },
    { cast, source, other, row },
  );
  expect(moments.difference).toMatchObject({ sum: 4 - 15.25, min: -7, max: 0.5 });
  expect(moments.reversed).toMatchObject({ sum: 15.25 - 4, min: -0.5, max: 7 });
  expect(moments.none).toMatchObject({ sum: 0, min: 0, max: 0 });
  expect(moments.product).toMatchObject({ sum: 13, min: 0, max: 8 });
  expect(moments.ofRow).toMatchObject({ sum: 12.25, min: -0.5, max: 8 });
  tf.dispose([source, cast, other, row]);
});
