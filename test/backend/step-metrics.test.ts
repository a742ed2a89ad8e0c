/** All metrics of a step at once are those of the single functions, for one read-back. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { DisposedTensorError, MissingInputError, ShapeError, ValueError } from '../../src/errors.js';
import {
  type StepFamily,
  type StepMetricsOptions,
  batchFromVerl,
  computeDataMetrics,
  computeDebugMetrics,
  computeGroupMetrics,
  computeKlMetrics,
  computePolicyMetrics,
  computeRolloutCorrection,
  computeStepMetrics,
  computeThroughputMetrics,
  computeTimingMetrics,
  computeVarianceProxyMetrics,
  stepFamilies,
} from '../../src/metrics/index.js';
import { semanticsNames } from '../../src/metrics/semantics.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

const [ROWS, PROMPT, RESPONSE] = [4, 3, 6];
const LENGTHS = [6, 2, 0, 4];
const PROMPTS = [3, 1, 2, 3];

/** Every tensor that a step can have. */
function tensors(): Record<string, tf.Tensor> {
  const random = seeded(17);
  const shape = [ROWS, RESPONSE];
  const full = (mean: number, std: number): tf.Tensor =>
    deviceTensor({ shape, values: Array.from({ length: ROWS * RESPONSE }, () => normal(random, mean, std)) });
  const logProbs = (): tf.Tensor =>
    deviceTensor({
      shape,
      values: Array.from({ length: ROWS * RESPONSE }, () => -Math.abs(normal(random, 0, 1))),
    });
  const exists = (row: number, col: number): number =>
    col < PROMPT ? Number(col >= PROMPT - PROMPTS[row]!) : Number(col - PROMPT < LENGTHS[row]!);
  const width = PROMPT + RESPONSE;
  return {
    attention_mask: deviceTensor({
      shape: [ROWS, width],
      dtype: 'int32',
      values: Array.from({ length: ROWS * width }, (_, i) => exists(Math.floor(i / width), i % width)),
    }),
    response_mask: deviceTensor({
      shape,
      dtype: 'bool',
      values: Array.from({ length: ROWS * RESPONSE }, (_, i) =>
        Number(i % RESPONSE < LENGTHS[Math.floor(i / RESPONSE)]! && i !== 1),
      ),
    }),
    token_level_scores: full(1, 1),
    token_level_rewards: full(0.5, 1),
    advantages: full(0, 1),
    returns: full(1, 2),
    values: full(1, 1),
    old_log_probs: logProbs(),
    log_probs: logProbs(),
    ref_log_prob: logProbs(),
    rollout_log_probs: logProbs(),
    entropys: full(1, 0.1),
    vpreds: full(1, 1),
    sum_pi_squared: deviceTensor({
      shape,
      values: Array.from({ length: ROWS * RESPONSE }, () => Math.fround(0.5 + 0.5 * random())),
    }),
  };
}

const TIMING = { gen: 2, update_actor: 3, step: 6 };
const GROUPS = ['a', 'a', 'b', 'b'];
const CORRECTION = {
  rolloutIs: 'token',
  rolloutIsThreshold: 2,
  rolloutRs: 'token_k1',
  rolloutRsThreshold: '0.5_2',
} as const;

const OPTIONS: StepMetricsOptions = {
  timing: TIMING,
  nGpus: 2,
  gradientNorm: 0.7,
  rolloutCorrection: CORRECTION,
  policy: { useKlInReward: true },
  groups: GROUPS,
  rightAbove: 0.25,
};

