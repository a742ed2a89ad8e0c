/** One step a row, as in classic control: `[N]` where others have `[N, T]`, without masks or with them. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  type Metrics,
  StepState,
  type VerlTensors,
  batchFromVerl,
  computeDataMetrics,
  computeDebugMetrics,
  computeKlMetrics,
  computePolicyMetrics,
  computeStepMetrics,
  computeStepState,
  computeThroughputMetrics,
  computeTimingMetrics,
  computeVarianceProxyMetrics,
} from '../../src/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { seeded } from '../support/random.js';

await testBackend();

const N = 37;
const NAMES = [
  ...['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values', 'vpreds'],
  ...['log_probs', 'old_log_probs', 'ref_log_prob', 'entropys', 'sum_pi_squared', 'rollout_is_weights'],
] as const;

function numbersOf(seed: number): Record<string, Float32Array> {
  const random = seeded(seed);
  return Object.fromEntries(
    NAMES.map((name) => {
      const isLog = name.includes('log_prob');
      return [name, Float32Array.from({ length: N }, () => (isLog ? -3 * random() - 0.01 : random() - 0.3))];
    }),
  );
}

const numbers = numbersOf(11);
const kept = Uint8Array.from({ length: N }, (_, i) => Number(i % 5 !== 2));
const POLICY = { lossAggMode: 'seq-mean-token-sum-norm', lossScaleFactor: 3, useKlInReward: true } as const;

/** The columns as `[N]`, `[N, 1]`, or `[N, 2]` whose second column is padding. */
function tensorsOf(width: 0 | 1 | 2, mask: Uint8Array | undefined): VerlTensors {
  const shape: number[] = width === 0 ? [N] : [N, width];
  const padded = (values: ArrayLike<number>, rest: number): number[] =>
    Array.from(values).flatMap((value) => (width === 2 ? [value, rest] : [value]));
  const columns = Object.fromEntries(
    Object.entries(numbers).map(([name, values]) => [name, tf.tensor(padded(values, NaN), shape)]),
  );
  return mask ? { ...columns, response_mask: tf.tensor(padded(mask, 0), shape, 'bool') } : columns;
}

const REJECTING = { rolloutRs: 'seq_sum_k1,token_k3', rolloutRsThreshold: '0.5_2,0.3' } as const;
/** Variance proxies of the presets are sums over rows. */
const BUT_PROXIES = ['data', 'rolloutCorrection', 'debug', 'policy', 'kl'] as const;

function expectClose(found: Metrics, expected: Metrics, keys: readonly string[]): void {
  for (const key of keys) {
    const [a, b] = [found[key]!, expected[key]!];
    if (Number.isNaN(b)) expect(a, key).toBeNaN();
    else expect(Math.abs(a - b), `${key}: ${a} for ${b}`).toBeLessThanOrEqual(1e-5 * (1 + Math.abs(b)));
  }
}

describe.each([
  ['with a mask', kept],
  ['all selected', new Uint8Array(N).fill(1)],
])('%s', (_name, mask) => {
  test('steps have the metrics of rows of which the rest is padding', async () => {
    await expectNoLeaks(async () => {
      const wide = tensorsOf(2, mask);
      const padded = await computeStepMetrics(batchFromVerl(wide), { policy: POLICY, gradientNorm: 0.5 });
      for (const width of [0, 1] as const) {
        const steps = tensorsOf(width, mask);
        const found = await computeStepMetrics(batchFromVerl(steps), { policy: POLICY, gradientNorm: 0.5 });
        expect(Object.keys(found).sort()).toEqual(Object.keys(padded).sort());
        expectClose(found, padded, Object.keys(padded));
        tf.dispose({ ...steps } as tf.NamedTensorMap);
      }
      tf.dispose({ ...wide } as tf.NamedTensorMap);
    });
  });

  test('single functions take them, too', async () => {
    const wide = batchFromVerl(tensorsOf(2, mask));
    const steps = batchFromVerl(tensorsOf(0, mask));
    for (const compute of [computeVarianceProxyMetrics, computeKlMetrics, computePolicyMetrics] as const) {
      const [found, expected] = [await compute(steps), await compute(wide)];
      expect(Object.keys(found)).toEqual(Object.keys(expected));
      expectClose(found, expected, Object.keys(expected));
    }
    tf.dispose([tensorsIn(wide), tensorsIn(steps)]);
  });
});

