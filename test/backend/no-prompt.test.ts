/** Masks over whole sequences where response masks are expected: their prompts would be counted as response. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, expect, test, vi } from 'vitest';

import {
  type RolloutBatch,
  batchFromVerl,
  computeDataMetrics,
  computeStepMetrics,
  computeTimingMetrics,
} from '../../src/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';

await testBackend();

afterEach(() => {
  vi.restoreAllMocks();
});

function batchOf(responseMask: number[][], attentionMask: number[][]): RolloutBatch {
  const response_mask = tf.tensor2d(responseMask, undefined, 'bool');
  const x = tf.ones(response_mask.shape);
  return batchFromVerl({
    response_mask,
    attention_mask: tf.tensor2d(attentionMask, undefined, 'bool'),
    ...{ token_level_scores: x, token_level_rewards: x, advantages: x },
  });
}

test('a response mask that begins behind prompts without prompt columns is warned of once, by the first that counts', async () => {
  const warnings: string[] = [];
  vi.spyOn(process, 'emitWarning').mockImplementation((warning: string | Error) => {
    warnings.push(String(warning));
  });
  await expectNoLeaks(async () => {
    const [ones, padding] = [
      [1, 1, 1, 1],
      [1, 1, 1, 0],
    ];
    const harmless = [
      batchOf([ones, padding], [ones, padding]),
      batchOf([[1, 0, 0, 1]], [ones]), // tool output
      batchOf([[0, 0, 0, 0]], [[0, 0, 0, 0]]), // nothing
      batchOf([[0, 1]], [[1, 1, 1, 1]]), // prompt columns
    ];
    for (const batch of harmless) await computeDataMetrics(batch, { useCritic: false });
    expect(warnings).toEqual([]);

    const whole = batchOf([padding, [0, 0, 1, 1]], [padding, ones]);
    const metrics = await computeDataMetrics(whole, { useCritic: false });
    expect(metrics['response_length/mean']).toBe(3.5);
    expect(warnings).toEqual([expect.stringMatching(/batchFromAreal/)]);
    await computeTimingMetrics(whole, { gen: 1 });
    await computeStepMetrics(whole, { families: ['data'], onSkipped: () => undefined });
    expect(warnings).toHaveLength(1);
    const made = [...harmless, whole].flatMap((batch) => Object.values(batch) as unknown[]);
    tf.dispose(made.filter((part): part is tf.Tensor => part instanceof tf.Tensor));
  });
});
