/** Group metrics on every backend: which rows are in a group, and what is said of groups that teach nothing. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { DtypeError, MissingInputError, ShapeError } from '../../src/errors.js';
import {
  type GroupId,
  type GroupMetricsOptions,
  type Metrics,
  batchFromVerl,
  computeGroupMetrics,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { type RolloutRow, resultOf, rolloutRows } from '../support/rollout-rows.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const [token] = rolloutRows(1, { count: 1 });

/** A row of as many tokens as there are rewards. */
function rowOf(rewards: readonly number[], scores = rewards): RolloutRow {
  const perToken = rewards.map(() => 0);
  return {
    ...token!,
    response_mask: rewards.map(() => 1),
    token_level_rewards: rewards,
    token_level_scores: scores,
    advantages: perToken,
    old_log_probs: perToken,
    rollout_log_probs: perToken,
    rollout_is_weights: perToken,
    sum_pi_squared: perToken,
  };
}

function metricsOf(
  rows: readonly RolloutRow[],
  groups: readonly GroupId[],
  options?: GroupMetricsOptions,
): Promise<Metrics> {
  return resultOf((batch) => computeGroupMetrics(batch, groups, options), rows);
}

test('group metrics of a batch by hand', async () => {
  const rows = [rowOf([0, 1]), rowOf([0, 0, 0]), rowOf([1]), rowOf([0, 1]), rowOf([0]), rowOf([0.5, 0.25])];
  expect(await metricsOf(rows, ['a', 'a', 'b', 'b', 'c', 'd'])).toEqual({
    'group/count': 4,
    'group/singleton_count': 2,
    'group/size/mean': 1.5,
    'group/size/max': 2,
    'group/size/min': 1,
    // a 0.5, b 1, c 0, d 0.75
    'group/reward_mean/mean': 0.5625,
    'group/reward_mean/max': 1,
    'group/reward_mean/min': 0,
    // a √½, b 0; c and d have nobody to compare with
    'group/reward_std/mean': Math.SQRT1_2 / 2,
    'group/reward_std/max': Math.SQRT1_2,
    'group/reward_std/min': 0,
    // of a and b
    'group/zero_std_ratio': 0.5,
    'group/all_right_ratio': 0.5,
    'group/all_wrong_ratio': 0,
  });
});

test('an aborted row is in no group', async () => {
  const rows = [rowOf([1]), rowOf([1]), rowOf([]), rowOf([])];
  expect(await metricsOf(rows, [0, 0, 0, 1])).toMatchObject({
    'group/count': 1,
    'group/size/max': 2,
    'group/reward_mean/mean': 1,
    'group/zero_std_ratio': 1,
    'group/all_right_ratio': 1,
  });
});

test('equal rewards have no spread, whatever their bits and wherever they stand', async () => {
  const rows = [rowOf([0.1]), rowOf([0, 0.1]), rowOf([0, 0, 0, 0.1, 0])];
  expect(await metricsOf(rows, ['a', 'a', 'a'])).toMatchObject({
    'group/reward_std/max': 0,
    'group/zero_std_ratio': 1,
  });
});

test('close rewards keep the spread that they have', async () => {
  const rewards = [0.5, 0.5001, 0.5002, 0.5001].map(Math.fround);
  const mean = rewards.reduce((sum, x) => sum + x) / 4;
  const std = Math.sqrt(rewards.reduce((sum, x) => sum + (x - mean) ** 2, 0) / 3);
  const metrics = await metricsOf(
    rewards.map((reward) => rowOf([reward])),
    [7, 7, 7, 7],
  );
  expect(metrics['group/reward_std/mean']).toBeCloseToReference(std, { rel: 1e-9 });
});

test('groups of one have no spread to speak of', async () => {
  expect(await metricsOf([rowOf([1]), rowOf([0])], [0, 1])).toMatchObject({
    'group/count': 2,
    'group/reward_mean/mean': 0.5,
    'group/reward_std/mean': NaN,
    'group/singleton_count': 2,
    'group/zero_std_ratio': NaN,
    'group/all_right_ratio': NaN,
    'group/all_wrong_ratio': NaN,
  });
});

