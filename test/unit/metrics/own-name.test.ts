/** Refusals begin with the name of the function that was called, and name what was meant. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, expect, test, vi } from 'vitest';
import { initBackend } from '../../../src/kernels/index.js';
import { meantName } from '../../../src/meant-name.js';
import { ExplainedVariance, batchFromAreal, maskedWhiten } from '../../../src/metrics/index.js';

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

test('versions that call the prompt generated are warned of once, those that mark it are not', () => {
  const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const attention_mask = tf.ones([1, 4], 'bool');
  const loss_mask = tf.tensor2d([[0, 0, 1, 1]], [1, 4], 'bool');
  const withVersions = (versions: number[]): void => {
    batchFromAreal({ attention_mask, loss_mask, versions: tf.tensor2d([versions], [1, 4], 'int32') });
  };
  withVersions([-1, -1, 1, 1]);
  expect(warnings).not.toHaveBeenCalled();
  withVersions([1, 1, 1, 1]);
  withVersions([1, 1, 1, 1]);
  expect(warnings).toHaveBeenCalledTimes(1);
  expect(String(warnings.mock.calls[0]![0])).toMatch(/put -1 on the tokens of the prompt/);
  vi.restoreAllMocks();
});
