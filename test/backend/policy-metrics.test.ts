/** Policy metrics on every backend: a second opinion on all keys, what must not matter, and what a step costs. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { initBackend } from '../../src/kernels/index.js';
import { klPlan } from '../../src/metrics/policy/kl.js';
import {
  type LossAggMode,
  type Metrics,
  type PolicyMetricsOptions,
  aggLoss,
  batchFromVerl,
  computeKlMetrics,
  computePolicyMetrics,
  lossAggModes,
  semanticsNames,
} from '../../src/metrics/index.js';
import { runPlans } from '../../src/metrics/plan.js';
import { policyPlan } from '../../src/metrics/policy/policy.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import {
  type PolicyRow,
  expectedPolicyMetrics,
  fromTensors,
  policyRows,
  policyTensors,
} from '../support/policy-cases.js';
import { hostTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

const B = 7;
const T = 9;
const rows = policyRows(B, T);
const ALL: PolicyMetricsOptions = { useKlInReward: true };

/** Float32 evaluation of a sum of T terms near 1; the float64 back ends are far below it. */
const CLOSE = { rel: 1e-5, abs: 1e-6 };

async function metricsOf(
  of: readonly PolicyRow[],
  options: PolicyMetricsOptions = {},
  shown: { readonly width?: number; readonly outside?: number } = {},
): Promise<Metrics> {
  const tensors = policyTensors(of, { width: T, ...shown });
  return fromTensors(tensors, (batch) => computePolicyMetrics(batch, { ...ALL, ...options }));
}

function expectSame(actual: Metrics, expected: Metrics): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, CLOSE);
  }
}

