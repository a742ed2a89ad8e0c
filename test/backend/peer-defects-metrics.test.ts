/**
 * What was reported against peers and concerns something that is computed here from tensors: one test for each row of
 * docs/peer-defects.md that says so, on every backend. Those about numbers of the host are in test/unit/metrics.
 */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { MissingInputError, ShapeError } from '../../src/errors.js';
import { maskedMoments } from '../../src/kernels/index.js';
import {
  ExplainedVariance,
  type Metrics,
  type RolloutBatch,
  type StepMetricsOptions,
  StepState,
  aggLoss,
  batchFromVerl,
  computeDataMetrics,
  computeDebugMetrics,
  computeGroupMetrics,
  computeKlMetrics,
  computePolicyMetrics,
  computeRolloutCorrection,
  computeStepMetrics,
  computeStepState,
  computeThroughputMetrics,
  computeTimingMetrics,
  computeVarianceProxyMetrics,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const CLOSE = { rel: 1e-5, abs: 1e-6 };
const T = 4;
const PROMPT = 2;

/** One row by field; what is left out is 0, and 1 for masks. */
type Row = Partial<Record<string, readonly number[]>>;

const FIELDS = [
  ...['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values', 'vpreds'],
  ...['old_log_probs', 'log_probs', 'ref_log_prob', 'rollout_log_probs', 'sum_pi_squared'],
];

function batchOf(rows: readonly Row[], lists: Record<string, readonly number[]> = {}): RolloutBatch {
  const shape = [rows.length, T];
  const values = (field: string, otherwise: number): number[] =>
    rows.flatMap((row) => Array.from({ length: T }, (_, t) => row[field]?.[t] ?? otherwise));
  const attention = rows.flatMap(({ attention_mask }) => [
    ...Array.from({ length: PROMPT }, () => 1),
    ...Array.from({ length: T }, (_, t) => attention_mask?.[t] ?? 1),
  ]);
  const tensors: Record<string, tf.Tensor> = {
    attention_mask: deviceTensor({ shape: [rows.length, PROMPT + T], dtype: 'int32', values: attention }),
    response_mask: deviceTensor({ shape, dtype: 'int32', values: values('response_mask', 1) }),
  };
  for (const field of FIELDS) tensors[field] = deviceTensor({ shape, values: values(field, 0) });
  return batchFromVerl(tensors, lists);
}

/** What `compute` says of these rows; tensors are gone afterwards. */
async function of<R>(rows: readonly Row[], compute: (batch: RolloutBatch) => Promise<R>): Promise<R> {
  const batch = batchOf(rows);
  const result = await compute(batch);
  tf.dispose(Object.values(batch).filter((value) => value instanceof tf.Tensor));
  return result;
}

const NONE = [0, 0, 0, 0];
const NOTHING: Row = { response_mask: NONE, attention_mask: NONE };
const ALL: StepMetricsOptions = {
  timing: { gen: 1, step: 2 },
  nGpus: 1,
  gradientNorm: 1,
  rolloutCorrection: { rolloutIs: 'token', rolloutRs: 'token_k1', rolloutRsThreshold: '0.5_2' },
};

/** The same rows in parts of this many, merged. */
async function inParts(
  rows: readonly Row[],
  size: number,
  options: StepMetricsOptions = {},
): Promise<Metrics> {
  const states: StepState[] = [];
  for (let at = 0; at < rows.length; at += size) {
    states.push(await of(rows.slice(at, at + size), (batch) => computeStepState(batch, options)));
  }
  return StepState.merge(states).metrics();
}

test('rows 1, 4, 39: a batch in which nothing is selected is undefined, and no exception', async () => {
  const metrics = await of([NOTHING, NOTHING], (batch) => computeStepMetrics(batch, ALL));
  for (const key of ['critic/score/mean', 'critic/advantages/max', 'rollout_corr/kl', 'actor/pg_loss']) {
    expect(metrics[key], key).toBeNaN();
  }
  expect(metrics['response/aborted_ratio']).toBe(1);
});

test('row 3: debug metrics of an empty mask are not valid, and no exception', async () => {
  const metrics = await of([NOTHING], computeDebugMetrics);
  expect(metrics['training/rollout_probs_diff_valid']).toBe(0);
  expect(metrics['training/rollout_probs_diff_mean']).toBeNaN();
});

test('rows 2, 38, 48, 63, 64: what stands in the padding never matters', async () => {
  const padding = (fill: number): Row => ({
    attention_mask: [1, 1, 0, 0],
    response_mask: [1, 1, 0, 0],
    ...Object.fromEntries(FIELDS.map((field) => [field, [-0.25, -0.5, fill, fill]])),
  });
  const clean = await of([padding(0), padding(0)], (batch) => computeStepMetrics(batch, ALL));
  for (const fill of [NaN, Infinity, -1e30]) {
    const filled = await of([padding(fill), padding(0)], (batch) => computeStepMetrics(batch, ALL));
    for (const [key, value] of Object.entries(clean)) {
      expect(filled[key], key).toBeCloseToReference(value, CLOSE);
    }
  }
});

test('row 5: a stage of no tokens has no time per token', async () => {
  const metrics = await of([NOTHING], (batch) => computeTimingMetrics(batch, { gen: 2 }));
  expect(metrics).toEqual({ 'timing_s/gen': 2, 'timing_per_token_ms/gen': NaN });
});

test('row 6: truncation is measured against the configured cap, not the width of the padding', async () => {
  const rows: Row[] = [{}, { attention_mask: [1, 1, 0, 0] }];
  const ratio = async (maxResponseLength: number | undefined): Promise<number | undefined> => {
    const metrics = await of(rows, (batch) => computeDataMetrics(batch, { maxResponseLength }));
    return metrics['response_length/clip_ratio'];
  };
  expect(await ratio(8)).toBe(0);
  expect(await ratio(4)).toBe(0.5);
  expect(await ratio(undefined)).toBe(0.5);
});

test('row 6, prompts: measured against the configured cap, else against the width of the padding', async () => {
  const rows: Row[] = [{}, { attention_mask: [1, 1, 0, 0] }];
  const ratio = async (maxPromptLength: number | undefined): Promise<number | undefined> => {
    const options = { maxPromptLength };
    const metrics = await of(rows, (batch) => computeDataMetrics(batch, options));
    const ofStep = await of(rows, (batch) => computeStepMetrics(batch, { ...options, families: ['data'] }));
    expect(ofStep['prompt_length/clip_ratio']).toBe(metrics['prompt_length/clip_ratio']);
    return metrics['prompt_length/clip_ratio'];
  };
  expect(await ratio(PROMPT + 1)).toBe(0);
  expect(await ratio(PROMPT)).toBe(1);
  expect(await ratio(undefined)).toBe(1);
});

test('row 7: a response that the length of the model cut is truncated too', async () => {
  const rows: Row[] = [{}, { attention_mask: [1, 1, 1, 0] }, { attention_mask: [1, 1, 0, 0] }, NOTHING];
  const ratios = async (maxModelLength: number): Promise<unknown[]> => {
    const options = { maxResponseLength: 8, maxModelLength };
    const metrics = await of(rows, (batch) => computeDataMetrics(batch, options));
    return [metrics['response_length/clip_ratio'], metrics['response_length_non_aborted/clip_ratio']];
  };
  expect(await ratios(PROMPT + 5)).toEqual([0, 0]);
  expect(await ratios(PROMPT + 4)).toEqual([1 / 4, 1 / 3]);
  expect(await ratios(PROMPT + 3)).toEqual([2 / 4, 2 / 3]);
});

/** Rows of different lengths, so that a mean of means is another number. */
const UNEVEN: readonly Row[] = [
  { response_mask: [1, 1, 1, 1], attention_mask: [1, 1, 1, 1] },
  { response_mask: [1, 0, 0, 0], attention_mask: [1, 0, 0, 0] },
  { response_mask: [1, 1, 0, 0], attention_mask: [1, 1, 0, 0] },
].map((row, i) => ({
  ...row,
  ...Object.fromEntries(FIELDS.map((field) => [field, [0.1, -0.4, 0.7, -0.2].map((x) => x * (i + 1) - 0.5)])),
}));

test('rows 16, 19, 21, 36, 37, 50, 71: however the rows are split, tokens and extremes are pooled', async () => {
  const whole = await inParts(UNEVEN, 3);
  expect(whole['critic/advantages/mean']).toBeDefined();
  for (const size of [1, 2]) {
    const parts = await inParts(UNEVEN, size);
    for (const [key, value] of Object.entries(whole)) {
      expect(parts[key], `${key} in parts of ${size}`).toBeCloseToReference(value, CLOSE);
    }
  }
});

test('rows 38, 51, 53: a part without a token adds nothing, and has the keys of the others', async () => {
  const whole = await inParts(UNEVEN, 3);
  const parts = await inParts([...UNEVEN, { ...NOTHING }], 1);
  expect(Object.keys(parts)).toEqual(Object.keys(whole));
  for (const key of Object.keys(whole).filter((name) => !/length|aborted/.test(name))) {
    expect(parts[key], key).toBeCloseToReference(whole[key]!, CLOSE);
  }
});

test('row 16: the losses of micro-batches add up to the loss of the whole', async () => {
  const loss = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
  const mask = deviceTensor({ shape: [2, 3], values: [1, 1, 1, 1, 0, 0] });
  const [first, second] = [0, 1].map((row) => [
    tf.slice(loss, [row, 0], [1, 3]),
    tf.slice(mask, [row, 0], [1, 3]),
  ]);
  const whole = await aggLoss(loss, mask);
  const options = { batchNumTokens: 4 };
  const sum =
    (await aggLoss(first![0]!, first![1]!, options)) + (await aggLoss(second![0]!, second![1]!, options));
  expect(sum).toBeCloseTo(whole, 6);
  tf.dispose([loss, mask, ...first!, ...second!]);
});

test('row 23: rows beyond the bound are counted before weights are truncated', async () => {
  const rows: Row[] = [{ old_log_probs: NONE, rollout_log_probs: [-2, -2, -2, -2] }, {}];
  const { metrics, isWeights, responseMask } = await of(rows, (batch) =>
    computeRolloutCorrection(batch, { rolloutIs: 'token', rolloutIsThreshold: 2 }),
  );
  tf.dispose([isWeights, responseMask]);
  expect(metrics['rollout_corr/rollout_is_seq_fraction_high']).toBe(0.5);
  expect(metrics['rollout_corr/rollout_is_seq_max']).toBe(2);
});

test('rows 25, 45: one token that is far off makes no KL infinite', async () => {
  const rows: Row[] = [{ log_probs: [-500, -1, -1, -1], ref_log_prob: [-1, -1, -1, -1] }];
  const metrics = await of(rows, (batch) => computeKlMetrics(batch));
  expect(metrics['k3/mean']).toBe(2.5); // held at 10, over four tokens
  const far: Row[] = [{ old_log_probs: NONE, rollout_log_probs: [-500, 0, 0, 0] }];
  const { metrics: offPolicy, responseMask } = await of(far, (batch) => computeRolloutCorrection(batch));
  responseMask.dispose();
  expect(offPolicy['rollout_corr/k3_kl']).toBeCloseToReference((Math.expm1(20) - 20) / 4, {
    rel: 1e-5,
    abs: 0,
  });
});

test('row 28: a mask of another width is refused', () => {
  const rows = deviceTensor({ shape: [1, 4], values: NONE });
  const mask = deviceTensor({ shape: [1, 3], values: [1, 1, 1] });
  expect(() => batchFromVerl({ response_mask: mask, values: rows })).toThrow(ShapeError);
  tf.dispose([rows, mask]);
});

test('row 29: a NaN among the tokens shows, and is counted', async () => {
  const rows: Row[] = [{ returns: [1, NaN, 3, 4], values: [1, 2, 3, 5] }];
  const metrics = await of(rows, (batch) => computeDataMetrics(batch));
  expect(metrics['critic/vf_explained_var']).toBeNaN();
  const values = deviceTensor({ shape: [4], values: [1, NaN, 3, 4] });
  expect(await maskedMoments(values)).toMatchObject({ count: 4, nan: 1 });
  values.dispose();
});

test('row 30: an input that is missing is named, or said to be skipped', async () => {
  await of([{}], async (batch) => {
    const { sumPiSquared, ...without } = batch;
    expect(sumPiSquared).toBeDefined();
    await expect(computeVarianceProxyMetrics(without)).rejects.toThrow(MissingInputError);
    const reasons: Record<string, string> = {};
    await computeStepMetrics(without, {
      onSkipped: (family, reason) => {
        reasons[family] = reason;
      },
    });
    expect(reasons.varianceProxy).toMatch(/sum_pi_squared/);
    sumPiSquared!.dispose();
  });
});

test('row 32: metrics are plain numbers', async () => {
  const lists = { __num_turns__: [1, 2], tool_call_counts: [0, 3] };
  const batch = batchOf([{}, {}], lists);
  const metrics = await computeStepMetrics(batch, ALL);
  expect(Object.values(metrics).filter((value) => typeof value !== 'number')).toEqual([]);
  tf.dispose(Object.values(batch).filter((value) => value instanceof tf.Tensor));
});

test('row 33: probabilities are compared where the policy wrote, and one token has no spread', async () => {
  const rows: Row[] = [{ response_mask: [1, 0, 0, 0], old_log_probs: [-1, -9, -9, -9] }];
  const metrics = await of(rows, computeDebugMetrics);
  expect(metrics['training/rollout_probs_diff_max']).toBeCloseTo(1 - Math.exp(-1), 5);
  expect(metrics['training/rollout_probs_diff_std']).toBeNaN();
});

test('row 34: tokens that the loss leaves out are still length', async () => {
  const metrics = await of([{ response_mask: NONE }], (batch) => computeDataMetrics(batch));
  expect(metrics['response_length/min']).toBe(4);
});

test('row 35: numerator and denominator are over the same tokens', async () => {
  const rows: Row[] = [{ response_mask: [1, 1, 0, 1], log_probs: [-1, -3, -50, -2] }];
  const metrics = await of(rows, (batch) => computeKlMetrics(batch));
  expect(metrics['k1/mean']).toBe(-2);
});

test('row 41: a ratio beyond the range that gains nothing is not clipped', async () => {
  const rows: Row[] = [
    {
      log_probs: [1, 1, -1, -1].map((x) => x - 2),
      old_log_probs: [-2, -2, -2, -2],
      advantages: [1, -1, 1, -1],
    },
  ];
  const metrics = await of(rows, (batch) => computePolicyMetrics(batch));
  expect(metrics['actor/pg_clipfrac']).toBe(0.5);
});

test('row 42: groups that parts cut are whole again once the parts are merged', async () => {
  const rows: Row[] = [1, 2, 3, 3].map((reward) => ({ token_level_rewards: [0, 0, 0, reward] }));
  const groups = ['a', 'b', 'a', 'b'];
  const parts: StepState[] = [];
  for (const [from, to] of [
    [0, 2],
    [2, 4],
  ] as const) {
    const own = { families: ['groups'] as const, groups: groups.slice(from, to) };
    parts.push(await of(rows.slice(from, to), (batch) => computeStepState(batch, own)));
  }
  const whole = await of(rows, (batch) => computeGroupMetrics(batch, groups));
  expect(StepState.merge(parts).metrics()).toEqual(whole);
  expect(whole['group/count']).toBe(2);
});

test('row 44: a batch in which every response is cut off has clip ratio 1', async () => {
  const metrics = await of([{}, {}], (batch) => computeDataMetrics(batch, { maxResponseLength: 4 }));
  expect(metrics['response_length/clip_ratio']).toBe(1);
});

test('row 46: tool output counts as length unless a column says what does', async () => {
  const tool: Row = { response_mask: [1, 0, 0, 1] };
  const spanned = await of([tool], (batch) => computeDataMetrics(batch));
  expect(spanned['response_length/mean']).toBe(4);
  const written = await of([tool], (batch) => computeDataMetrics({ ...batch, responseLength: [2] }));
  expect(written['response_length/mean']).toBe(2);
});

test('row 47: a row that produced nothing is in no group', async () => {
  const rows: Row[] = [
    { token_level_rewards: [0, 0, 0, 100] },
    { ...NOTHING, token_level_rewards: [0, 0, 0, 1] },
  ];
  const metrics = await of(rows, (batch) => computeGroupMetrics(batch, ['a', 'a']));
  expect(metrics['group/reward_mean/mean']).toBe(100);
});

test('row 55: a fraction that is lost is pooled, not summed over parts', async () => {
  const rows: Row[] = [{ rollout_log_probs: [-1, 0, 0, 0] }, {}, {}];
  const options = { rolloutCorrection: ALL.rolloutCorrection };
  for (const size of [1, 3]) {
    const metrics = await inParts(rows, size, options);
    expect(metrics['rollout_corr/rollout_rs_masked_fraction']).toBeCloseToReference(1 / 12, CLOSE);
  }
});

test('rows 56, 67: explained variance of parts merges to that of the whole', async () => {
  const [returns, values] = [
    [1, 2, 3, 4, 11, 12, 13, 14],
    [1, 2, 3, 5, 10, 12, 13, 14],
  ];
  const part = (from: number, to: number): Promise<ExplainedVariance> => {
    const tensors = [returns, values].map((all) =>
      deviceTensor({ shape: [to - from], values: all.slice(from, to) }),
    );
    const pending = ExplainedVariance.of(tensors[0]!, tensors[1]!);
    tf.dispose(tensors);
    return pending;
  };
  const whole = await part(0, 8);
  expect((await part(0, 4)).merge(await part(4, 8)).value()).toBeCloseToReference(whole.value(), CLOSE);
});

test('row 57: clipped value predictions are counted', async () => {
  const rows: Row[] = [{ values: NONE, vpreds: [2, 2, 0, 0], returns: [3, 3, 0, 0] }];
  const metrics = await of(rows, (batch) => computePolicyMetrics(batch, { cliprangeValue: 0.5 }));
  expect(metrics['critic/vf_clipfrac']).toBe(0.5);
});

test('row 58: an effective sample size is a share, and extremes of parts are extremes', async () => {
  const rows: Row[] = [{ old_log_probs: [-19, -19, -19, -19] }, { old_log_probs: [-18, -19, -19, -19] }];
  const options = { rolloutCorrection: ALL.rolloutCorrection };
  const metrics = await inParts(rows, 1, options);
  expect(metrics['rollout_corr/rollout_is_eff_sample_size']).toBeGreaterThan(0);
  expect(metrics['rollout_corr/rollout_is_eff_sample_size']).toBeLessThanOrEqual(1);
  expect(metrics['rollout_corr/rollout_is_max']).toBeCloseToReference(Math.exp(-18), { rel: 1e-5, abs: 0 });
});

test('row 59: a row that is masked out altogether takes no part', async () => {
  const rows: Row[] = [
    { log_probs: [-1, -1, -1, -1] },
    { response_mask: NONE, log_probs: [NaN, NaN, NaN, NaN] },
  ];
  const metrics = await of(rows, (batch) => computeKlMetrics(batch));
  expect(metrics['k1/seq_mean']).toBe(-1);
});

test('row 61: constant returns leave nothing to explain', async () => {
  const rows: Row[] = [{ returns: [2, 2, 2, 2], values: [1, 2, 3, 2] }];
  const recommended = await of(rows, (batch) => computeDataMetrics(batch));
  expect(recommended['critic/vf_explained_var']).toBeNaN();
});

test('row 66: tokens and seconds of the throughput are of the same step', async () => {
  const metrics = await of([{}, {}], (batch) => computeThroughputMetrics(batch, { gen: 1, step: 4 }, 3));
  expect(metrics['perf/throughput']).toBe(12 / (4 * 3));
});
