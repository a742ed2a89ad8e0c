/** What policy metrics, KL metrics and loss aggregation refuse: every refusal names the input and says what to do. */
import * as tf from '@tensorflow/tfjs-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { MissingInputError, ShapeError, type TensortallyError, ValueError } from '../../src/errors.js';
import { initBackend } from '../../src/kernels/index.js';
import {
  type AggLossOptions,
  type PolicyMetricsOptions,
  aggLoss,
  batchFromVerl,
  computeKlMetrics,
  computePolicyMetrics,
  klPenalty,
} from '../../src/metrics/index.js';

let grid: tf.Tensor;
let wide: tf.Tensor;

beforeAll(async () => {
  await initBackend('cpu');
  grid = tf.ones([2, 3]);
  wide = tf.ones([2, 4]);
});

afterAll(() => {
  tf.dispose([grid, wide]);
});

/** What a caller without types can pass. */
const anything = (value: unknown): never => value as never;

type Kind = new (...args: never[]) => TensortallyError;

async function refusalOf(call: () => Promise<unknown>, kind: Kind): Promise<TensortallyError> {
  const end: unknown = await call().catch((error: unknown) => error);
  expect(end).toBeInstanceOf(kind);
  return end as TensortallyError;
}

const OPTIONS: readonly (readonly [string, PolicyMetricsOptions, Kind, string])[] = [
  ['an invalid mode', { lossAggMode: anything('token-median') }, ValueError, 'options.lossAggMode'],
  [
    'a mode that the revision does not have',
    { lossAggMode: 'token-sum', semantics: 'verl-2026-01' },
    ValueError,
    'options.lossAggMode',
  ],
  ['invalid semantics', { semantics: anything('verl') }, ValueError, 'options.semantics'],
  ['no rank', { dpSize: 0 }, ValueError, 'options.dpSize'],
  ['NaN tokens', { batchNumTokens: NaN }, ValueError, 'options.batchNumTokens'],
  ['endless sequences', { globalBatchSize: Infinity }, ValueError, 'options.globalBatchSize'],
  ['a scale of 0', { lossScaleFactor: 0 }, ValueError, 'options.lossScaleFactor'],
  ['ranks without the tokens of all', { dpSize: 2 }, MissingInputError, 'options.batchNumTokens'],
  [
    'ranks without the sequences of all',
    { dpSize: 2, batchNumTokens: 9, lossAggMode: 'seq-mean-token-sum' },
    MissingInputError,
    'options.globalBatchSize',
  ],
  ['a negative clip ratio', { clipRatio: -0.1 }, ValueError, 'options.clipRatio'],
  ['a NaN lower clip ratio', { clipRatioLow: NaN }, ValueError, 'options.clipRatioLow'],
  ['an endless upper clip ratio', { clipRatioHigh: Infinity }, ValueError, 'options.clipRatioHigh'],
  ['a dual clip within the range', { clipRatioC: 1 }, ValueError, 'options.clipRatioC'],
  ['a negative value range', { cliprangeValue: -1 }, ValueError, 'options.cliprangeValue'],
  ['a dual clip in words', { clipRatioC: anything('none') }, ValueError, 'options.clipRatioC'],
  ['a NaN value range', { cliprangeValue: NaN }, ValueError, 'options.cliprangeValue'],
  ['fewer than no tokens', { batchNumTokens: -1 }, ValueError, 'options.batchNumTokens'],
  ['an invalid estimator', { klLossType: anything('full') }, ValueError, 'options.klLossType'],
  ['an invalid penalty', { klPenalty: anything('k4+') }, ValueError, 'options.klPenalty'],
  ['a KL penalty without a reference', { useKlInReward: true }, MissingInputError, 'ref_log_prob'],
];

describe('computePolicyMetrics refuses', () => {
  test.each(OPTIONS)('%s', async (_, options, kind, input) => {
    const batch = batchFromVerl({ response_mask: grid, log_probs: grid, old_log_probs: grid });
    const refusal = await refusalOf(() => computePolicyMetrics(batch, options), kind);
    expect(refusal).toMatchObject({ where: 'computePolicyMetrics', input });
  });

  test('a batch without a response mask', async () => {
    const batch = batchFromVerl({ entropys: grid });
    const refusal = await refusalOf(() => computePolicyMetrics(batch), MissingInputError);
    expect(refusal.input).toBe('response_mask');
  });

  test('a batch from which nothing can be computed', async () => {
    const batch = batchFromVerl({ response_mask: grid, advantages: grid, log_probs: grid });
    const refusal = await refusalOf(() => computePolicyMetrics(batch), MissingInputError);
    expect(refusal.expected).toMatch(/log_probs and old_log_probs.*entropys/);
  });

  test('a tensor of another width', async () => {
    const batch = { ...batchFromVerl({ response_mask: grid, entropys: grid }), entropys: wide };
    expect((await refusalOf(() => computePolicyMetrics(batch), ShapeError)).input).toBe('entropys');
  });
});

describe('computeKlMetrics refuses', () => {
  test.each(['response_mask', 'log_probs', 'ref_log_prob'])('a batch without %s', async (missing) => {
    const all: Record<string, tf.Tensor> = { response_mask: grid, log_probs: grid, ref_log_prob: grid };
    const given = Object.entries(all).filter(([name]) => name !== missing);
    const batch = batchFromVerl(Object.fromEntries(given));
    const refusal = await refusalOf(() => computeKlMetrics(batch), MissingInputError);
    expect(refusal).toMatchObject({ where: 'computeKlMetrics', input: missing });
  });
});

describe('aggLoss refuses', () => {
  const cases: readonly (readonly [
    string,
    () => readonly [tf.Tensor, tf.Tensor],
    AggLossOptions,
    Kind,
    string,
  ])[] = [
    ['a mask of another shape', () => [grid, wide], {}, ShapeError, 'loss_mask'],
    ['a loss of rank 1', () => [tf.ones([6]), grid], {}, ShapeError, 'loss_mat'],
    ['no mask', () => [grid, anything(undefined)], {}, MissingInputError, 'loss_mask'],
    ['ranks without a count', () => [grid, grid], { dpSize: 2 }, MissingInputError, 'options.batchNumTokens'],
  ];
  test.each(cases)('%s', async (_, tensors, options, kind, input) => {
    const refusal = await refusalOf(() => aggLoss(...tensors(), options), kind);
    expect(refusal).toMatchObject({ where: 'aggLoss', input });
  });
});

test('klPenalty refuses an invalid kind', () => {
  expect(() => klPenalty('a', 'b', anything('toString'))).toThrow(ValueError);
});

test('several ranks need no count for a sum, nor where that revision of verl takes the local one', async () => {
  expect(await aggLoss(grid, grid, { dpSize: 2, lossAggMode: 'token-sum' })).toBe(12);
  expect(await aggLoss(grid, grid, { dpSize: 2, semantics: 'verl-2026-01' })).toBe(2);
});