test.each(semanticsNames)('are the metrics of the single functions (%s)', async (semantics) => {
  const all = tensors();
  const batch = batchFromVerl(all);
  const step = await computeStepMetrics(batch, { ...OPTIONS, semantics });
  const {
    metrics: corrected,
    isWeights,
    responseMask,
  } = await computeRolloutCorrection(batch, {
    ...CORRECTION,
    semantics,
  });
  // All but the correction's own metrics are over the tokens that it leaves.
  const left = { ...batch, responseMask };
  const single = {
    ...(await computeDataMetrics(left, { semantics })),
    ...(await computeTimingMetrics(batch, TIMING, { semantics })),
    ...(await computeThroughputMetrics(batch, TIMING, 2, { semantics })),
    ...(await computeVarianceProxyMetrics(left, { gradientNorm: 0.7, semantics })),
    ...corrected,
    ...(await computeDebugMetrics(left)),
    ...(await computePolicyMetrics(left, { useKlInReward: true, semantics })),
    ...(await computeKlMetrics(left, { semantics })),
    ...(await computeGroupMetrics(left, GROUPS, { rightAbove: 0.25 })),
  };
  expect(Object.keys(step).sort()).toEqual(Object.keys(single).sort());
  for (const [key, value] of Object.entries(single)) {
    // The same kernel in another pass: a device may round an expression differently.
    expect(step[key], key).toBeCloseToReference(value, { rel: 1e-5, abs: 1e-5 });
  }
  tf.dispose([all, isWeights, responseMask]);
});

test('one read-back, nothing left behind, and the tensors may go at once', async () => {
  await expectNoLeaks(async () => {
    const all = tensors();
    let pending: Promise<unknown> | undefined;
    const reads = await countReadBacks(backend, async () => {
      pending = computeStepMetrics(batchFromVerl(all), OPTIONS);
      tf.dispose(all);
      await pending;
    });
    if (hasDevice()) expect(reads).toBe(1);
  });
});

/** The families that are left out of a batch with these tensors, with their reasons. */
async function skippedOf(
  names: readonly string[],
  options: StepMetricsOptions = {},
): Promise<{ skipped: Partial<Record<StepFamily, string>>; keys: string[] }> {
  const all = tensors();
  const skipped: Partial<Record<StepFamily, string>> = {};
  const batch = batchFromVerl(Object.fromEntries(names.map((name) => [name, all[name]!])));
  const metrics = await computeStepMetrics(batch, {
    ...options,
    onSkipped: (family, reason) => {
      skipped[family] = reason;
    },
  });
  tf.dispose(all);
  return { skipped, keys: Object.keys(metrics) };
}

describe('what is missing is left out, and said', () => {
  const DATA = [
    ...[
      'attention_mask',
      'response_mask',
      'token_level_scores',
      'token_level_rewards',
      'advantages',
      'returns',
    ],
  ];

  test('a critic, timings, log-probabilities, groups', async () => {
    const { skipped, keys } = await skippedOf(DATA);
    expect(keys).toContain('critic/score/mean');
    expect(keys).not.toContain('critic/values/mean');
    expect(skipped).toEqual({
      timing: 'options.timing is missing',
      throughput: 'options.timing is missing',
      varianceProxy: expect.stringContaining('old_log_probs is missing') as string,
      rolloutCorrection: expect.stringContaining('old_log_probs is missing') as string,
      debug: expect.stringContaining('old_log_probs is missing') as string,
      policy: 'the batch has nothing that an update computed',
      kl: expect.stringContaining('log_probs is missing') as string,
      groups: 'options.groups is missing',
    });
  });

  test('the attention mask', async () => {
    const names = DATA.slice(1);
    const { skipped, keys } = await skippedOf(names, { timing: TIMING, nGpus: 1, groups: GROUPS });
    expect(keys.filter((key) => /length|aborted|per_token|throughput|total_num/.test(key))).toEqual([]);
    expect(keys).toEqual(
      expect.arrayContaining(['critic/score/mean', 'group/count', 'timing_s/gen', 'perf/time_per_step']),
    );
    for (const family of ['data', 'timing', 'throughput'] as const) {
      expect(skipped[family]).toContain('attention_mask is missing');
    }
  });

  test('the seconds of the step, or the number of GPUs', async () => {
    const untimed = await skippedOf(DATA, { timing: { gen: 1 }, nGpus: 1 });
    expect(untimed.keys).toContain('timing_s/gen');
    expect(untimed.skipped.throughput).toContain('timingRaw.step is missing');
    const uncounted = await skippedOf(DATA, { timing: TIMING });
    expect(uncounted.skipped.throughput).toBe('options.nGpus is missing');
  });

  test('everything, which is refused with all reasons', async () => {
    const mask = deviceTensor({ shape: [1, 2], values: [1, 1] });
    const seen: string[] = [];
    const onSkipped = (family: string): void => void seen.push(family);
    await expect(computeStepMetrics(batchFromVerl({ response_mask: mask }), { onSkipped })).rejects.toThrow(
      /data: attention_mask is missing.*policy: the batch has nothing/,
    );
    expect(seen.sort()).toEqual([...stepFamilies].sort());
    mask.dispose();
  });
});