test('shares are over groups of two rows or more: a group of one is counted, and not compared', async () => {
  const rows = [rowOf([1]), rowOf([1]), rowOf([0]), rowOf([0]), rowOf([0]), rowOf([NaN])];
  expect(await metricsOf(rows, ['a', 'a', 'b', 'b', 'c', 'd'])).toMatchObject({
    'group/count': 4,
    'group/singleton_count': 2,
    'group/zero_std_ratio': 1,
    'group/all_right_ratio': 0.5,
    'group/all_wrong_ratio': 0.5,
  });
});

test.each([
  [
    'sums in other orders',
    [
      [0.1, 0.9],
      [1, 0],
      [0.3, 0.7],
      [0.5, 0.5],
    ],
  ],
  ['parts that cancel', [[5.1, -4.1], [1], [33.3, -32.3], [0.7, 0.3]]],
  ['many small parts', [Array<number>(9).fill(1 / 9), [1]]],
  ['far from 1', [[1e6 / 3, 2e6 / 3], [1e6]]],
])('rewards that are one but for float32 rounding have no spread: %s', async (_what, rewards) => {
  const rows = rewards.map((ofRow) => rowOf(ofRow));
  const metrics = await metricsOf(
    rows,
    rows.map(() => 'a'),
  );
  expect(metrics['group/zero_std_ratio']).toBe(1);
});

test.each([
  ['a millionth', [[1], [1 + 1e-6]]],
  ['tiny rewards', [[1e-20], [-1e-20]]],
  ['tiny rewards of one sign', [[1e-20], [1.001e-20]]],
  ['infinities', [[Infinity], [-Infinity]]],
])('rewards that differ by more have a spread: %s', async (_what, rewards) => {
  const rows = rewards.map((ofRow) => rowOf(ofRow));
  expect((await metricsOf(rows, [1, 1]))['group/zero_std_ratio']).toBe(0);
});

test('a score that reaches the threshold by rounding is not above it', async () => {
  const rows = [rowOf([0.2, 0.3]), rowOf([0.1, 0.4])];
  expect(await metricsOf(rows, [1, 1])).toMatchObject({
    'group/all_right_ratio': 0,
    'group/all_wrong_ratio': 1,
  });
});

/**
 * Rows of one group, of many tokens.
 *
 * @param end whether rows end where their rewards do, or all tokens of the tensor are selected, with rewards of 0 behind
 */
async function denseMetrics(rows: readonly (readonly number[])[], end: boolean): Promise<Metrics> {
  const width = Math.max(...rows.map((row) => row.length));
  const tokens = deviceTensor({
    shape: [rows.length, width],
    values: rows.flatMap((row) => [...row, ...Array<number>(width - row.length).fill(0)]),
  });
  const mask = deviceTensor({
    shape: [rows.length, width],
    dtype: 'bool',
    values: rows.flatMap((row) => Array.from({ length: width }, (_, i) => (i < row.length || !end ? 1 : 0))),
  });
  const batch = batchFromVerl({
    response_mask: mask,
    token_level_rewards: tokens,
    token_level_scores: tokens,
  });
  const metrics = await computeGroupMetrics(
    batch,
    rows.map(() => 'a'),
  );
  tf.dispose([tokens, mask]);
  return metrics;
}

const times = (count: number, reward: number): number[] => Array<number>(count).fill(reward);

test.each([
  ['equal parts', [times(1000, 0.001), times(200, 0.005)]],
  ['equal parts, and one that ends at once', [times(1000, 0.001), [1]]],
  [
    'zeros between',
    [times(1000, 0.001).flatMap((part) => [part, 0]), [...times(1900, 0), ...times(100, 0.01)]],
  ],
  ['parts that cancel', [[...times(1000, 0.003), ...times(10, -0.3)], [0]]],
])('rewards on every token are rounded relative to all of them: %s', async (_what, rows) => {
  for (const end of [true, false]) expect((await denseMetrics(rows, end))['group/zero_std_ratio']).toBe(1);
});

