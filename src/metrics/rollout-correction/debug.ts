/** How far the probabilities that the trainer computes are from those that the rollout engine sampled with. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { abs } from '../../kernels/expression.js';
import { Pending } from '../../kernels/index.js';
import type { MatrixWindow } from '../../kernels/moments/pass.js';
import { Moments } from '../../rows/index.js';
import { type RolloutBatch, assertBatch, requireTensors } from '../batch/batch.js';
import { attendedTokens, responseShape, responseTokens } from '../batch/response-windows.js';
import {
  type CorrelationChannels,
  correlationChannels,
  correlationOf,
  probabilityDifference,
} from '../numbers/correlation.js';
import type { Metrics } from '../numbers/statistics.js';
import { type Plan, type PlanChannel, type PlanTables, plan, runPlans } from '../plan.js';

const WHERE = 'computeDebugMetrics';

/**
 * Differences between the probabilities of the sampled tokens under the trainer and under the rollout engine.
 *
 * With p = exp(log prob), over the selected tokens: `training/rollout_probs_diff_{max,mean,std}` of |p_actor − p_rollout|
 * (std unbiased), `training/rollout_actor_probs_pearson_corr`, the correlation of the two, and
 * `training/rollout_probs_diff_valid`, 1 if a token was selected, else 0 and all others are NaN. One token has no std;
 * without spread on either side, but for float32 rounding of its log-probabilities, there is no correlation. It keeps its
 * digits where probabilities are near 1, tiny, or both: if the largest of a side is from e^-290 to e^21 on webgpu, from
 * e^-570 to e^280 on the other backends; beyond, it is NaN. These are verl's numbers in both revisions.
 *
 * @param batch needs old_log_probs and rollout_log_probs; response_mask selects, else the response part of
 *   attention_mask, else every token counts
 * @returns plain numbers; undefined ones are NaN. One read-back
 * @throws MissingInputError, ShapeError, DtypeError, DisposedTensorError, ValueError, BackendError
 * @source verl, utils/debug/metrics.py, calculate_debug_metrics
 * @example  const metrics = await computeDebugMetrics(batch);
 */
export async function computeDebugMetrics(batch: RolloutBatch): Promise<Metrics> {
  return Pending.attempt(() => debugMetrics(batch));
}

/** The `Pending` behind `computeDebugMetrics`. */
export function debugMetrics(batch: RolloutBatch): Pending<Metrics> {
  assertBatch(WHERE, batch);
  const debug = debugPlan(batch);
  return runPlans<[Metrics]>(WHERE, responseShape(batch.oldLogProbs!), [debug]).map(([metrics]) => metrics);
}

/** What the metrics ask of the response part of a checked batch, to share a pass with others. */
export function debugPlan(batch: RolloutBatch, where = WHERE): Plan<Metrics> {
  const { oldLogProbs, rolloutLogProbs } = requireTensors(where, batch, ['oldLogProbs', 'rolloutLogProbs']);
  const { mask, masks } = selection(batch, oldLogProbs);
  const logs = ['oldLogProbs', 'rolloutLogProbs'] as const;
  const asked = { distance: abs(probabilityDifference(...logs)), ...correlationChannels(...logs) };
  const channels = Object.entries(asked).map(([name, of]) => [name, { of, mask, isWhole: true }]);
  return plan({
    inputs: { oldLogProbs, rolloutLogProbs },
    masks,
    channels: Object.fromEntries(channels) as Record<keyof typeof asked, PlanChannel>,
    finish: debugMetricsOf,
  });
}

/** The first mask that there is decides which tokens count. */
function selection(
  batch: RolloutBatch,
  { shape }: Tensor,
): { readonly mask: string | undefined; readonly masks: Readonly<Record<string, MatrixWindow>> } {
  const response = responseTokens(batch);
  if (response !== undefined) return { mask: 'response', masks: { response } };
  const attended = attendedTokens(batch, shape[1] ?? 1);
  return attended === undefined ? { mask: undefined, masks: {} } : { mask: 'attended', masks: { attended } };
}

/** Of which the totals are read. */
export type DebugTables = PlanTables<'distance' | keyof CorrelationChannels<unknown>>;

/** The metrics of rows, from the channels of `debugPlan`. */
export function debugMetricsOf(tables: DebugTables): Metrics {
  const distance = new Moments(tables.distance.total());
  return {
    'training/rollout_probs_diff_valid': distance.count > 0 ? 1 : 0,
    'training/rollout_probs_diff_max': distance.max,
    'training/rollout_probs_diff_mean': distance.mean,
    'training/rollout_probs_diff_std': distance.std(),
    'training/rollout_actor_probs_pearson_corr': correlationOf(tables),
  };
}
