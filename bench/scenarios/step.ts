/** `step`: the metrics of a training step that verl's driver computes, through `computeStepMetrics`. */
import * as tf from '@tensorflow/tfjs-core';
import { batchFromVerl, computeStepMetrics } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { dataNumbers } from '../data-numbers.js';
import { deviceBytes, onDevice } from '../inputs.js';
import { offPolicy } from '../off-policy.js';
import { hostTensors } from '../peers/torch.js';
import { type RolloutShape, rollout, rolloutShapes, rolloutTensors } from '../rollout.js';
import { FLOAT32_PEER, OURS, type Scenario, type Work } from '../scenario.js';
import {
  type Correction,
  type Definition,
  RECOMMENDED,
  VERL,
  correctionNumbers,
  timeNumbers,
  varianceProxyNumbers,
} from '../step-numbers.js';
import { rolloutSizes } from './data.js';

/** Seconds of a step's stages, as a trainer's timers have them. */
const TIMINGS = {
  gen: 41.5,
  ref: 6.25,
  values: 5.5,
  adv: 0.5,
  update_critic: 12,
  update_actor: 24,
  step: 93,
};
const GPUS = 8;
const GRADIENT_NORM = 0.5;
const CORRECTION: Correction = { upper: 2, kept: [0.5, 2] };

export const step: Scenario = {
  name: 'step',
  describe:
    'Metrics of a step in one read-back: data, timing, throughput, variance proxy, rollout correction',
  sizes: rolloutSizes(prepare),
};

function prepare(shape: RolloutShape): Work {
  const host = { ...rollout(shape, 4), ...offPolicy(shape, 6) };
  const { old_log_probs, rollout_log_probs, sum_pi_squared } = host;
  const tokens = [shape.rows, shape.responseWidth] as const;
  const tensors = {
    ...rolloutTensors(host, shape),
    old_log_probs: onDevice(old_log_probs, tokens),
    rollout_log_probs: onDevice(rollout_log_probs, tokens),
    sum_pi_squared: onDevice(sum_pi_squared, tokens),
  };
  const batch = batchFromVerl(tensors);
  const ours = (): Promise<Numbers> =>
    computeStepMetrics(batch, {
      families: ['data', 'timing', 'throughput', 'varianceProxy', 'rolloutCorrection'],
      timing: TIMINGS,
      nGpus: GPUS,
      gradientNorm: GRADIENT_NORM,
      // The peers compute all families over the same tokens, in one pass as well.
      population: 'all',
      rolloutCorrection: {
        rolloutIs: 'token',
        rolloutIsThreshold: CORRECTION.upper,
        rolloutRs: 'token_k1',
        rolloutRsThreshold: CORRECTION.kept.join('_'),
      },
    });
  const expectedOf = (definition: Definition): Numbers => ({
    ...dataNumbers(host, shape),
    ...timeNumbers(host, shape, TIMINGS, GPUS),
    ...varianceProxyNumbers(host, shape, GRADIENT_NORM, definition),
    ...correctionNumbers(host, shape, CORRECTION, definition),
  });
  const shapes = {
    ...rolloutShapes(shape),
    old_log_probs: tokens,
    rollout_log_probs: tokens,
    sum_pi_squared: tokens,
  };
  return {
    inputBytes: deviceBytes(Object.values(tensors)),
    ways: { ours: { run: ours, numbers: ours, expected: expectedOf(RECOMMENDED), closeness: OURS } },
    torch: {
      task: 'step',
      tensors: hostTensors(host, shapes),
      parameters: {
        timings: TIMINGS,
        gpus: GPUS,
        gradient_norm: GRADIENT_NORM,
        weight_bound: CORRECTION.upper,
        kept_ratios: CORRECTION.kept,
      },
      expected: expectedOf(VERL),
      closeness: FLOAT32_PEER,
    },
    dispose: () => {
      tf.dispose(Object.values(tensors));
    },
  };
}
