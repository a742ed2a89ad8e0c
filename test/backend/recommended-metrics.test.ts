/**
 * Recommended numbers where a formula hid something: an epsilon that has the unit of the rewards, a clamp that belongs to
 * a loss, a comparison with NaN. On every backend.
 */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  ExplainedVariance,
  type Metrics,
  type PolicyMetricsOptions,
  type RolloutCorrectionOptions,
  aggLoss,
  batchFromVerl,
  computePolicyMetrics,
  computeRolloutCorrection,
  maskedWhiten,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

const backend = await testBackend();

/** Exponentials of one device differ from those of another in the last digits of float32. */
const CLOSE = { rel: 1e-5, abs: 1e-6 };

function vector(values: readonly number[]): tf.Tensor {
  return deviceTensor({ shape: [1, values.length], values });
}

/** Rows of equal length. */
function matrix(rows: readonly (readonly number[])[]): tf.Tensor {
  return deviceTensor({ shape: [rows.length, rows[0]!.length], values: rows.flat() });
}

describe('explained variance', () => {
  async function explained(returns: readonly number[], values: readonly number[]): Promise<number> {
    const tensors = [vector(returns), vector(values)] as const;
    const pending = ExplainedVariance.of(...tensors);
    tf.dispose([...tensors]);
    return (await pending).value();
  }

  const pattern = [1, -1, 1, 1, -1, -1];

  test.each([1, 1e-3, 1e-4, 1e-10, 1e-20])('does not depend on the unit: rewards of ±%d', async (unit) => {
    const returns = pattern.map((x) => x * unit);
    expect(
      await explained(
        returns,
        returns.map(() => 0),
      ),
    ).toBeCloseToReference(0, CLOSE);
    const half = returns.map((x) => x / 2);
    expect(await explained(returns, half)).toBeCloseToReference(0.75, CLOSE);
  });

  test.each([
    ['equal', [2, 2, 2, 2]],
    ['1 ± 1e-7', [1 + 1e-7, 1 - 1e-7, 1 + 1e-7, 1 - 1e-7]],
    ['one sum in two roundings', [0.1 + 0.2, 0.3, Math.fround(0.1) + Math.fround(0.2), 0.3]],
  ])('is NaN where returns are equal but for float32 rounding: %s', async (_what, returns) => {
    expect(await explained(returns, [1, 2, 3, 4])).toBeNaN();
  });

  test('is a number where returns far from 0 differ by more than that', async () => {
    const returns = pattern.map((x) => 1000 + 0.01 * x);
    const value = await explained(
      returns,
      returns.map((x) => 1000 + (Math.fround(x) - 1000) / 2),
    );
    expect(value).toBeCloseTo(0.75, 3);
  });
});

describe('whitening', () => {
  async function whitened(
    values: readonly number[],
    options: Parameters<typeof maskedWhiten>[2] = {},
  ): Promise<number[]> {
    const given = vector(values);
    const made = await maskedWhiten(given, undefined, options);
    const numbers = Array.from(await made.data());
    tf.dispose([given, made]);
    return numbers;
  }

  test.each([1e-3, 1e-5, 1e-20, 1e-30])('gives a variance of 1 to values of ±%d', async (unit) => {
    const found = await whitened([unit, -unit, unit, -unit]);
    const one = Math.sqrt(3) / 2;
    expect(found).toBeCloseToReference([one, -one, one, -one], CLOSE);
  });

  test('makes 0 of values that are equal, also of those that differ by rounding', async () => {
    expect(await whitened([5, 5, 5])).toEqual([0, 0, 0]);
    expect(await whitened([1 + 1e-7, 1 - 1e-7, 1])).toEqual([0, 0, 0]);
    expect(await whitened([5, 5, 5], { shiftMean: false })).toEqual([5, 5, 5]);
  });

  test("keeps verl's 1e-8 under its presets", async () => {
    const [first] = await whitened([1e-4, -1e-4], { semantics: 'verl-2026-08' });
    expect(first).toBeCloseToReference(1e-4 / Math.sqrt(2e-8 + 1e-8), CLOSE);
  });
});

