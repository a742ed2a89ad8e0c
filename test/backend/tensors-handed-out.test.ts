/** Tensors that are handed out hold what their dtype says, and masks among them are bool. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { logitsStatistics } from '../../src/kernels/index.js';
import {
  batchFromVerl,
  computeRolloutCorrection,
  maskedWhiten,
  responseMaskFromEos,
} from '../../src/metrics/index.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { testBackend } from '../support/backend.js';
import { type TensorDtype, deviceTensor } from '../support/tensors.js';

await testBackend();

const HELD = { float32: Float32Array, int32: Int32Array, bool: Uint8Array } as const;
const DTYPES = ['bool', 'int32', 'float32'] as const;
const grid = (dtype: TensorDtype, values: readonly number[]): tf.Tensor =>
  deviceTensor({ shape: [2, 3], dtype, values });

async function expectHeld(name: string, tensor: tf.Tensor, dtype: keyof typeof HELD): Promise<void> {
  expect(tensor.dtype, name).toBe(dtype);
  expect(await tensor.data(), name).toBeInstanceOf(HELD[dtype]);
  // The data itself, which other kernels work on: what tensor.data() gives may have been converted.
  const { backend } = (
    tf.engine() as unknown as { state: { tensorInfo: WeakMap<object, { backend: tf.KernelBackend }> } }
  ).state.tensorInfo.get(tensor.dataId)!;
  const stored = await backend.read(tensor.dataId);
  expect(stored, name).toBeInstanceOf(HELD[dtype]);
}

test.each(DTYPES)('of a rollout correction under a mask of %s', async (dtype) => {
  const logs = grid('float32', [-1, -2, -0.5, -1, -3, -0.25]);
  const rollout = grid('float32', [-1, -0.1, -0.5, -1.1, -3, -0.25]);
  const response_mask = grid(dtype, [1, 1, 0, 1, 1, 1]);
  const batch = batchFromVerl({ old_log_probs: logs, rollout_log_probs: rollout, response_mask });
  const asked = [
    {},
    { rolloutIs: 'token' },
    { rolloutIs: 'sequence', batchNormalize: true },
    { rolloutIs: 'token', rolloutIsThreshold: '0.5_2', rolloutRs: 'token_k1', rolloutRsThreshold: '0.5_2' },
    { rolloutRs: 'token_k2,seq_max_k2', rolloutRsThreshold: '0.5' },
    { rolloutRs: 'seq_mean_k1', rolloutRsThreshold: '0.5_2' },
  ] as const;
  for (const options of asked) {
    const { isWeights, responseMask } = await computeRolloutCorrection(batch, options);
    await expectHeld(`mask of ${JSON.stringify(options)}`, responseMask, 'bool');
    if (isWeights) await expectHeld(`weights of ${JSON.stringify(options)}`, isWeights, 'float32');
    // As a trainer applies them.
    const applied = tf.mul(isWeights ?? logs, responseMask);
    const spelled = tf.mul(isWeights ?? logs, tf.cast(responseMask, 'float32'));
    await expectHeld('product', applied, 'float32');
    expect(await applied.data()).toEqual(await spelled.data());
    tf.dispose([applied, spelled, responseMask, ...(isWeights ? [isWeights] : [])]);
  }
  tf.dispose([logs, rollout, response_mask]);
});

test('of a correction without elements', async () => {
  const empty = tf.zeros([0, 3]);
  const batch = batchFromVerl({ old_log_probs: empty, rollout_log_probs: empty, response_mask: empty });
  const { isWeights, responseMask } = await computeRolloutCorrection(batch, { rolloutIs: 'token' });
  expect([isWeights.dtype, responseMask.dtype]).toEqual(['float32', 'bool']);
  tf.dispose([empty, isWeights, responseMask]);
});

test.each(['int32', 'float32'] as const)('of responseMaskFromEos, from %s', async (dtype) => {
  const ids = grid(dtype, [5, 9, 5, 5, 5, 5]);
  const mask = responseMaskFromEos(ids, 9);
  await expectHeld('mask', mask, 'bool');
  expect(Array.from(await mask.data())).toEqual([1, 1, 0, 1, 1, 1]);
  tf.dispose([ids, mask]);
  const none = responseMaskFromEos(tf.zeros([0, 3], dtype), 9);
  expect([none.dtype, none.shape]).toEqual(['bool', [0, 3]]);
  none.dispose();
});

test.each(DTYPES)('of maskedWhiten, from %s', async (dtype) => {
  const values = grid(dtype, [1, 0, 1, 1, 0, 1]);
  for (const shiftMean of [true, false]) {
    const whitened = await maskedWhiten(values, undefined, { shiftMean });
    await expectHeld('whitened', whitened, 'float32');
    whitened.dispose();
  }
  values.dispose();
});

test('of logitsStatistics', async () => {
  const logits = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 0, 0, 0] });
  const labels = deviceTensor({ shape: [2], dtype: 'int32', values: [0, 2] });
  const made = logitsStatistics(logits, labels);
  for (const [name, tensor] of Object.entries(made)) await expectHeld(name, tensor as tf.Tensor, 'float32');
  tf.dispose([logits, labels, ...(Object.values(made) as tf.Tensor[])]);
});

test('masks that are handed out are denominators as they are', async () => {
  const tracker = new StatsTracker();
  const ids = grid('int32', [5, 9, 5, 5, 5, 5]);
  const response_mask = responseMaskFromEos(ids, 9);
  const logs = grid('float32', [-1, -2, -0.5, -1, -3, -0.25]);
  const rollout = grid('float32', [-1, -0.1, -0.5, -1.1, -3, -0.25]);
  const batch = batchFromVerl({ old_log_probs: logs, rollout_log_probs: rollout, response_mask });
  const { responseMask } = await computeRolloutCorrection(batch, {
    rolloutRs: 'token_k1',
    rolloutRsThreshold: '0.5_2',
  });
  tracker.denominator({ tokens: response_mask, kept: responseMask });
  tracker.stat({ entropy: logs }, { denominator: 'kept' });
  expect(await tracker.export()).toMatchObject({ tokens: 5, kept: 4 });
  tracker.dispose();
  tf.dispose([ids, response_mask, logs, rollout, responseMask]);
});