describe('policy metrics', () => {
  test.each(lossAggModes)('are what the formulas say: %s', async (lossAggMode) => {
    const expected = expectedPolicyMetrics(rows, lossAggMode, T);
    // What is tested must happen: every fraction is strictly between 0 and 1.
    for (const [key, value] of Object.entries(expected)) {
      if (key.includes('clipfrac')) expect(value * (1 - value), key).toBeGreaterThan(0);
    }
    expectSame(await metricsOf(rows, { lossAggMode }), expected);
  });

  test.each(semanticsNames)('of a healthy batch do not depend on the semantics: %s', async (semantics) => {
    const healthy = rows.filter(({ mask }) => mask.includes(1));
    expectSame(await metricsOf(healthy, { semantics }), expectedPolicyMetrics(healthy, 'token-mean', T));
  });

  test('are those whose inputs are there', async () => {
    const keysOf = async (...names: readonly string[]): Promise<string[]> => {
      const tensors = policyTensors(rows, { width: T });
      const given = Object.fromEntries([...names, 'response_mask'].map((name) => [name, tensors[name]!]));
      const computed = computePolicyMetrics(batchFromVerl(given));
      tf.dispose(tensors);
      return Object.keys(await computed).sort();
    };
    expect(await keysOf('log_probs', 'old_log_probs')).toEqual(['actor/ppo_kl']);
    expect(await keysOf('log_probs', 'old_log_probs', 'advantages')).toEqual([
      'actor/pg_clipfrac',
      'actor/pg_clipfrac_lower',
      'actor/pg_loss',
      'actor/ppo_kl',
    ]);
    expect(await keysOf('entropys', 'advantages')).toEqual(['actor/entropy']);
    expect(await keysOf('log_probs', 'ref_log_prob')).toEqual(['actor/kl_loss']);
    // Without a penalty in the reward there is none to report.
    expect(await keysOf('entropys', 'old_log_probs', 'ref_log_prob')).toEqual(['actor/entropy']);
    expect(await keysOf('vpreds', 'returns')).toEqual(['critic/vpred_mean']);
    expect(await keysOf('vpreds', 'returns', 'values')).toEqual([
      'critic/vf_clipfrac',
      'critic/vf_loss',
      'critic/vpred_mean',
    ]);
  });

  test('take every name that verl has for an estimator', async () => {
    const k3 = await metricsOf(rows, { klLossType: 'k3', klPenalty: 'k2' });
    expect(await metricsOf(rows, { klLossType: 'low_var_kl+', klPenalty: 'mse' })).toEqual(k3);
    const k1 = await metricsOf(rows, { klLossType: 'k1', klPenalty: 'k1+' });
    expect(await metricsOf(rows, { klLossType: 'kl' })).toEqual(k1);
    expect(k1['actor/kl_loss']).not.toBeCloseTo(k3['actor/kl_loss']!, 3);
  });

  describe('count a ratio', () => {
    const fractions = async (
      ratio: number,
      advantage: number,
      options: PolicyMetricsOptions = {},
    ): Promise<readonly [number, number]> => {
      const token = { mask: [1], old_log_probs: [-3], log_probs: [-3 + Math.log(ratio)] };
      const row = { ...rows[0]!, ...token, advantages: [advantage] };
      const metrics = await metricsOf([row], options, { width: 1 });
      return [metrics['actor/pg_clipfrac']!, metrics['actor/pg_clipfrac_lower']!];
    };

    test('beyond the range only where clipping binds', async () => {
      expect(await fractions(2, 1)).toEqual([1, 0]);
      expect(await fractions(2, -1)).toEqual([0, 0]);
      expect(await fractions(4, -1)).toEqual([0, 1]);
      expect(await fractions(0.5, -1)).toEqual([1, 0]);
      expect(await fractions(0.5, 1)).toEqual([0, 0]);
      expect(await fractions(0.9, 1)).toEqual([0, 0]);
      expect(await fractions(4, 0)).toEqual([0, 0]);
    });

    test('by the range that was asked for', async () => {
      const lopsided = { clipRatioLow: 0.1, clipRatioHigh: 0.3 };
      expect(await fractions(0.85, -1, lopsided)).toEqual([1, 0]);
      expect(await fractions(1.25, 1, lopsided)).toEqual([0, 0]);
      expect(await fractions(1.35, 1, lopsided)).toEqual([1, 0]);
      const both = { clipRatio: 0.3 };
      expect(await fractions(0.75, -1, both)).toEqual([0, 0]);
      expect(await fractions(1.25, 1, both)).toEqual([0, 0]);
      expect(await fractions(4, -1, { clipRatioC: 5 })).toEqual([0, 0]);
    });
  });

  test('stay finite when policies are far apart', async () => {
    const far = rows.map((row) => ({
      ...row,
      log_probs: row.log_probs.map((x, t) => x + (t % 2 === 0 ? -200 : 200)),
    }));
    const metrics = await metricsOf(far);
    for (const [key, value] of Object.entries(metrics)) expect(Number.isFinite(value), key).toBe(true);
    expect(metrics['actor/kl_loss']).toBeLessThanOrEqual(10);
  });

  test('show a NaN inside the mask in what is made of it, and nowhere else', async () => {
    const t = rows[0]!.mask.indexOf(1);
    const spoiled = rows.map((row, i) =>
      i === 0 ? { ...row, advantages: row.advantages.map((x, at) => (at === t ? NaN : x)) } : row,
    );
    const clean = await metricsOf(rows);
    const metrics = await metricsOf(spoiled);
    expect(metrics['actor/pg_loss']).toBeNaN();
    for (const key of ['actor/ppo_kl', 'actor/entropy', 'actor/kl_loss', 'critic/vf_loss']) {
      expect(metrics[key], key).toBe(clean[key]);
    }
  });

  test('of no token are NaN, in verl means are 0', async () => {
    const empty = rows.map((row) => ({ ...row, mask: row.mask.map(() => 0) }));
    for (const value of Object.values(await metricsOf(empty))) expect(value).toBeNaN();
    for (const semantics of ['verl-2026-01', 'verl-2026-08'] as const) {
      const metrics = await metricsOf(empty, { semantics });
      for (const [key, value] of Object.entries(metrics)) {
        const isAggregated = /loss|entropy/.test(key);
        expect(value, key).toEqual(isAggregated ? NaN : 0);
      }
    }
  });
});

