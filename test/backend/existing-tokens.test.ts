/** Scores and rewards belong to tokens that exist, which masks and length columns both tell, on every backend. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { expect, test } from 'vitest';

import {
  type Metrics,
  StepState,
  batchFromVerl,
  computeDataMetrics,
  computeGroupMetrics,
  computeStepMetrics,
  computeStepState,
} from '../../src/metrics/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();
const T = 4;

interface Row {
  /** Of the response part; undefined for a batch without attention mask. */
  readonly attended?: readonly number[];
  readonly written: readonly number[];
  readonly scores: readonly number[];
  readonly length: number;
}

type Column = 'array' | 'float32' | 'int32' | 'none';

interface Found {
  readonly data: Metrics;
  readonly groups: Metrics;
  readonly step: Metrics;
  readonly merged: Metrics;
}

async function metricsOf(
  rows: readonly Row[],
  column: Column = 'array',
  dtype: 'bool' | 'float32' = 'bool',
): Promise<Found> {
  const shape = [rows.length, T];
  const grid = (of: (row: Row) => readonly number[], type: 'bool' | 'float32' = 'float32'): tf.Tensor =>
    deviceTensor({ shape, dtype: type, values: rows.flatMap((row) => of(row)) });
  const lengths = rows.map(({ length }) => length);
  const prompts = rows.map(() => 1);
  const onDevice = column === 'float32' || column === 'int32';
  const tensors = {
    ...(rows.every(({ attended }) => attended !== undefined) && {
      attention_mask: deviceTensor({
        shape: [rows.length, 2 + T],
        dtype,
        values: rows.flatMap(({ attended }) => [0, 1, ...attended!]),
      }),
    }),
    response_mask: grid(({ written }) => written, dtype),
    token_level_scores: grid(({ scores }) => scores),
    token_level_rewards: grid(({ scores }) => scores.map((x) => 2 * x)),
    advantages: grid(({ scores }) => scores.map(() => 1)),
    returns: grid(({ scores }) => scores.map(() => 1)),
    ...(onDevice && {
      response_length: deviceTensor({ shape: [rows.length], dtype: column, values: lengths }),
      prompt_length: deviceTensor({ shape: [rows.length], dtype: column, values: prompts }),
    }),
  };
  const lists = column === 'array' ? { response_length: lengths, prompt_length: prompts } : {};
  const batch = batchFromVerl(tensors, lists);
  const ids = rows.map((_, row) => row);
  const options = { useCritic: false, groups: ids };
  const computed = Promise.all([
    computeDataMetrics(batch, { useCritic: false }),
    computeGroupMetrics(batch, ids),
    computeStepMetrics(batch, options),
    computeStepState(batch, options).then((state) => StepState.fromBytes(state.toBytes()).metrics()),
  ]);
  tf.dispose(tensors);
  const [data, groups, step, merged] = await computed;
  return { data, groups, step, merged };
}

/** The mean score of the rows that a response came from, the same whoever is asked. */
async function meanScore(...args: Parameters<typeof metricsOf>): Promise<number> {
  const { data, groups, step, merged } = await metricsOf(...args);
  const mean = data['critic/score/mean']!;
  expect(groups['group/reward_mean/mean']).toBeCloseToReference(2 * mean, { rel: 1e-6 });
  for (const all of [step, merged]) {
    expect(all['critic/score/mean']).toBe(mean);
    expect(all['critic/rewards/mean']).toBe(data['critic/rewards/mean']);
    expect(all['group/reward_mean/mean']).toBe(groups['group/reward_mean/mean']);
  }
  return mean;
}

const REJECTED: Row = { attended: [0, 0, 0, 0], written: [0, 0, 0, 0], scores: [0, 0, 1, NaN], length: 3 };
const HEALTHY: Row = { attended: [1, 1, 0, 0], written: [1, 1, 0, 0], scores: [0, 1, NaN, NaN], length: 2 };

test.each<Column>(['array', 'float32', 'int32'])(
  'a row keeps the score that its mask lost: %s',
  async (column) => {
    expect(await meanScore([REJECTED, HEALTHY], column)).toBe(1);
    expect(await meanScore([REJECTED, HEALTHY], column, 'float32')).toBe(1);
  },
);

test('without attention mask the length counts, not the part of it that is trained on', async () => {
  expect(await meanScore([{ written: [1, 0, 0, 0], scores: [0, 0, 1, NaN], length: 3 }])).toBe(1);
});

test('a length that leaves out tool output loses no score behind it', async () => {
  const tool: Row = { attended: [1, 1, 1, 1], written: [1, 0, 0, 1], scores: [0, 0, 0, 1], length: 2 };
  expect(await meanScore([tool])).toBe(1);
  expect(await meanScore([{ written: tool.written, scores: tool.scores, length: 2 }])).toBe(1);
});

test('a row of length 0 is in no mean and no group, whatever its mask says', async () => {
  const aborted: Row = { ...HEALTHY, length: 0, scores: [NaN, 5, 5, 5] };
  const { data, groups } = await metricsOf([aborted, HEALTHY]);
  expect(data['critic/score/mean']).toBe(1);
  expect(groups['group/count']).toBe(1);
  const none = await metricsOf([aborted]);
  expect(none.data['critic/score/mean']).toBeNaN();
  expect(none.groups['group/count']).toBe(0);
});

test('without a column the attention mask alone tells', async () => {
  expect(await meanScore([HEALTHY, { ...HEALTHY, scores: [3, 0, NaN, NaN] }], 'none')).toBe(2);
});

test('any masks and lengths: a token exists if one of them knows it, in a row of any length', async () => {
  const bits = fc.array(fc.constantFrom(0, 1), { minLength: T, maxLength: T });
  const scores = fc.array(fc.integer({ min: -8, max: 8 }), { minLength: T, maxLength: T });
  const row = fc.record({ attended: bits, written: bits, scores, length: fc.nat(T) });
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 4 }), async (rows) => {
      const produced = rows.filter(({ length }) => length > 0);
      const sums = produced.map(({ attended, scores: own, length }) =>
        own.reduce((sum, x, t) => (attended[t] === 1 || t < length ? sum + x : sum), 0),
      );
      const expected = sums.reduce((a, b) => a + b, 0) / sums.length;
      const found = await metricsOf(rows);
      expect(found.data['critic/score/mean']).toBeCloseToReference(expected, { rel: 1e-6, abs: 1e-6 });
      expect(found.groups['group/reward_mean/mean']).toBeCloseToReference(2 * expected, {
        rel: 1e-6,
        abs: 1e-6,
      });
      expect(found.groups['group/count']).toBe(produced.length);
    }),
    { numRuns: hasDevice() ? 5 : 30 },
  );
});

test('it costs no read-back and leaves nothing behind', async () => {
  await expectNoLeaks(async () => {
    const reads = await countReadBacks(backend, () => metricsOf([REJECTED, HEALTHY]));
    // One for each of the four calls.
    if (hasDevice()) expect(reads).toBe(4);
  });
});
