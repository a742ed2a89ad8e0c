/** A PPO step's batch on the host, under verl's names: padded responses behind padded prompts, a few rows aborted. */
import type * as tf from '@tensorflow/tfjs-core';
import { bell, onDevice, seeded } from './inputs.js';

/** B rows, T response columns, P prompt columns. */
export interface RolloutShape {
  readonly rows: number;
  readonly responseWidth: number;
  readonly promptWidth: number;
}

/** `[B, T]` tensors, and `attention_mask` `[B, P + T]`. */
export interface Rollout {
  readonly attention_mask: Uint8Array;
  readonly response_mask: Uint8Array;
  readonly token_level_scores: Float32Array;
  readonly token_level_rewards: Float32Array;
  readonly advantages: Float32Array;
  readonly returns: Float32Array;
  readonly values: Float32Array;
}

/** The share of rows that produced nothing. */
const ABORTED = 0.02;

/** A batch whose numbers are all healthy: what peers and this package then report is the same. */
export function rollout({ rows, responseWidth, promptWidth }: RolloutShape, seed: number): Rollout {
  const random = seeded(seed);
  const [size, width] = [rows * responseWidth, promptWidth + responseWidth];
  const attention = new Uint8Array(rows * width);
  const response = new Uint8Array(size);
  const scores = new Float32Array(size);
  const rewards = bell(random, size, 0, 1e-3);
  for (let row = 0; row < rows; row++) {
    const prompt = 1 + Math.floor(random() * promptWidth);
    const aborted = random() < ABORTED && row > 0;
    const length = aborted ? 0 : 1 + Math.floor(random() * responseWidth);
    // Prompts end and responses begin at the same column, as generation leaves them.
    const begin = row * width + promptWidth;
    attention.fill(1, begin - prompt, begin + length);
    response.fill(1, row * responseWidth, row * responseWidth + length);
    rewards.fill(0, row * responseWidth + length, (row + 1) * responseWidth);
    if (aborted) continue;
    const last = row * responseWidth + length - 1;
    scores[last] = random() < 0.4 ? 1 : 0.25 * random();
    rewards[last]! += scores[last];
  }
  const returns = bell(random, size, 0.5, 1);
  const errors = bell(random, size, 0.1, 0.5);
  return {
    attention_mask: attention,
    response_mask: response,
    token_level_scores: scores,
    token_level_rewards: rewards,
    advantages: bell(random, size),
    returns,
    values: returns.map((value, i) => value - errors[i]!),
  };
}

/** The shapes of a rollout's tensors by name. */
export function rolloutShapes({
  rows,
  responseWidth,
  promptWidth,
}: RolloutShape): Record<keyof Rollout, readonly [number, number]> {
  const tokens = [rows, responseWidth] as const;
  return {
    attention_mask: [rows, promptWidth + responseWidth],
    response_mask: tokens,
    token_level_scores: tokens,
    token_level_rewards: tokens,
    advantages: tokens,
    returns: tokens,
    values: tokens,
  };
}

/** The rollout's tensors on the active backend. */
export function rolloutTensors(host: Rollout, shape: RolloutShape): Record<keyof Rollout, tf.Tensor> {
  const shapes = rolloutShapes(shape);
  const names = Object.keys(shapes) as (keyof Rollout)[];
  return Object.fromEntries(names.map((name) => [name, onDevice(host[name], shapes[name])])) as Record<
    keyof Rollout,
    tf.Tensor
  >;
}