test('only the families that are wanted are looked at', async () => {
  const all = tensors();
  const batch = batchFromVerl(all);
  all.old_log_probs!.dispose();
  await expect(computeStepMetrics(batch)).rejects.toThrow(/old_log_probs/);
  const seen: string[] = [];
  const onSkipped = (family: string): void => void seen.push(family);
  const { old_log_probs, ...others } = all;
  expect(old_log_probs!.isDisposed).toBe(true);
  const metrics = await computeStepMetrics(batchFromVerl(others), {
    families: ['groups', 'timing', 'debug'],
    timing: TIMING,
    groups: GROUPS,
    onSkipped,
  });
  expect(new Set(Object.keys(metrics).map((key) => key.split('/')[0]))).toEqual(
    new Set(['group', 'timing_s', 'timing_per_token_ms']),
  );
  expect(seen).toEqual(['debug']);
  tf.dispose(others);
});

describe('what does not fit is refused, not left out', () => {
  const refusal = async (
    change: (all: Record<string, tf.Tensor>) => StepMetricsOptions,
  ): Promise<unknown> => {
    const all = tensors();
    const options = change(all);
    const failure = await Promise.resolve()
      .then(() => computeStepMetrics(batchFromVerl(all), options))
      .then(
        () => undefined,
        (reason: unknown) => reason,
      );
    tf.dispose(all);
    return failure;
  };

  test.each(['values', 'returns'])('a critic that is asked for and has no %s', async (name) => {
    const others = ['attention_mask', 'response_mask', 'advantages', 'returns', 'values'];
    const names = others.filter((other) => other !== name);
    for (const options of [{}, { timing: TIMING }]) {
      const refused = skippedOf(names, { useCritic: true, ...options });
      await expect(refused).rejects.toBeInstanceOf(MissingInputError);
      await expect(refused).rejects.toThrow(new RegExp(`${name}.*useCritic: false`));
    }
  });

  test.each<[string, StepMetricsOptions, RegExp]>([
    ['an unknown semantics', { semantics: 'verl' as 'recommended' }, /semantics/],
    ['a negative norm', { gradientNorm: -1 }, /gradientNorm/],
    ['options of another kind', { policy: 5 as unknown as object }, /policy/],
    ['an unknown weight level', { rolloutCorrection: { rolloutIs: 'word' as 'token' } }, /rolloutIs/],
    ['an invalid listener', { onSkipped: 'log' as unknown as () => void }, /onSkipped/],
    ['an invalid family', { families: ['data', 'dat'] as unknown as ['data'] }, /families.*'dat'/s],
    ['no family at all', { families: [] }, /families/],
    ['a misspelled option', { useCrtic: true } as StepMetricsOptions, /useCrtic.*useCritic/s],
    ['a misspelled option of a family', { policy: { clipRatoi: 1 } as object }, /clipRatoi.*clipRatio/s],
    ['a semantics for one family', { policy: { semantics: 'recommended' } as object }, /policy\.semantics/],
    ['an invalid number of GPUs', { timing: TIMING, nGpus: -1 }, /nGpus/],
  ])('%s', async (_name, options, says) => {
    const failure = await refusal(() => options);
    expect(failure).toBeInstanceOf(ValueError);
    expect((failure as Error).message).toMatch(says);
  });

  test('too few group ids, a disposed tensor', async () => {
    const few = await refusal(() => ({ groups: ['a'] }));
    expect(few).toBeInstanceOf(ShapeError);
    const all = tensors();
    const batch = batchFromVerl(all);
    all.returns!.dispose();
    await expect(computeStepMetrics(batch)).rejects.toBeInstanceOf(DisposedTensorError);
    tf.dispose(all);
  });
});