function tensorsIn(batch: object): tf.Tensor[] {
  return Object.values(batch).filter((part): part is tf.Tensor => part instanceof tf.Tensor);
}

describe('without a mask', () => {
  test('all steps count, in every function', async () => {
    await expectNoLeaks(async () => {
      const masked = tensorsOf(0, new Uint8Array(N).fill(1));
      const bare = tensorsOf(0, undefined);
      for (const compute of [
        computeStepMetrics,
        computeDataMetrics,
        computePolicyMetrics,
        computeKlMetrics,
      ]) {
        expect(await compute(batchFromVerl(bare))).toEqual(await compute(batchFromVerl(masked)));
      }
      const log = bare.old_log_probs!;
      const debug = await computeDebugMetrics(batchFromVerl({ old_log_probs: log, rollout_log_probs: log }));
      expect(debug['training/rollout_probs_diff_max']).toBe(0);
      tf.dispose([masked, bare] as tf.NamedTensorMap[]);
    });
  });

  test('there are the means of the steps, and no lengths', async () => {
    const rewards = tf.tensor1d([1, 2, 6]);
    const batch = batchFromVerl({
      token_level_scores: rewards,
      token_level_rewards: rewards,
      advantages: rewards,
    });
    const metrics = await computeDataMetrics(batch, { useCritic: false });
    expect(metrics).toEqual({
      ...{ 'critic/score/mean': 3, 'critic/score/max': 6, 'critic/score/min': 1 },
      ...{ 'critic/rewards/mean': 3, 'critic/rewards/max': 6, 'critic/rewards/min': 1 },
      ...{ 'critic/advantages/mean': 3, 'critic/advantages/max': 6, 'critic/advantages/min': 1 },
    });
    expect(await computeTimingMetrics(batch, { gen: 2 })).toEqual({ 'timing_s/gen': 2 });
    rewards.dispose();
  });
});

test('a prompt, or a column of lengths, has lengths again', async () => {
  const x = tf.ones([N, 1]);
  const ones = { token_level_scores: x, token_level_rewards: x, advantages: x, response_mask: x };
  const attention_mask = tf.ones([N, 4]);
  const withPrompt = await computeDataMetrics(batchFromVerl({ ...ones, attention_mask }), {
    useCritic: false,
  });
  expect(withPrompt).toMatchObject({ 'prompt_length/mean': 3, 'response_length/mean': 1 });
  tf.dispose([x, attention_mask]);
});

test('states of parts merge to that of all, and travel as bytes', async () => {
  const all = tensorsOf(0, kept);
  const part = (begin: number, size: number): VerlTensors =>
    Object.fromEntries(
      Object.entries(all).map(([name, x]) => [name, tf.slice(x as tf.Tensor, [begin], [size])]),
    );
  const whole = await computeStepMetrics(batchFromVerl(all), { policy: POLICY });
  const parts = [part(0, 1), part(1, 20), part(21, N - 21)];
  const states = await Promise.all(
    parts.map(async (one) => computeStepState(batchFromVerl(one), { policy: POLICY })),
  );
  const merged = StepState.merge(states.map((state) => StepState.fromBytes(state.toBytes())));
  expect(merged.rows).toBe(N);
  expectClose(StepState.fromBytes(merged.toBytes()).metrics(), whole, Object.keys(whole));
  tf.dispose([all, ...parts] as tf.NamedTensorMap[]);
});

