/** The rollout correction. Not a test. */
import type * as tf from '@tensorflow/tfjs-core';
import { batchFromVerl, computeRolloutCorrection, type RolloutBatch } from '../../../src/index.js';
import { columns, tensor } from './batch.js';
import { flag, options, type Parameter, type Rows } from './row.js';

function batch(): RolloutBatch {
  return batchFromVerl({ ...columns(), old_log_probs: tensor(), rollout_log_probs: tensor() });
}

const threshold = (fits: number | string): Parameter => ({ fits, takes: ['undefined', 'number'] });

export const correctionCalls: Rows = {
  computeRolloutCorrection: () => ({
    parameters: [{ fits: batch(), takes: [] }, options()],
    isAsync: true,
    call: computeRolloutCorrection,
  }),
  'computeRolloutCorrection{batch}': () => ({
    parameters: [
      { fits: tensor(), takes: [] },
      { fits: tensor(), takes: [] },
      { fits: tensor(), takes: [] },
    ],
    isAsync: true,
    call: (oldLogProbs: tf.Tensor, rolloutLogProbs: tf.Tensor, responseMask: tf.Tensor) =>
      computeRolloutCorrection({ ...batch(), oldLogProbs, rolloutLogProbs, responseMask }),
  }),
  'computeRolloutCorrection{weights}': () => ({
    parameters: [
      { fits: 'token', takes: ['undefined'] },
      threshold('0.5_2'),
      flag,
      { fits: 'recommended', takes: ['undefined'] },
    ],
    isAsync: true,
    call: (
      rolloutIs: 'token',
      rolloutIsThreshold: string,
      batchNormalize: boolean,
      semantics: 'recommended',
    ) => computeRolloutCorrection(batch(), { rolloutIs, rolloutIsThreshold, batchNormalize, semantics }),
  }),
  'computeRolloutCorrection{rejection}': () => ({
    parameters: [
      { fits: 'token_k1', takes: ['undefined'] },
      { fits: 2, takes: ['number'] },
    ],
    isAsync: true,
    call: (rolloutRs: string, rolloutRsThreshold: number) =>
      computeRolloutCorrection(batch(), { rolloutRs, rolloutRsThreshold }),
  }),
};
