/** The losses of a PPO update at one token, and which of their tokens are clipped, as expressions. */
import {
  type Expression,
  add,
  clamp,
  constant,
  exp,
  greater,
  less,
  max,
  min,
  multiply,
  negate,
  select,
  square,
  subtract,
} from '../../kernels/expression.js';
import { known } from '../numbers/comparisons.js';
import type { Semantics } from '../semantics.js';

/** How far the ratio r = π / π_old may go: within [1 − low, 1 + high]; at most `dual` where the advantage is negative. */
export interface ClipRange {
  readonly low: number;
  readonly high: number;
  /** Infinity for PPO without dual clip. */
  readonly dual: number;
}

/** Above it the exponential of a log-ratio would overflow sooner or later: e^20 is about 5e8. */
const LOG_RATIO_LIMIT = 20;

const logRatio = subtract('logProbs', 'oldLogProbs');
/** verl cuts both ends, and before its KL estimate, too. */
const heldLogRatio = clamp(logRatio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);

/** log π_old − log π: in the mean the k1 estimate of KL(π_old ‖ π), nats. */
export function ppoKl(semantics: Semantics): Expression {
  return negate(semantics === 'recommended' ? logRatio : heldLogRatio);
}

/** π / π_old. */
function ratioOf(semantics: Semantics): Expression {
  return exp(semantics === 'recommended' ? min(logRatio, LOG_RATIO_LIMIT) : heldLogRatio);
}

/**
 * verl's loss mode `vanilla`: dual-clip PPO.
 *
 * @param isWeighted whether the loss is multiplied by importance weights; clipping is judged before
 * @source Schulman et al. 2017, "Proximal Policy Optimization Algorithms"; Ye et al. 2020, "Mastering Complex Control in
 *   MOBA Games with Deep Reinforcement Learning" (dual clip); verl, trainer/ppo/core_algos.py,
 *   compute_policy_loss_vanilla
 */
export function policyLoss(
  range: ClipRange,
  isWeighted: boolean,
  semantics: Semantics,
): { loss: Expression; isClipped: Expression; isClippedLower: Expression } {
  const gain = negate('advantages');
  const ratio = ratioOf(semantics);
  const free = multiply(gain, ratio);
  const held = multiply(gain, clamp(ratio, 1 - range.low, 1 + range.high));
  const clipped = max(free, held);
  const { loss, isBound } = range.dual < Infinity ? dualClip(clipped, gain, range.dual) : { loss: clipped };
  return {
    loss: isWeighted ? multiply(loss, 'rolloutIsWeights') : loss,
    // Only where clipping binds: a ratio beyond the range that improves nothing is not counted.
    isClipped: known(clipped, greater(held, free), semantics),
    isClippedLower: known(clipped, isBound ?? constant(0), semantics),
  };
}

/** At most `dual` times the gain where the advantage is negative, and whether that binds. */
function dualClip(
  clipped: Expression,
  gain: Expression,
  dual: number,
): { loss: Expression; isBound: Expression } {
  const bound = multiply(gain, dual);
  const isNegative = less('advantages', 0);
  return {
    loss: select(isNegative, min(bound, clipped), clipped),
    isBound: multiply(greater(clipped, bound), isNegative),
  };
}

/**
 * Squared error of the critic, or of its prediction clamped to ±range of the one before the update, whichever is
 * larger; halved.
 *
 * @param range Infinity for no clipping
 * @source verl, trainer/ppo/core_algos.py, compute_value_loss
 */
export function valueLoss(range: number, semantics: Semantics): { loss: Expression; isClipped: Expression } {
  if (range === Infinity) {
    const squared = square(subtract('valuePredictions', 'returns'));
    return { loss: multiply(0.5, squared), isClipped: known(squared, constant(0), semantics) };
  }
  const held = clamp('valuePredictions', subtract('values', range), add('values', range));
  const free2 = square(subtract('valuePredictions', 'returns'));
  const held2 = square(subtract(held, 'returns'));
  const larger = max(free2, held2);
  return { loss: multiply(0.5, larger), isClipped: known(larger, greater(held2, free2), semantics) };
}