describe('policy metrics do not depend on', () => {
  test.each(lossAggModes)('what padding holds, how wide it is and how rows are ordered: %s', async (mode) => {
    const options = { lossAggMode: mode, lossScaleFactor: T };
    const clean = await metricsOf(rows, options);
    for (const outside of [NaN, Infinity, -1e30]) {
      expectSame(await metricsOf(rows, options, { outside }), clean);
    }
    expectSame(await metricsOf(rows, options, { outside: NaN, width: T + 4 }), clean);
    expectSame(await metricsOf([...rows].reverse(), options), clean);
  });

  test.each(lossAggModes)('how the batch is split, once its global counts are known: %s', async (mode) => {
    const batchNumTokens = rows.flatMap(({ mask }) => mask).filter((m) => m === 1).length;
    const globalBatchSize = rows.filter(({ mask }) => mask.includes(1)).length;
    const counts = { batchNumTokens, globalBatchSize, lossAggMode: mode };
    const whole = await metricsOf(rows, { lossAggMode: mode });
    // Two micro-batches of different numbers of tokens, one of them the row without any.
    const parts = [rows.slice(0, 2), rows.slice(2, 3), rows.slice(3)];
    const losses = await Promise.all(parts.map((part) => metricsOf(part, counts)));
    // Two ranks, which average.
    const ranks = [rows.slice(0, 3), rows.slice(3)];
    const scaled = await Promise.all(ranks.map((part) => metricsOf(part, { ...counts, dpSize: 2 })));
    for (const key of ['actor/pg_loss', 'actor/entropy', 'actor/kl_loss', 'critic/vf_loss']) {
      const added = losses.reduce((total, part) => total + part[key]!, 0);
      expect(added, key).toBeCloseToReference(whole[key]!, CLOSE);
      expect((scaled[0]![key]! + scaled[1]![key]!) / 2, key).toBeCloseToReference(whole[key]!, CLOSE);
    }
  });

  test('the dtype of the mask', async () => {
    const values = [1, 2, 30, 4, 50, 6];
    const loss = async (dtype: 'bool' | 'int32' | 'float32', mode: LossAggMode): Promise<number[]> => {
      const lossMat = hostTensor({ shape: [2, 3], values });
      const lossMask = hostTensor({ shape: [2, 3], dtype, values: [1, 1, 0, 1, 0, 1] });
      const all = semanticsNames.map((semantics) =>
        aggLoss(lossMat, lossMask, { lossAggMode: mode, semantics }),
      );
      tf.dispose([lossMat, lossMask]);
      return Promise.all(all);
    };
    for (const dtype of ['bool', 'int32', 'float32'] as const) {
      expect(await loss(dtype, 'token-mean')).toEqual([3.25, 3.25, 3.25]);
      expect(await loss(dtype, 'seq-mean-token-sum')).toEqual([6.5, 6.5, 6.5]);
    }
  });
});

describe('a call of computePolicyMetrics', () => {
  test('reads the device once, also together with other families', async () => {
    const together = async (): Promise<void> => {
      const tensors = policyTensors(rows, { width: T });
      const batch = batchFromVerl(tensors);
      const plans = [policyPlan(batch, ALL).plan, klPlan(batch)] as const;
      const shared = runPlans<[Metrics, Metrics]>('test', { rows: B, cols: T }, plans);
      tf.dispose(tensors);
      const [policy, kl] = await shared;
      expectSame(policy, expectedPolicyMetrics(rows, 'token-mean', T));
      expect(kl['k3/mean']).toBe(policy['actor/kl_loss']);
    };
    for (const body of [() => metricsOf(rows), together]) {
      const reads = await countReadBacks(backend, body);
      // Without a device the inputs are host memory: nothing is brought back.
      if (hasDevice()) expect(reads).toBe(1);
    }
  });

  test('leaves nothing behind, not when it is refused half way either', async () => {
    await expectNoLeaks(() => metricsOf(rows));
    const elsewhere = backend === 'cpu' ? 'wasm' : 'cpu';
    await initBackend(elsewhere);
    const stranger = tf.ones([B, T]);
    await initBackend(backend);
    await expectNoLeaks(async () => {
      const { returns, ...tensors } = policyTensors(rows, { width: T });
      const batch = batchFromVerl({ ...tensors, returns: stranger });
      await expect(computePolicyMetrics(batch)).rejects.toThrow(BackendError);
      tf.dispose([returns!, tensors]);
    });
    stranger.dispose();
  });
});

describe('KL metrics', () => {
  test('do not depend on padding or on the order of rows', async () => {
    const kl = (of: readonly PolicyRow[], shown: { width: number; outside?: number }): Promise<Metrics> =>
      fromTensors(policyTensors(of, shown), (batch) => computeKlMetrics(batch));
    const clean = await kl(rows, { width: T });
    for (const outside of [NaN, -Infinity]) expectSame(await kl(rows, { width: T + 3, outside }), clean);
    expectSame(await kl([...rows].reverse(), { width: T }), clean);
  });

  test('of equal policies are exactly 0', async () => {
    const same = rows.map((row) => ({ ...row, log_probs: row.ref_log_prob }));
    const metrics = await fromTensors(policyTensors(same, { width: T }), (batch) => computeKlMetrics(batch));
    for (const [key, value] of Object.entries(metrics)) expect(Math.abs(value), key).toBe(0);
  });
});
