/**
 * Generalised advantage estimation over padded rows, and whitening; float64 on the host, no tensors.
 */

/** Discount and trace decay. */
export interface GaeConfig {
  readonly gamma: number;
  readonly lambda: number;
}

/** Padded `[B, T]` rows, row-major; 0 outside the mask. */
export interface Advantages {
  readonly advantages: Float32Array;
  readonly returns: Float32Array;
}

/**
 * Advantages and returns of every response token.
 *
 * δ_t = r_t + γ V_{t+1} − V_t,  A_t = δ_t + γ λ A_{t+1},  R_t = A_t + V_t;  V and A are 0 after a row's last token.
 *
 * @param rewards `[B, T]` reward per token.
 * @param values `[B, T]` the critic's values.
 * @param mask `[B, T]` 1 at response tokens, which are the first tokens of each row.
 * @param width T.
 * @source Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation", eq. 16
 */
export function estimateAdvantages(
  rewards: Float32Array,
  values: Float32Array,
  mask: Float32Array,
  width: number,
  config: GaeConfig,
): Advantages {
  const advantages = new Float32Array(rewards.length);
  const returns = new Float32Array(rewards.length);
  for (let row = 0; row < rewards.length; row += width) {
    let nextValue = 0;
    let trace = 0;
    for (let at = row + width - 1; at >= row; at -= 1) {
      if (mask[at] !== 1) continue;
      const delta = rewards[at]! + config.gamma * nextValue - values[at]!;
      trace = delta + config.gamma * config.lambda * trace;
      nextValue = values[at]!;
      advantages[at] = trace;
      returns[at] = trace + values[at]!;
    }
  }
  return { advantages, returns };
}

/**
 * Shifts and scales the masked entries to mean 0 and variance 1; the others become 0.
 *
 * A batch without spread (or with a single token) is only centred: there is nothing to scale by.
 *
 * @param values `[B, T]` row-major.
 * @param mask Same length, 1 where an entry counts.
 */
export function whiten(values: Float32Array, mask: Float32Array): Float32Array {
  const selected = values.filter((_, at) => mask[at] === 1);
  let sum = 0;
  for (const value of selected) sum += value;
  const mean = sum / selected.length;
  let squares = 0;
  for (const value of selected) squares += (value - mean) ** 2;
  const deviation = selected.length > 1 ? Math.sqrt(squares / (selected.length - 1)) : 0;
  const scale = deviation > 1e-8 ? 1 / deviation : 1;
  return values.map((value, at) => (mask[at] === 1 ? (value - mean) * scale : 0));
}