/** Policy metrics of one row; what is left out is 0. */
async function policyOf(
  fields: Readonly<Record<string, readonly number[]>>,
  options: PolicyMetricsOptions = {},
): Promise<Metrics> {
  const tensors = Object.fromEntries(Object.entries(fields).map(([name, row]) => [name, vector(row)]));
  const computing = computePolicyMetrics(batchFromVerl(tensors), options);
  tf.dispose(tensors);
  return computing;
}

describe('a NaN in a comparison is no "no"', () => {
  const update = {
    response_mask: [1, 1],
    log_probs: [-1, -1],
    old_log_probs: [-3, -1],
    advantages: [NaN, 1],
    vpreds: [3, 1],
    values: [1, 1],
    returns: [1, 1],
  };

  test('clip fractions of advantages [NaN, 1] are NaN, as the loss is', async () => {
    const { response_mask, log_probs, old_log_probs, advantages } = update;
    const given = { response_mask, log_probs, old_log_probs, advantages };
    expect(await policyOf(given)).toMatchObject({
      'actor/pg_loss': NaN,
      'actor/pg_clipfrac': NaN,
      'actor/pg_clipfrac_lower': NaN,
    });
    expect((await policyOf(given, { semantics: 'verl-2026-08' }))['actor/pg_clipfrac']).toBe(0);
    const outside = await policyOf({ ...given, response_mask: [0, 1] });
    expect(outside).toMatchObject({ 'actor/pg_clipfrac': 0, 'actor/pg_clipfrac_lower': 0 });
  });

  test.each(['vpreds', 'values', 'returns'] as const)('the critic: %s', async (field) => {
    const { response_mask, vpreds, values, returns } = update;
    const given = { response_mask, vpreds, values, returns };
    const metrics = await policyOf({ ...given, [field]: [NaN, 1] });
    expect(metrics).toMatchObject({ 'critic/vf_loss': NaN, 'critic/vf_clipfrac': NaN });
    expect((await policyOf(given))['critic/vf_clipfrac']).toBe(0);
  });

  const ALL_RULES = {
    rolloutRs: 'token_k1,token_k2,token_k3,seq_mean_k1,seq_sum_k2,seq_max_k3',
    rolloutRsThreshold: '0.5_2,0.1,0.1,0.5_2,0.1,0.1',
    rolloutIsThreshold: '0.5_2',
  };

  test.each(['token', 'sequence'] as const)('off-policy fractions: weights by %s', async (rolloutIs) => {
    const rows = {
      old: [
        [NaN, -1],
        [-1, -2],
      ],
      rollout: [
        [-1, -1],
        [-1.1, -2],
      ],
    };
    const metrics = await correctionOf(rows, { rolloutIs, ...ALL_RULES });
    const fractions = Object.entries(metrics).filter(([key]) => /_fraction_(high|low)$|oob_ratio/.test(key));
    expect(fractions.length).toBeGreaterThan(15);
    expect(fractions.filter(([, value]) => !Number.isNaN(value))).toEqual([]);
    // What is rejected is a fact about the mask.
    expect(metrics.rollout_rs_masked_fraction).toBe(0.5);
  });
});

/** Metrics of a rollout correction over all tokens, without their prefix. */
async function correctionOf(
  { old, rollout }: { readonly old: number[][]; readonly rollout: number[][] },
  options: RolloutCorrectionOptions = {},
): Promise<Metrics> {
  const tensors = {
    old_log_probs: matrix(old),
    rollout_log_probs: matrix(rollout),
    response_mask: matrix(old.map((row) => row.map(() => 1))),
  };
  const { metrics, isWeights, responseMask } = await computeRolloutCorrection(
    batchFromVerl(tensors),
    options,
  );
  tf.dispose({ ...tensors, responseMask, ...(isWeights && { isWeights }) });
  return Object.fromEntries(Object.entries(metrics).map(([key, x]) => [key.replace('rollout_corr/', ''), x]));
}

