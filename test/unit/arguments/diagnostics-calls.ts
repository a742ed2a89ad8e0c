/** The diagnostics of a step: variance proxies, debug metrics, groups, balance of sequence lengths. Not a test. */
import {
  ExplainedVariance,
  batchFromVerl,
  computeDebugMetrics,
  computeGroupMetrics,
  computeSequenceBalanceMetrics,
  computeVarianceProxyMetrics,
  groupMoments,
  varianceProxies,
  type RolloutBatch,
  type VarianceProxyOptions,
} from '../../../src/index.js';
import { columns, tensor } from './batch.js';
import { count, options, type Parameter, type Row, type Rows } from './row.js';

const given = (): Parameter => ({ fits: rollout(), takes: [] });
const list = (fits: readonly unknown[]): Parameter => ({ fits, takes: [] });

/** Two rows with log-probabilities. */
function rollout(): RolloutBatch {
  const names = ['old_log_probs', 'rollout_log_probs', 'rollout_is_weights', 'sum_pi_squared'];
  return batchFromVerl({ ...columns(), ...Object.fromEntries(names.map((name) => [name, tensor()])) });
}

function optionOf(call: (batch: RolloutBatch, options: VarianceProxyOptions) => unknown): Row {
  return {
    parameters: [count, { fits: 'recommended', takes: ['undefined'] }],
    isAsync: true,
    call: (gradientNorm: number, semantics: 'recommended') => call(rollout(), { gradientNorm, semantics }),
  };
}

export const diagnosticsCalls: Rows = {
  'ExplainedVariance.of': () => ({
    parameters: [
      { fits: tensor(), takes: [] },
      { fits: tensor(), takes: [] },
      { fits: tensor(), takes: ['undefined'] },
    ],
    isAsync: true,
    call: (...given: Parameters<typeof ExplainedVariance.of>) => ExplainedVariance.of(...given),
  }),
  'ExplainedVariance#merge': () => ({
    parameters: [{ fits: new ExplainedVariance(), takes: [] }],
    call: (other: ExplainedVariance) => new ExplainedVariance().merge(other),
  }),
  'ExplainedVariance#value': () => ({
    parameters: [{ fits: 'recommended', takes: ['undefined'] }],
    call: (semantics: 'recommended') => new ExplainedVariance().value(semantics),
  }),
  computeVarianceProxyMetrics: () => ({
    parameters: [given(), options()],
    isAsync: true,
    call: computeVarianceProxyMetrics,
  }),
  'computeVarianceProxyMetrics{option}': () => optionOf(computeVarianceProxyMetrics),
  varianceProxies: () => ({ parameters: [given(), options()], isAsync: true, call: varianceProxies }),
  'varianceProxies{option}': () => optionOf(varianceProxies),
  computeDebugMetrics: () => ({ parameters: [given()], isAsync: true, call: computeDebugMetrics }),
  computeGroupMetrics: () => ({
    parameters: [given(), list(['a', 'b']), options()],
    isAsync: true,
    call: computeGroupMetrics,
  }),
  'computeGroupMetrics{id, option}': () => ({
    parameters: [{ fits: 'a', takes: ['text', 'number'] }, count],
    isAsync: true,
    call: (group: string, rightAbove: number) => computeGroupMetrics(rollout(), [group, 'b'], { rightAbove }),
  }),
  groupMoments: () => ({ parameters: [list([1, 2]), list(['a', 'b'])], call: groupMoments }),
  'groupMoments{element}': () => ({
    parameters: [
      { fits: 1, takes: ['number'] },
      { fits: 'a', takes: ['text', 'number'] },
    ],
    call: (value: number, group: string) => groupMoments([value], [group]),
  }),
  computeSequenceBalanceMetrics: () => ({
    parameters: [given(), list([[0], [1]])],
    isAsync: true,
    call: computeSequenceBalanceMetrics,
  }),
  'computeSequenceBalanceMetrics{rank, row}': () => ({
    parameters: [list([0]), { fits: 1, takes: [] }],
    isAsync: true,
    call: (rank: number[], row: number) => computeSequenceBalanceMetrics(rollout(), [rank, [row]]),
  }),
};
