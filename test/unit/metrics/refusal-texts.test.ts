/** What refusals of options say: how many values fit, and which name is meant. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';
import {
  batchFromVerl,
  computeRolloutCorrection,
  computeStepMetrics,
  initBackend,
} from '../../../src/index.js';
import { columns } from '../arguments/batch.js';

await initBackend('cpu');

const batch = batchFromVerl({
  ...columns(),
  old_log_probs: tf.zeros([2, 2]),
  rollout_log_probs: tf.zeros([2, 2]),
});

test('one rejection takes one threshold', async () => {
  const options = { rolloutRs: 'token_k1', rolloutRsThreshold: '0.5_2,0.1' };
  await expect(computeRolloutCorrection(batch, options)).rejects.toThrow(
    /options\.rolloutRsThreshold: expected one threshold, for token_k1, got the text '0\.5_2,0\.1'/,
  );
});

test('two rejections take one threshold or two', async () => {
  const options = { rolloutRs: 'token_k1,token_k2', rolloutRsThreshold: '2,2,2' };
  await expect(computeRolloutCorrection(batch, options)).rejects.toThrow(
    /expected one threshold, or 2 separated by commas, one for each of token_k1, token_k2, got/,
  );
});

test('a misspelt family is told with the one that is meant', async () => {
  const families = ['data', 'rolloutCorection'] as never;
  await expect(computeStepMetrics(batch, { families })).rejects.toThrow(
    /options\.families: .*got the text 'rolloutCorection'.*did you mean rolloutCorrection\?/,
  );
});
