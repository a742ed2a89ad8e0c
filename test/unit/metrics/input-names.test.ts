/** An error names its input as the caller spelled it: parts of options and facts with what they are a part of. */
import * as tf from '@tensorflow/tfjs-core';
import { afterAll, describe, expect, test } from 'vitest';

import { TensortallyError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import {
  type StepFacts,
  batchFromVerl,
  computeDataMetrics,
  computeStepMetrics,
  computeStepState,
  computeTimingMetrics,
} from '../../../src/metrics/index.js';

await initBackend('cpu');
const ones = tf.ones([2, 3]);
const names = ['response_mask', 'token_level_scores', 'token_level_rewards', 'advantages', 'returns'];
const others = ['old_log_probs', 'log_probs', 'rollout_log_probs', 'values'];
const batch = batchFromVerl({
  attention_mask: tf.ones([2, 5]),
  ...Object.fromEntries([...names, ...others].map((name) => [name, ones])),
});

afterAll(() => {
  tf.dispose([ones, batch.attentionMask!]);
});

async function refusalOf(attempt: () => unknown): Promise<TensortallyError> {
  try {
    await attempt();
  } catch (error) {
    if (error instanceof TensortallyError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

test.each<[string, object]>([
  ['options.policy.clipratio', { policy: { clipratio: 0.2 } }],
  ['options.policy.clipRatioC', { policy: { clipRatioC: 1 } }],
  ['options.policy.lossAggMode', { policy: { lossAggMode: 'none' } }],
  ['options.policy.dpSize', { policy: { dpSize: -1 } }],
  ['options.policy.klLossType', { policy: { klLossType: 'none' } }],
  ['options.rolloutCorrection.rolloutIS', { rolloutCorrection: { rolloutIS: 'token' } }],
  ['options.rolloutCorrection.rolloutIs', { rolloutCorrection: { rolloutIs: 'tokens' } }],
  ['options.rolloutCorrection.rolloutIsThreshold', { rolloutCorrection: { rolloutIsThreshold: 'x' } }],
  ['options.rolloutCorrection.rolloutRs', { rolloutCorrection: { rolloutRs: 'none' } }],
  [
    'options.rolloutCorrection.rolloutRsThreshold',
    { rolloutCorrection: { rolloutRs: 'token_k2', rolloutRsThreshold: '0.5_2' } },
  ],
  ['options.semantics', { semantics: 'mine' }],
  ['options.maxResponseLength', { maxResponseLength: 0 }],
  ['options.rightAbove', { rightAbove: NaN }],
  ['options.groups', { groups: ['a'] }],
  ['options.families', { families: [] }],
])('%s', async (input, options) => {
  for (const compute of [computeStepMetrics, computeStepState]) {
    const refusal = await refusalOf(() => compute(batch, options));
    expect(refusal.input).toBe(input);
  }
});

test.each<[string, object]>([
  ['gradientNorm', { gradientNorm: -1 }],
  ['timing.step', { timing: { step: -1 } }],
  ['timing.gen', { timing: { gen: 'fast' } }],
  ['nGpus', { nGpus: -1 }],
])('%s is an option here and a fact there', async (part, facts) => {
  const state = await computeStepState(batch);
  expect((await refusalOf(() => state.metrics(facts as StepFacts))).input).toBe(`facts.${part}`);
  expect((await refusalOf(() => computeStepMetrics(batch, facts))).input).toBe(`options.${part}`);
});

describe('also', () => {
  test('the tensor that tells the width', () => {
    const flat = tf.ones([3, 1, 1]);
    for (const name of ['response_mask', 'responses']) {
      expect(() => batchFromVerl({ [name]: flat })).toThrow(`batchFromVerl: ${name}: `);
    }
    flat.dispose();
  });

  test('the options of a single function', async () => {
    const data = await refusalOf(() => computeDataMetrics(batch, { maxModelLength: -1 }));
    expect(data.input).toBe('options.maxModelLength');
  });
});

test('a list of families has no holes', async () => {
  // eslint-disable-next-line no-sparse-arrays -- this is what is refused
  const families = [, 'data'] as unknown as 'data'[];
  const refusal = await refusalOf(() => computeStepMetrics(batch, { families }));
  expect(refusal.input).toBe('options.families');
  expect(refusal.received).toBe('undefined');
});

test('time does not run backwards; a timer that never started says NaN', async () => {
  for (const gen of [-1, -Infinity]) {
    const refusal = await refusalOf(() => computeTimingMetrics(batch, { gen }));
    expect(refusal).toBeInstanceOf(ValueError);
    expect(refusal.input).toBe('timingRaw.gen');
  }
  expect((await computeTimingMetrics(batch, { gen: NaN }))['timing_s/gen']).toBeNaN();
});

test('options of families that are not wanted are still options', async () => {
  const options = { families: ['data'] as const, policy: { clipRatioC: 0 } };
  expect((await refusalOf(() => computeStepState(batch, options))).input).toBe('options.policy.clipRatioC');
});