test.each([
  ['equal parts', [times(1000, 0.001), times(1000, 0.001001)]],
  ['parts that cancel', [[5.1, -4.1, ...times(998, 0)], [1.00001]]],
])('rewards on every token that differ by more have a spread: %s', async (_what, rows) => {
  for (const end of [true, false]) expect((await denseMetrics(rows, end))['group/zero_std_ratio']).toBe(0);
});

test('a score on every token that reaches the threshold by rounding is not above it', async () => {
  for (const end of [true, false]) {
    expect(await denseMetrics([times(1000, 0.0005), times(100, 0.005)], end)).toMatchObject({
      'group/all_right_ratio': 0,
      'group/all_wrong_ratio': 1,
    });
  }
});

test('right and wrong are told by the scores, spread by the rewards', async () => {
  const rows = [rowOf([0.9], [1]), rowOf([0.8], [1]), rowOf([-0.1], [0.3]), rowOf([-0.1], [0.2])];
  const groups = ['a', 'a', 'b', 'b'];
  const ratios = {
    'group/zero_std_ratio': 0.5,
    'group/all_right_ratio': 0.5,
    'group/all_wrong_ratio': 0.5,
  };
  expect(await metricsOf(rows, groups)).toMatchObject(ratios);
  expect(await metricsOf(rows, groups, { rightAbove: 0.25 })).toMatchObject({
    ...ratios,
    'group/all_wrong_ratio': 0,
  });
});

test('a reward that is NaN makes every share NaN: whether it is right or wrong is not known', async () => {
  const rows = [rowOf([NaN]), rowOf([0]), rowOf([1]), rowOf([1])];
  expect(await metricsOf(rows, ['a', 'a', 'b', 'b'])).toMatchObject({
    'group/reward_mean/mean': NaN,
    'group/reward_std/mean': NaN,
    'group/zero_std_ratio': NaN,
    'group/all_right_ratio': NaN,
    'group/all_wrong_ratio': NaN,
  });
});

describe('a batch of no rows that count', () => {
  test('has no groups', async () => {
    const metrics = await metricsOf([rowOf([])], ['a']);
    const { 'group/count': count, 'group/singleton_count': alone, ...others } = metrics;
    expect([count, alone]).toEqual([0, 0]);
    expect(Object.values(others).every(Number.isNaN)).toBe(true);
  });
});

test('without an attention mask the tokens of the response mask count', async () => {
  const rows = [{ ...rowOf([5, 1]), response_mask: [0, 1] }, rowOf([3])];
  const metrics = await resultOf((batch) => computeGroupMetrics(batch, [1, 1]), rows, {
    without: ['attention_mask'],
  });
  expect(metrics['group/reward_mean/mean']).toBe(2);
});

describe('group metrics refuse', () => {
  const rows = [rowOf([1]), rowOf([0])];

  test('ids of another batch', async () => {
    await expect(metricsOf(rows, ['a'])).rejects.toThrow(ShapeError);
  });

  test('an id that equals nothing', async () => {
    await expect(metricsOf(rows, [1, NaN])).rejects.toThrow(DtypeError);
  });

  test.each(['token_level_rewards', 'token_level_scores'] as const)('a batch without %s', async (name) => {
    const refusal = expect(
      resultOf((batch) => computeGroupMetrics(batch, ['a', 'a']), rows, { without: [name] }),
    ).rejects;
    await refusal.toThrow(MissingInputError);
    await refusal.toThrow(name);
  });

  test('a batch without any mask', async () => {
    const without = ['attention_mask', 'response_mask'] as const;
    const refused = resultOf((batch) => computeGroupMetrics(batch, ['a', 'a']), rows, { without });
    await expect(refused).rejects.toThrow('response_mask');
  });
});
