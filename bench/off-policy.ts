/** What two policies say of a rollout's tokens, on the host: the one that sampled them and the one that is trained. */
import { bell, seeded } from './inputs.js';
import type { RolloutShape } from './rollout.js';

/** `[B, T]`, under verl's names. */
export interface OffPolicy {
  /** log π of the policy that is trained, nats. */
  readonly old_log_probs: Float32Array;
  /** log π of the policy that sampled, nats. */
  readonly rollout_log_probs: Float32Array;
  /** Σπ² over the vocabulary. */
  readonly sum_pi_squared: Float32Array;
}

/** The share of tokens on which the two policies are far apart. */
const FAR = 1e-3;

/** Policies that differ as two precisions of one model do, but for a few tokens that are truncated and rejected. */
export function offPolicy({ rows, responseWidth }: RolloutShape, seed: number): OffPolicy {
  const random = seeded(seed);
  const size = rows * responseWidth;
  const old = new Float32Array(size);
  const squares = new Float32Array(size);
  const ratios = bell(random, size, 0, 0.02);
  for (let i = 0; i < size; i++) {
    const p = 1 - 0.95 * random() ** 2;
    old[i] = Math.log(p);
    squares[i] = p * p + (1 - p) ** 2 * random();
    if (random() < FAR) ratios[i] = random() < 0.5 ? -1.25 : 1.25;
  }
  const sampled = old.map((logProb, i) => logProb - ratios[i]!);
  return { old_log_probs: old, rollout_log_probs: sampled, sum_pi_squared: squares };
}