describe('only what overflows is cut', () => {
  test('ppo_kl of a log-probability of 100 against 0 is −100', async () => {
    const far = { response_mask: [1], log_probs: [100], old_log_probs: [0] };
    expect((await policyOf(far))['actor/ppo_kl']).toBe(-100);
    expect((await policyOf(far, { semantics: 'verl-2026-08' }))['actor/ppo_kl']).toBe(-20);
    const back = { response_mask: [1, 1], log_probs: [-100, 0], old_log_probs: [0, 0] };
    expect((await policyOf(back))['actor/ppo_kl']).toBe(50);
  });

  test('the loss stays finite, and small ratios are small', async () => {
    const far = { response_mask: [1], log_probs: [100], old_log_probs: [0], advantages: [-1] };
    expect((await policyOf(far, { clipRatioC: null }))['actor/pg_loss']).toBeCloseToReference(
      Math.exp(20),
      CLOSE,
    );
  });

  test('k3 of log-ratios −100 and 0 is 49.5, and of 100 finite', async () => {
    const down = await correctionOf({ old: [[-101, -1]], rollout: [[-1, -1]] });
    expect(down.k3_kl).toBeCloseToReference(49.5, CLOSE);
    const up = await correctionOf({ old: [[-1, -1]], rollout: [[-101, -1]] });
    expect(up.k3_kl).toBeCloseToReference((Math.exp(20) - 21) / 2, CLOSE);
  });

  test('criteria compare log-ratios as they are', async () => {
    const asked = { rolloutRs: 'token_k1,token_k2,token_k3', rolloutRsThreshold: '0.5_2,0.1,0.1' };
    const down = await correctionOf({ old: [[-101, -1]], rollout: [[-1, -1]] }, asked);
    expect(down.rollout_rs_token_k1_max).toBe(100);
    expect(down.rollout_rs_token_k2_max).toBe(5000);
    expect(down.rollout_rs_token_k3_max).toBeCloseToReference(99, CLOSE);
    const held = await correctionOf(
      { old: [[-101, -1]], rollout: [[-1, -1]] },
      { ...asked, semantics: 'verl-2026-08' },
    );
    expect([held.rollout_rs_token_k1_max, held.rollout_rs_token_k2_max]).toEqual([20, 200]);
  });

  test('weights of any size are brought to a mean of 1', async () => {
    const tiny = { old: [[-21, -21, -20]], rollout: [[-1, -1, -1]] };
    const metrics = await correctionOf(tiny, { rolloutIs: 'token', batchNormalize: true });
    const mean = (2 * Math.exp(-20) + Math.exp(-19)) / 3;
    expect(metrics.rollout_is_batch_norm_factor).toBeCloseToReference(mean, { rel: 1e-5, abs: 0 });
  });
});

describe('bounds that a trainer does not have', () => {
  const update = {
    response_mask: [1, 1],
    log_probs: [0, -1],
    old_log_probs: [-2, -1],
    advantages: [-1, 1],
    vpreds: [3, 1],
    values: [0, 1],
    returns: [0, 1],
  };

  test.each([null, Infinity])('no dual clip: clipRatioC %s', async (clipRatioC) => {
    const metrics = await policyOf(update, { clipRatioC });
    expect(metrics['actor/pg_loss']).toBeCloseToReference((Math.exp(2) - 1) / 2, CLOSE);
    expect(metrics['actor/pg_clipfrac_lower']).toBe(0);
    expect((await policyOf(update))['actor/pg_loss']).toBeCloseToReference(1, CLOSE);
  });

  test.each([null, Infinity])('no clipped values: cliprangeValue %s', async (cliprangeValue) => {
    // Held near the value before the update the error is the smaller one here, so the loss is the same: one that is not.
    const moved = { ...update, vpreds: [3, 1], returns: [3, 1] };
    const metrics = await policyOf(moved, { cliprangeValue });
    expect(metrics).toMatchObject({ 'critic/vf_loss': 0, 'critic/vf_clipfrac': 0 });
    expect(await policyOf(moved)).toMatchObject({
      'critic/vf_loss': 2.5 ** 2 / 4,
      'critic/vf_clipfrac': 0.5,
    });
  });
});

describe('a global count of 0', () => {
  test.each(['token-mean', 'seq-mean-token-sum', 'seq-mean-token-mean', 'seq-mean-token-sum-norm'] as const)(
    'gives NaN: %s',
    async (lossAggMode) => {
      for (const selected of [0, 1]) {
        const [losses, mask] = [vector([1, 2]), vector([selected, 0])];
        const options = { lossAggMode, batchNumTokens: 0, globalBatchSize: 0 };
        expect(await aggLoss(losses, mask, options), backend).toBeNaN();
        tf.dispose([losses, mask]);
      }
    },
  );
});
