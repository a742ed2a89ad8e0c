/** A column on another back end than the others is blamed under its own name, and the remedy copies it as it is. */
import * as tf from '@tensorflow/tfjs-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import {
  type RolloutBatch,
  aggLoss,
  batchFromVerl,
  computeDataMetrics,
  computeDebugMetrics,
  computeKlMetrics,
  computePolicyMetrics,
  computeRolloutCorrection,
  computeStepMetrics,
  computeVarianceProxyMetrics,
} from '../../src/index.js';
import { testBackend } from '../support/backend.js';

const backend = await testBackend();
const otherName = backend === 'cpu' ? 'wasm' : 'cpu';
await import(`@tensorflow/tfjs-backend-${otherName}`);

const names = ['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values', 'log_probs'];
const more = ['old_log_probs', 'ref_log_prob', 'rollout_log_probs', 'sum_pi_squared', 'entropys'];
let here: Record<string, tf.Tensor>;
let there: tf.Tensor;

beforeAll(async () => {
  here = {
    ...Object.fromEntries([...names, ...more].map((name) => [name, tf.ones([2, 3])])),
    response_mask: tf.ones([2, 3], 'bool'),
    attention_mask: tf.ones([2, 3], 'bool'),
  };
  await tf.setBackend(otherName);
  there = tf.ones([2, 3], 'bool');
  await tf.setBackend(backend);
});

afterAll(() => {
  tf.dispose([here, there]);
});

async function failureOf(attempt: () => Promise<unknown>): Promise<BackendError> {
  const failure: unknown = await attempt().then(undefined, (reason: unknown) => reason);
  expect(failure).toBeInstanceOf(BackendError);
  return failure as BackendError;
}

describe('a mask elsewhere is blamed as response_mask:', () => {
  test.each<[string, (batch: RolloutBatch) => Promise<unknown>]>([
    ['computeDataMetrics', computeDataMetrics],
    ['computeDebugMetrics', computeDebugMetrics],
    ['computeKlMetrics', computeKlMetrics],
    ['computePolicyMetrics', computePolicyMetrics],
    ['computeRolloutCorrection', computeRolloutCorrection],
    ['computeVarianceProxyMetrics', computeVarianceProxyMetrics],
    ['computeStepMetrics', computeStepMetrics],
  ])('%s', async (name, compute) => {
    const batch = batchFromVerl({ ...here, response_mask: there });
    const { where, input, remedy } = await failureOf(() => compute(batch));
    expect([where, input]).toEqual([name, 'response_mask']);
    expect(remedy).toContain(
      'tf.tensor(await response_mask.data(), response_mask.shape, response_mask.dtype)',
    );
  });
});

test('an attention mask elsewhere is blamed as attention_mask, also beside a length column', async () => {
  for (const lengths of [{}, { response_length: [3, 3], prompt_length: [0, 0] }]) {
    const batch = batchFromVerl({ ...here, attention_mask: there }, lengths);
    expect((await failureOf(() => computeDataMetrics(batch))).input).toBe('attention_mask');
  }
});

test('other columns are blamed under their names, too', async () => {
  const batch = batchFromVerl({ ...here, rollout_log_probs: there });
  expect((await failureOf(() => computeDebugMetrics(batch))).input).toBe('rollout_log_probs');
});

test('the mask of a loss is loss_mask', async () => {
  expect((await failureOf(() => aggLoss(here.advantages!, there))).input).toBe('loss_mask');
});
