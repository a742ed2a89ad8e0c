/** Refusals begin with the name of the function that was called, and name what was meant. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, expect, test } from 'vitest';
import { initBackend } from '../../../src/kernels/index.js';
import { meantName } from '../../../src/meant-name.js';
import { ExplainedVariance, maskedWhiten } from '../../../src/metrics/index.js';

beforeAll(async () => {
  await initBackend('cpu');
});

test.each([
  ['shapes', () => [tf.ones([3]), tf.ones([4])]],
  [
    'plain arrays',
    () => [
      [1, 2, 3],
      [1, 2, 3],
    ],
  ],
])('ExplainedVariance.of tells of wrong %s in its own name', async (_, operands) => {
  const [returns, values] = operands() as unknown as [tf.Tensor, tf.Tensor];
  await expect(ExplainedVariance.of(returns, values)).rejects.toThrow(/^ExplainedVariance\.of: /);
});

test('maskedWhiten tells of a mask of another shape in its own name', async () => {
  await expect(maskedWhiten(tf.ones([2, 3]), tf.ones([2, 2], 'bool'))).rejects.toThrow(/^maskedWhiten: /);
});

test.each([
  ['clipRangeHigh', 'clipRatioHigh'],
  ['rolled', 'isRolled'],
  ['eval', 'isEval'],
  ['polcy', 'policy'],
])('%s means %s', (typed, meant) => {
  expect(meantName(typed, ['clipRatioLow', 'clipRatioHigh', 'isRolled', 'isEval', 'policy', 'data'])).toBe(
    meant,
  );
});
