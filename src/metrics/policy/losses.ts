/** The losses of a PPO update at one token, and which of their tokens are clipped, as expressions. */
import {
  type Expression,
  add,
  clamp,
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

/** How far the ratio r = π / π_old may go: within [1 − low, 1 + high]; at most `dual` where the advantage is negative. */
export interface ClipRange {
  readonly low: number;
  readonly high: number;
  readonly dual: number;
}

/** Log-ratios beyond ±20 are held there before they are exponentiated, as verl does. */
const LOG_RATIO_LIMIT = 20;

const logRatio = clamp(subtract('logProbs', 'oldLogProbs'), -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);

/** log π_old − log π: in the mean the k1 estimate of KL(π_old ‖ π), nats. */
export const ppoKl: Expression = negate(logRatio);

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
): { loss: Expression; isClipped: Expression; isClippedLower: Expression } {
  const gain = negate('advantages');
  const ratio = exp(logRatio);
  const free = multiply(gain, ratio);
  const held = multiply(gain, clamp(ratio, 1 - range.low, 1 + range.high));
  const clipped = max(free, held);
  const bound = multiply(gain, range.dual);
  const isNegative = less('advantages', 0);
  const loss = select(isNegative, min(bound, clipped), clipped);
  return {
    loss: isWeighted ? multiply(loss, 'rolloutIsWeights') : loss,
    // Only where clipping binds: a ratio beyond the range that improves nothing is not counted.
    isClipped: greater(held, free),
    isClippedLower: multiply(greater(clipped, bound), isNegative),
  };
}

/**
 * Squared error of the critic, or of its prediction held within ±range of the one before the update, whichever is
 * larger; halved.
 *
 * @source verl, trainer/ppo/core_algos.py, compute_value_loss
 */
export function valueLoss(range: number): { loss: Expression; isClipped: Expression } {
  const held = clamp('valuePredictions', subtract('values', range), add('values', range));
  const free2 = square(subtract('valuePredictions', 'returns'));
  const held2 = square(subtract(held, 'returns'));
  return { loss: multiply(0.5, max(free2, held2)), isClipped: greater(held2, free2) };
}
