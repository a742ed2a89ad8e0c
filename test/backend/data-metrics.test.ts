/** Laws of the data metrics on every backend: what must not matter, and what a step costs. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { initBackend } from '../../src/kernels/index.js';
import { type Metrics, batchFromVerl, computeDataMetrics } from '../../src/metrics/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { seeded } from '../support/random.js';
import { deviceTensor, hostTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

const B = 6;
const P = 3;
const T = 9;
const TOKEN_FIELDS = [
  'token_level_scores',
  'token_level_rewards',
  'advantages',
  'returns',
  'values',
] as const;

type Row = Readonly<Record<(typeof TOKEN_FIELDS)[number] | 'prompt' | 'response_mask', readonly number[]>> & {
  readonly length: number;
};

/** Rows of different lengths, one of them aborted. */
function rows(): Row[] {
  const random = seeded(7);
  return Array.from({ length: B }, (_, i) => {
    const length = i === 2 ? 0 : 1 + Math.floor(random() * T);
    const numbers = () =>
      Array.from({ length: T }, (_x, t) => (t < length ? Math.fround(random() * 4 - 2) : 0));
    const prompt = 1 + Math.floor(random() * P);
    return {
      length,
      prompt: Array.from({ length: P }, (_x, t) => (t >= P - prompt ? 1 : 0)),
      response_mask: Array.from({ length: T }, (_x, t) => (t < length ? 1 : 0)),
      token_level_scores: numbers(),
      token_level_rewards: numbers(),
      advantages: numbers(),
      returns: numbers(),
      values: numbers(),
    };
  });
}

async function metricsOf(batch: readonly Row[], width = T, padding = 0): Promise<Metrics> {
  const pad = (xs: readonly number[], fill: number) => [...xs, ...Array<number>(width - T).fill(fill)];
  const field = (name: (typeof TOKEN_FIELDS)[number]) =>
    hostTensor({
      shape: [batch.length, width],
      values: batch.flatMap((row) =>
        pad(
          row[name].map((x, t) => (t < row.length ? x : padding)),
          padding,
        ),
      ),
    });
  const tensors = {
    attention_mask: hostTensor({
      shape: [batch.length, P + width],
      dtype: 'int32',
      values: batch.flatMap(({ prompt, response_mask }) => [...prompt, ...pad(response_mask, 0)]),
    }),
    response_mask: hostTensor({
      shape: [batch.length, width],
      dtype: 'bool',
      values: batch.flatMap(({ response_mask }) => pad(response_mask, 0)),
    }),
    ...Object.fromEntries(TOKEN_FIELDS.map((name) => [name, field(name)])),
  };
  const metrics = computeDataMetrics(batchFromVerl(tensors), { maxResponseLength: T });
  tf.dispose(tensors);
  return metrics;
}

function expectSame(actual: Metrics, expected: Metrics): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, { rel: 1e-5, abs: 1e-6 });
  }
}

describe('data metrics do not depend on', () => {
  test('what the padding holds', async () => {
    const clean = await metricsOf(rows());
    for (const garbage of [NaN, Infinity, -1e30]) expectSame(await metricsOf(rows(), T, garbage), clean);
  });

  test('how wide the padding is', async () => {
    expectSame(await metricsOf(rows(), T + 5, NaN), await metricsOf(rows()));
  });

  test('the order of the rows', async () => {
    expectSame(await metricsOf(rows().reverse()), await metricsOf(rows()));
  });
});

describe('a batch of one long row', () => {
  test.each([
    [100, 100],
    [128, 128],
    [64, 256],
    [200, 1000],
  ])('of %d prompt and %d response columns has the lengths of its mask', async (prompt, response) => {
    const [promptTokens, responseTokens] = [prompt - 30, response - 17];
    const values = Array.from({ length: prompt + response }, (_, i) =>
      i >= 30 && i < prompt + responseTokens ? 1 : 0,
    );
    const attention_mask = hostTensor({ shape: [1, prompt + response], dtype: 'int32', values });
    const response_mask = hostTensor({ shape: [1, response], dtype: 'int32', values: values.slice(prompt) });
    const ones = tf.ones([1, response]);
    const tensors = { attention_mask, response_mask, token_level_scores: ones, token_level_rewards: ones };
    const batch = batchFromVerl({ ...tensors, advantages: ones, returns: ones });
    expect(await computeDataMetrics(batch, { useCritic: false })).toMatchObject({
      'prompt_length/mean': promptTokens,
      'response_length/mean': responseTokens,
      'critic/score/mean': responseTokens,
    });
    tf.dispose(tensors);
  });
});

describe('a call of computeDataMetrics', () => {
  test('reads the device once', async () => {
    const reads = await countReadBacks(backend, () => metricsOf(rows()));
    // On cpu and wasm the inputs are host memory: nothing is brought back, the kernels look at them where they are.
    if (hasDevice()) expect(reads).toBe(1);
  });

  test('leaves nothing behind', async () => {
    await expectNoLeaks(() => metricsOf(rows()));
  });

  test('that is refused half way leaves nothing behind either', async () => {
    const elsewhere = backend === 'cpu' ? 'wasm' : 'cpu';
    await initBackend(elsewhere);
    const stranger = tf.ones([2, 3]);
    await initBackend(backend);
    const grid = () => deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
    const mask = deviceTensor({ shape: [2, 3], dtype: 'bool', values: [1, 1, 0, 1, 1, 1] });
    const tensors = {
      token_level_scores: grid(),
      token_level_rewards: grid(),
      advantages: grid(),
      returns: grid(),
    };
    const batch = batchFromVerl({ attention_mask: mask, response_mask: mask, ...tensors, values: stranger });
    await expectNoLeaks(async () => {
      await expect(computeDataMetrics(batch)).rejects.toThrow(BackendError);
    });
    tf.dispose([mask, stranger, Object.values(tensors)]);
  });
});
