/** Rollout corrections of one step a row: `[N]` tensors, with and without a mask. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  type Metrics,
  type RolloutBatch,
  type RolloutCorrectionOptions,
  batchFromVerl,
  computeRolloutCorrection,
  computeStepMetrics,
  correctedStep,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const N = 5;
const OLD = [-1, -2, -1, -0.5, -3];
/** The second is far off, the third undefined. */
const ROLLOUT = [-1.1, -4, NaN, -0.4, -2.9];
const MASK = [1, 1, 1, 1, 0];

type Width = 'flat' | 'column' | 'mixed' | 'padded';

function batchOf(width: Width, mask: readonly number[] | undefined): RolloutBatch {
  const tensor = (values: readonly number[], isFlat: boolean): tf.Tensor => {
    if (width === 'padded') {
      return deviceTensor({ shape: [N, 2], values: values.flatMap((value) => [value, 0]) });
    }
    return deviceTensor({ shape: isFlat ? [N] : [N, 1], values });
  };
  const isFlat = width === 'flat';
  return batchFromVerl({
    old_log_probs: tensor(OLD, isFlat),
    rollout_log_probs: tensor(ROLLOUT, width !== 'column'),
    advantages: tensor([1, 2, 3, 4, 5], isFlat),
    token_level_scores: tensor([1, 0, 1, 0, 1], isFlat),
    token_level_rewards: tensor([1, 0, 1, 0, 1], isFlat),
    ...(mask && { response_mask: tensor(mask, width !== 'column') }),
  });
}

function disposeBatch(batch: RolloutBatch): void {
  tf.dispose(Object.values(batch as object).filter((part) => part instanceof tf.Tensor));
}

const CASES: readonly RolloutCorrectionOptions[] = [
  { rolloutIs: 'token', rolloutRs: 'seq_mean_k2', rolloutRsThreshold: 1, batchNormalize: true },
  { rolloutIs: 'sequence', rolloutRs: 'seq_sum_k1', rolloutRsThreshold: '0.2_5' },
  { rolloutIs: 'token', rolloutIsThreshold: '0.5_5', rolloutRs: 'token_k3', rolloutRsThreshold: 0.5 },
];
const onSkipped = (): void => undefined;

async function numbers(tensor: tf.Tensor | undefined): Promise<number[]> {
  return Array.from(await tensor!.data());
}

function expectSame(found: Metrics, expected: Metrics): void {
  expect(Object.keys(found).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(found[key], key).toBeCloseToReference(value, { rel: 1e-5, abs: 1e-6 });
  }
}

describe.each([
  ['with a mask', MASK],
  ['without a mask', undefined],
] as const)('%s', (_name, mask) => {
  test.each(CASES)('[N], [N, 1] and both are the rows of [N, T] ($rolloutRs)', async (options) => {
    await expectNoLeaks(async () => {
      const padded = batchOf('padded', mask ?? Array<number>(N).fill(1));
      const expected = await computeRolloutCorrection(padded, options);
      const firstOf = (all: number[]): number[] => all.filter((_value, i) => i % 2 === 0);
      for (const width of ['flat', 'column', 'mixed'] as const) {
        const steps = batchOf(width, mask);
        const { metrics, isWeights, responseMask } = await computeRolloutCorrection(steps, options);
        expectSame(metrics, expected.metrics);
        const shape = (mask === undefined ? steps.oldLogProbs : steps.responseMask)!.shape;
        expect([isWeights?.shape, responseMask.shape]).toEqual([shape, shape]);
        expect(await numbers(isWeights)).toBeCloseToReference(firstOf(await numbers(expected.isWeights)), {
          rel: 1e-6,
          abs: 0,
        });
        expect(await numbers(responseMask)).toEqual(firstOf(await numbers(expected.responseMask)));
        expect((await numbers(responseMask)).slice(0, 4)).toEqual([1, 0, 0, 1]);
        disposeBatch(steps);
        tf.dispose([isWeights!, responseMask]);
      }
      disposeBatch(padded);
      tf.dispose([expected.isWeights!, expected.responseMask]);
    });
  });

  test.each(CASES)('the metrics of the step are over the steps that $rolloutRs leaves', async (options) => {
    await expectNoLeaks(async () => {
      for (const width of ['flat', 'column', 'mixed'] as const) {
        const batch = batchOf(width, mask);
        const asked = { rolloutCorrection: options, groups: [0, 0, 1, 1, 1], onSkipped };
        const { metrics, isWeights, responseMask } = await correctedStep(batch, asked);
        const left = mask === undefined ? [1, 4, 5] : [1, 4];
        const mean = left.reduce((sum, value) => sum + value, 0) / left.length;
        expect(metrics['critic/advantages/mean']).toBeCloseTo(mean, 6);
        // A rejected step was taken all the same.
        const scores = mask === undefined ? 3 / 5 : 2 / 4;
        expect(metrics['critic/score/mean']).toBeCloseTo(scores, 6);
        expect(metrics['group/size/mean']).toBe(mask === undefined ? 2.5 : 2);
        expectSame(metrics, await computeStepMetrics(batch, asked));
        disposeBatch(batch);
        tf.dispose([isWeights!, responseMask]);
      }
    });
  });
});
