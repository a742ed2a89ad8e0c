/** The public functions on the losses of an update. Not a test. */
import type * as tf from '@tensorflow/tfjs-core';
import {
  type KlPenalty,
  type PolicyMetricsOptions,
  type RolloutBatch,
  aggLoss,
  batchFromVerl,
  computeKlMetrics,
  computePolicyMetrics,
  klPenalty,
} from '../../../src/index.js';
import { tensor } from './batch.js';
import { type Parameter, type Rows, count, flag, number, options } from './row.js';

function update(): RolloutBatch {
  const names = ['response_mask', 'log_probs', 'old_log_probs', 'ref_log_prob', 'advantages'];
  return batchFromVerl(Object.fromEntries(names.map((name) => [name, tensor()])));
}

const matrix = (): Parameter => ({ fits: tensor(), takes: [] });
const operand: Parameter = { fits: 'a', takes: ['text', 'number'] };
const chosen = (fits: string): Parameter => ({ fits, takes: ['undefined'] });
/** A bound that null switches off. */
const switchable: Parameter = { ...count, takes: [...count.takes, 'null'] };
const batch = (): Parameter => ({ fits: update(), takes: [] });

export const policyCalls: Rows = {
  aggLoss: () => ({ parameters: [matrix(), matrix(), options()], isAsync: true, call: aggLoss }),
  'aggLoss{option}': () => ({
    // Several ranks need the tokens of all.
    parameters: [chosen('token-mean'), count, count, number(9), count, chosen('recommended')],
    isAsync: true,
    call: (...[lossAggMode, lossScaleFactor, dpSize, batchNumTokens, globalBatchSize, semantics]: never[]) =>
      aggLoss(tensor(), tensor(), {
        lossAggMode,
        lossScaleFactor,
        dpSize,
        batchNumTokens,
        globalBatchSize,
        semantics,
      }),
  }),
  'aggLoss{batchNumTokens}': () => ({
    parameters: [count],
    isAsync: true,
    call: (batchNumTokens: number) => aggLoss(tensor(), tensor(), { batchNumTokens }),
  }),
  klPenalty: () => ({
    parameters: [operand, operand, chosen('k3')],
    call: klPenalty,
  }),
  computeKlMetrics: () => ({ parameters: [batch(), options()], isAsync: true, call: computeKlMetrics }),
  'computeKlMetrics{semantics}': () => ({
    parameters: [chosen('recommended')],
    isAsync: true,
    call: (semantics: 'recommended') => computeKlMetrics(update(), { semantics }),
  }),
  computePolicyMetrics: () => ({
    parameters: [batch(), options()],
    isAsync: true,
    call: computePolicyMetrics,
  }),
  'computePolicyMetrics{option}': () => ({
    parameters: [count, count, count, switchable, switchable, chosen('k3'), flag, chosen('k1')],
    isAsync: true,
    call: (
      clipRatio: number,
      clipRatioLow: number,
      clipRatioHigh: number,
      clipRatioC: number,
      cliprangeValue: number,
      klLossType: KlPenalty,
      useKlInReward: boolean,
      kind: KlPenalty,
    ) => {
      const ranges = { clipRatio, clipRatioLow, clipRatioHigh, clipRatioC, cliprangeValue };
      const kl: PolicyMetricsOptions = { klLossType, useKlInReward, klPenalty: kind };
      return computePolicyMetrics(update(), { ...ranges, ...kl });
    },
  }),
  'computePolicyMetrics{batch}': () => ({
    parameters: [{ fits: tensor(), takes: ['undefined'] }],
    isAsync: true,
    call: (entropys: tf.Tensor) => computePolicyMetrics({ ...update(), entropys }),
  }),
};