test.each(['recommended', 'verl-2026-08', 'verl-2026-01'] as const)(
  'the state of many steps is a fraction of its inputs, however rows are long (%s)',
  async (semantics) => {
    const rows = 4096;
    const names = [...NAMES, 'rollout_log_probs', 'response_mask'];
    for (const rolloutCorrection of [{}, { rolloutIs: 'token' }, REJECTING] as const) {
      for (const shape of [[rows], [rows, 1], [1, rows]]) {
        const x = tf.ones(shape);
        const batch = batchFromVerl(Object.fromEntries(names.map((name) => [name, x])));
        const options = { rolloutCorrection, semantics, families: BUT_PROXIES, onSkipped: () => undefined };
        const { length } = (await computeStepState(batch, options)).toBytes();
        x.dispose();
        expect(length, JSON.stringify(shape)).toBeLessThanOrEqual((names.length * rows * 4) / 10);
      }
    }
  },
);

test('computeThroughputMetrics asks what tokens are where rows have no lengths', async () => {
  const x = tf.ones([N]);
  const batch = batchFromVerl({ advantages: x });
  await expect(computeThroughputMetrics(batch, { step: 2 }, 1)).rejects.toThrow(/global_token_num/);
  const skipped: string[] = [];
  const onSkipped = (family: string, reason: string): void => void skipped.push(`${family}: ${reason}`);
  const metrics = await computeStepMetrics(batch, { timing: { step: 2 }, nGpus: 1, onSkipped });
  expect(metrics).toMatchObject({ 'timing_s/step': 2, 'perf/time_per_step': 2 });
  expect(metrics).not.toHaveProperty('perf/total_num_tokens');
  expect(skipped).toContainEqual(expect.stringMatching(/^throughput: .*no lengths/));
  const counted = { ...batch, globalTokenNum: [N] };
  expect(await computeThroughputMetrics(counted, { step: 2 }, 1)).toMatchObject({
    'perf/total_num_tokens': N,
    'perf/throughput': N / 2,
  });
  x.dispose();
});

test.each(['verl-2026-08', 'verl-2026-01'] as const)(
  'steps that a mask leaves out are rows without a token, as the presets count them (%s)',
  async (semantics) => {
    const [wide, steps] = [tensorsOf(2, kept), tensorsOf(0, kept)];
    // The presets multiply by masks, and so show what padding holds.
    const { response_mask, ...numbered } = wide;
    const padded: VerlTensors = Object.fromEntries(
      Object.entries(numbered).map(([name, x]) => [
        name,
        tf.where(tf.isNaN(x as tf.Tensor), 0, x as tf.Tensor),
      ]),
    );
    const policy = { ...POLICY, lossAggMode: 'token-mean' } as const;
    const options = { policy, semantics, families: BUT_PROXIES, onSkipped: () => undefined };
    const ofRows = await computeStepMetrics(batchFromVerl({ ...padded, response_mask }), options);
    const ofSteps = await computeStepMetrics(batchFromVerl(steps), options);
    expect(Object.keys(ofSteps).sort()).toEqual(Object.keys(ofRows).sort());
    expectClose(ofSteps, ofRows, Object.keys(ofRows));
    const data = await computeDataMetrics(batchFromVerl(steps), { semantics });
    expectClose(data, ofRows, Object.keys(data));
    tf.dispose([wide, steps, padded] as tf.NamedTensorMap[]);
  },
);

test('totals of short rows are kept as such, records of rows where a metric needs them', async () => {
  const [rows, cols] = [4096, 2];
  const x = tf.ones([rows, cols]);
  const names = [
    'response_mask',
    'log_probs',
    'old_log_probs',
    'advantages',
    'entropys',
    'values',
    'returns',
  ];
  const batch = batchFromVerl(Object.fromEntries(names.map((name) => [name, x])));
  const state = await computeStepState(batch, { families: ['policy'] });
  expect(state.toBytes().length).toBeLessThan(names.length * rows * cols * 4);
  x.dispose();
});
