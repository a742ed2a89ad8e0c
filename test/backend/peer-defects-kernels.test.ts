/** What was reported against peers and concerns statistics of tensors: as peer-defects-metrics.test.ts, for kernels. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { logitsStatistics, maskedMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

test('row 30: statistics of logits leave the logits alone', async () => {
  const logits = deviceTensor({ shape: [1, 3], values: [1, 2, 3] });
  const labels = deviceTensor({ shape: [1], dtype: 'int32', values: [0] });
  const found = logitsStatistics(logits, labels, { temperature: 0.5 });
  expect(Array.from(await logits.data())).toEqual([1, 2, 3]);
  tf.dispose([logits, labels, ...Object.values<tf.Tensor>({ ...found })]);
});

test('row 52: a logit of −Infinity is a probability of 0, and adds 0 to the entropy', async () => {
  const logits = deviceTensor({ shape: [1, 3], values: [0, -Infinity, 0] });
  const labels = deviceTensor({ shape: [1], dtype: 'int32', values: [0] });
  const { entropy, ...others } = logitsStatistics(logits, labels);
  expect(Array.from(await entropy.data())[0]).toBeCloseTo(Math.log(2), 5);
  tf.dispose([logits, labels, entropy, ...Object.values(others)]);
});

test('rows 54, 73: no variance is a small difference of large squares', async () => {
  const values = deviceTensor({ shape: [3], values: [0.1, 0.1, 0.1] });
  const far = deviceTensor({ shape: [4], values: [1000.25, 1000.5, 1000.25, 1000.5] });
  expect((await maskedMoments(values)).std()).toBe(0);
  expect((await maskedMoments(far)).variance(0)).toBeCloseToReference(0.015625, { rel: 1e-5, abs: 0 });
  tf.dispose([values, far]);
});

test('row 62: one value has no standard deviation', async () => {
  const one = deviceTensor({ shape: [1], values: [3] });
  expect((await maskedMoments(one)).std()).toBeNaN();
  one.dispose();
});

test('rows 70, 74: what is not finite leaves the denominator where it is ignored, part by part', async () => {
  const values = deviceTensor({ shape: [2, 3], values: [1, NaN, NaN, 3, 4, 4] });
  const pooled = await maskedMoments(values, undefined, { nonFinite: 'ignore' });
  expect(pooled).toMatchObject({ count: 4, mean: 3, nan: 2 });
  values.dispose();
});
