/** How far the probabilities that the trainer computes are from those that the rollout engine sampled with. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { type Expression, abs, exp, expm1, input, max, multiply, subtract } from '../kernels/expression.js';
import { Moments, Pending } from '../kernels/index.js';
import type { MatrixWindow } from '../kernels/moments/pass.js';
import { type RolloutBatch, assertBatch, requireTensors } from './batch.js';
import { type Plan, type PlanTables, plan, runPlans } from './plan.js';
import { attendedTokens, responseShape, responseTokens } from './response-windows.js';
import type { Metrics } from './statistics.js';

const WHERE = 'computeDebugMetrics';

/**
 * Differences between the probabilities of the sampled tokens under the trainer and under the rollout engine.
 *
 * With p = exp(log prob), over the selected tokens: `training/rollout_probs_diff_{max,mean,std}` of |p_actor − p_rollout|
 * (std unbiased), `training/rollout_actor_probs_pearson_corr`, the correlation of the two, and
 * `training/rollout_probs_diff_valid`, 1 if a token was selected, else 0 and all others are NaN. One token has no std;
 * without spread on either side there is no correlation. These are verl's numbers in both revisions.
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

/** The launched form of `computeDebugMetrics`, to be read together with others. */
export function debugMetrics(batch: RolloutBatch): Pending<Metrics> {
  assertBatch(WHERE, batch);
  const debug = debugPlan(batch);
  return runPlans<[Metrics]>(WHERE, responseShape(batch.oldLogProbs!), [debug]).map(([metrics]) => metrics);
}

/** What the metrics ask of the response part of a checked batch, to share a pass with others. */
export function debugPlan(batch: RolloutBatch, where = WHERE): Plan<Metrics> {
  const { oldLogProbs, rolloutLogProbs } = requireTensors(where, batch, ['oldLogProbs', 'rolloutLogProbs']);
  const { mask, masks } = selection(batch, oldLogProbs);
  const difference = probabilityDifference('oldLogProbs', 'rolloutLogProbs');
  return plan({
    inputs: { oldLogProbs, rolloutLogProbs },
    masks,
    channels: {
      distance: { of: abs(difference), mask },
      difference: { of: difference, mask },
      // p − 1 varies as p does. In float32 it resolves probabilities near 1, where policies end up, to their last digit,
      // and those near 0 to 6e-8: too coarse only where all of them are below 1e-6.
      actor: { of: expm1(input('oldLogProbs')), mask },
      rollout: { of: expm1(input('rolloutLogProbs')), mask },
    },
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
  const attended = attendedTokens(batch, shape[1]!);
  return attended === undefined ? { mask: undefined, masks: {} } : { mask: 'attended', masks: { attended } };
}

/** A log-probability whose exponential is 0 even in float64. */
const LOG_OF_NOTHING = -1000;

/**
 * e^a − e^b without cancellation: with m the larger of the two, e^m·((e^(a−m) − 1) − (e^(b−m) − 1)), of which one
 * bracket is exactly 0. The floor under m keeps −Infinity − −Infinity out.
 */
function probabilityDifference(a: string, b: string): Expression {
  const m = max(max(a, b), LOG_OF_NOTHING);
  return multiply(exp(m), subtract(expm1(subtract(a, m)), expm1(subtract(b, m))));
}

/** One row per row of the batch. */
export type DebugTables = PlanTables<'distance' | 'difference' | 'actor' | 'rollout'>;

/** The metrics of rows, from the channels of `debugPlan`. */
export function debugMetricsOf(tables: DebugTables): Metrics {
  const distance = new Moments(tables.distance.total());
  return {
    'training/rollout_probs_diff_valid': distance.count > 0 ? 1 : 0,
    'training/rollout_probs_diff_max': distance.max,
    'training/rollout_probs_diff_mean': distance.mean,
    'training/rollout_probs_diff_std': distance.std(),
    'training/rollout_actor_probs_pearson_corr': correlation(
      new Moments(tables.actor.total()),
      new Moments(tables.rollout.total()),
      new Moments(tables.difference.total()),
    ),
  };
}

/**
 * Pearson correlation of x and y from their moments and those of x − y.
 *
 * Since Var(x − y) = σx² + σy² − 2·cov,  r = 1 − (Var(x − y) − (σx − σy)²) / (2·σx·σy). What is computed is the distance
 * from 1, where the correlation of two computations of one policy lies, and no large variances cancel in it. NaN where
 * x or y has no spread.
 */
function correlation(x: Moments, y: Moments, difference: Moments): number {
  const [sx, sy] = [x.std(), y.std()];
  const isConstant = x.min === x.max || y.min === y.max;
  if (isConstant || !(sx * sy > 0)) return NaN;
  const r = 1 - (difference.variance() - (sx - sy) ** 2) / (2 * sx * sy);
  return Math.min(1, Math.max(-1, r));
}
