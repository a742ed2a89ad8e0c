/** Laws of the rollout correction on every backend: what must not matter, and what a call costs and leaves. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { initBackend } from '../../src/kernels/index.js';
import { commonBackend } from '../../src/kernels/residency.js';
import {
  type Metrics,
  type RolloutCorrection,
  batchFromVerl,
  computeRolloutCorrection,
  rejectionNames,
} from '../../src/metrics/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor, hostTensor } from '../support/tensors.js';
import { ALL, type Computed, type Row, T, correct, read, rows, sum } from '../support/rollout-corrections.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

function expectSameMetrics(actual: Metrics, expected: Metrics): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, { rel: 1e-5, abs: 1e-6 });
  }
}

const LEVELS = [ALL, { ...ALL, rolloutIs: 'sequence', batchNormalize: true }] as const;

describe.each(LEVELS)('with weights per $rolloutIs, nothing depends on', (options) => {
  test('what is outside the mask', async () => {
    const clean = await correct(rows(), options);
    for (const garbage of [NaN, Infinity, -1e30]) {
      const dirty = await correct(rows(), options, { garbage });
      expectSameMetrics(dirty.metrics, clean.metrics);
      expect(dirty.weights).toEqual(clean.weights);
      expect(dirty.mask).toEqual(clean.mask);
    }
  });

  test('how wide the padding is', async () => {
    const narrow = await correct(rows(), options);
    const wide = await correct(rows(), options, { width: T + 4, garbage: NaN });
    expectSameMetrics(wide.metrics, narrow.metrics);
    const padded = (row: readonly number[]): number[] => [...row, 0, 0, 0, 0];
    expect(wide.mask).toEqual(narrow.mask.map(padded));
    const expected = narrow.weights!.map(padded).flat();
    expect(wide.weights!.flat()).toBeCloseToReference(expected, { rel: 1e-6, abs: 0 });
  });

  test('the order of the rows', async () => {
    const straight = await correct(rows(), options);
    const reversed = await correct(rows().reverse(), options);
    expectSameMetrics(reversed.metrics, straight.metrics);
    expect([...reversed.mask].reverse()).toEqual(straight.mask);
    const weights = [...reversed.weights!].reverse().flat();
    expect(weights).toBeCloseToReference(straight.weights!.flat(), { rel: 1e-6, abs: 0 });
  });

  test('the dtype of the mask', async () => {
    const expected = await correct(rows(), options);
    for (const dtype of ['bool', 'float32'] as const) {
      expect(await correct(rows(), options, { dtype })).toEqual(expected);
    }
  });
});

test('micro-batches: tokens are weighted as in the whole, and get the same weights and mask', async () => {
  const whole = await correct(rows());
  const parts = [await correct(rows().slice(0, 3)), await correct(rows().slice(3))];
  const tokens = [rows().slice(0, 3), rows().slice(3)].map((part) => sum(part.flatMap(({ mask }) => mask)));
  const ofTokens = ['kl', 'k3_kl', 'chi2_token', 'rollout_is_mean', 'rollout_is_ratio_fraction_high'];
  for (const key of [...ofTokens, 'rollout_rs_masked_fraction', 'rollout_rs_token_k3_mean']) {
    const pooled =
      sum(parts.map(({ metrics }, i) => metrics[`rollout_corr/${key}`]! * tokens[i]!)) / sum(tokens);
    expect(whole.metrics[`rollout_corr/${key}`], key).toBeCloseToReference(pooled, { rel: 1e-5, abs: 1e-6 });
  }
  expect(parts.flatMap(({ mask }) => mask)).toEqual(whole.mask);
  expect(parts.flatMap(({ weights }) => weights!)).toEqual(whole.weights);
});

describe('tensors agree with metrics:', () => {
  const selected = (computed: Computed): number[] => {
    const mask = rows().flatMap((row) => row.mask);
    return computed.weights!.flat().filter((_, i) => mask[i] === 1);
  };
  const mean = (values: readonly number[]): number => sum(values) / values.length;

  test.each(['token', 'sequence'] as const)('mean of the weights, per %s', async (rolloutIs) => {
    for (const rolloutIsThreshold of [1.5, '0.6_2.5']) {
      const computed = await correct(rows(), { rolloutIs, rolloutIsThreshold });
      const expected = mean(selected(computed));
      expect(computed.metrics['rollout_corr/rollout_is_mean']).toBeCloseToReference(expected, {
        rel: 1e-5,
        abs: 0,
      });
    }
  });

  test('normalised token weights have mean 1', async () => {
    const computed = await correct(rows(), { rolloutIs: 'token', batchNormalize: true });
    expect(mean(selected(computed))).toBeCloseToReference(1, { rel: 1e-6, abs: 0 });
  });

  test('normalised sequence weights have mean 1 over the rows that have one', async () => {
    const computed = await correct(rows(), { rolloutIs: 'sequence', batchNormalize: true });
    const ofRows = computed.weights!.map((row) => Math.max(...row)).filter((weight) => weight > 0);
    expect(ofRows).toHaveLength(6);
    expect(mean(ofRows)).toBeCloseToReference(1, { rel: 1e-6, abs: 0 });
  });

  test('share of rejected tokens, by all criteria there are', async () => {
    const rolloutRs = rejectionNames.join();
    const { metrics, mask } = await correct(rows(), { ...ALL, rolloutRs, rolloutRsThreshold: '3' });
    const before = sum(rows().flatMap((row) => row.mask));
    const fraction = 1 - sum(mask.flat()) / before;
    expect(fraction).toBeGreaterThan(0.2);
    expect(fraction).toBeLessThan(1);
    expect(metrics['rollout_corr/rollout_rs_masked_fraction']).toBeCloseToReference(fraction, {
      rel: 0,
      abs: 1e-12,
    });
    const lost = rows().filter((row, i) => sum(row.mask) > sum(mask[i]!)).length;
    expect(metrics['rollout_corr/rollout_rs_seq_masked_fraction']).toBe(lost / 6);
  });
});

describe('reports of the field that cannot recur:', () => {
  const oneRow = (ratios: readonly number[]): Row => ({
    old: ratios.map(Math.log),
    rollout: ratios.map(() => 0),
    mask: ratios.map(() => 1),
  });

  test('rows with a large mean weight are counted although weights are truncated', async () => {
    const batch = [oneRow([1, 6]), oneRow([0.9, 1.1])];
    const { metrics } = await correct(batch, { rolloutIs: 'token', rolloutIsThreshold: 2 }, { width: 2 });
    expect(metrics['rollout_corr/rollout_is_seq_fraction_high']).toBe(0.5);
  });

  test('the effective sample size of equal weights is 1, however small they are', async () => {
    const { metrics } = await correct([oneRow([3e-9, 3e-9])], { rolloutIs: 'token' }, { width: 2 });
    expect(metrics['rollout_corr/rollout_is_eff_sample_size']).toBeCloseToReference(1, { rel: 1e-6, abs: 0 });
  });

  test('one token with a vanishing probability leaves k3 finite', async () => {
    const batch = [{ old: [-1, -1], rollout: [-200, -1], mask: [1, 1] }];
    const { metrics } = await correct(batch, {}, { width: 2 });
    const expected = (Math.expm1(20) - 20) / 2;
    expect(metrics['rollout_corr/k3_kl']).toBeCloseToReference(expected, { rel: 1e-5, abs: 0 });
  });
});

describe('a call', () => {
  test('reads the device once', async () => {
    const { batch, dispose } = wholeBatch();
    const held: RolloutCorrection[] = [];
    const options = { ...ALL, batchNormalize: true };
    const reads = await countReadBacks(backend, async () => {
      held.push(await computeRolloutCorrection(batch, options));
    });
    if (hasDevice()) expect(reads).toBe(1);
    // Without a device of its own a backend's memory is the host's; reading it is how a kernel sees its inputs.
    else expect(held).toHaveLength(1);
    await read(held[0]!);
    dispose();
  });

  test('leaves nothing behind but what it returns', async () => {
    await expectNoLeaks(() => correct(rows(), { ...ALL, batchNormalize: true }));
    await expectNoLeaks(() => correct(rows(), {}));
  });

  test('returns a mask of its own', async () => {
    const { batch, dispose } = wholeBatch();
    const { responseMask } = await computeRolloutCorrection(batch);
    responseMask.dispose();
    expect(batch.responseMask!.isDisposed).toBe(false);
    dispose();
  });

  test('works where the batch is, and leaves the active backend alone', async () => {
    const expected = await correct(rows());
    const { batch, dispose } = wholeBatch();
    const elsewhere = backend === 'cpu' ? 'wasm' : 'cpu';
    await initBackend(elsewhere);
    const computed = await computeRolloutCorrection(batch, ALL);
    expect(tf.getBackend()).toBe(elsewhere);
    const { isWeights, responseMask } = computed;
    for (const tensor of [isWeights!, responseMask]) {
      expect(commonBackend('test', [{ name: 'made', tensor }]).name).toBe(backend);
    }
    await initBackend(backend);
    expect(await read(computed)).toEqual(expected);
    dispose();
  });

  test('that is refused half way leaves nothing behind', async () => {
    const { batch, dispose } = wholeBatch();
    const elsewhere = backend === 'cpu' ? 'wasm' : 'cpu';
    await initBackend(elsewhere);
    const stranger = tf.ones(batch.responseMask!.shape);
    await initBackend(backend);
    await expectNoLeaks(async () => {
      const computing = computeRolloutCorrection({ ...batch, rolloutLogProbs: stranger }, ALL);
      await expect(computing).rejects.toThrow(BackendError);
    });
    stranger.dispose();
    dispose();
  });

  test.each([
    [0, 3],
    [2, 0],
  ])('on a batch of %d rows and %d columns gives undefined metrics and empty tensors', async (B, width) => {
    const empty = (): tf.Tensor => tf.zeros([B, width]);
    const tensors = { old_log_probs: empty(), rollout_log_probs: empty(), response_mask: empty() };
    const { metrics, isWeights, responseMask } = await computeRolloutCorrection(batchFromVerl(tensors), ALL);
    expect(new Set(Object.values(metrics))).toEqual(new Set([NaN]));
    expect(isWeights!.shape).toEqual([B, width]);
    expect(responseMask.shape).toEqual([B, width]);
    tf.dispose([isWeights!, responseMask, ...Object.values(tensors)]);
  });
});

function wholeBatch(): { batch: ReturnType<typeof batchFromVerl>; dispose: () => void } {
  const shape = [rows().length, T];
  const tensors = {
    old_log_probs: deviceTensor({ shape, values: rows().flatMap(({ old }) => old) }),
    rollout_log_probs: deviceTensor({ shape, values: rows().flatMap(({ rollout }) => rollout) }),
    response_mask: hostTensor({ shape, dtype: 'int32', values: rows().flatMap(({ mask }) => mask) }),
  };
  return {
    batch: batchFromVerl(tensors),
    dispose: () => {
      tf.dispose(tensors);
    },
  };
}
