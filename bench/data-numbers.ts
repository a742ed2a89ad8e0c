/** The data metrics of a healthy batch in plain float64 loops: what every way to compute them is checked against. */
import type { Numbers } from './agreement.js';
import { meanMaxMin, rowSums, statisticsOf } from './float64.js';
import type { Rollout, RolloutShape } from './rollout.js';

/** Of every row. */
export interface Lengths {
  readonly prompt: Float64Array;
  readonly response: Float64Array;
}

/** Tokens of every row, counted in the attention mask. */
export function lengthsOf({ attention_mask: mask }: Rollout, shape: RolloutShape): Lengths {
  const { rows, promptWidth, responseWidth } = shape;
  const width = promptWidth + responseWidth;
  const part = (from: number, to: number): Float64Array =>
    Float64Array.from({ length: rows }, (_, row) =>
      mask.subarray(row * width + from, row * width + to).reduce((count, token) => count + token, 0),
    );
  return { prompt: part(0, promptWidth), response: part(promptWidth, width) };
}

/** What verl's `compute_data_metrics` is meant to report, with a critic. */
export function dataNumbers(host: Rollout, shape: RolloutShape): Numbers {
  const { prompt, response } = lengthsOf(host, shape);
  const produced = response.map((n) => (n > 0 ? 1 : 0));
  const sums = (tensor: Float32Array): Float64Array => rowSums(tensor, shape.rows);
  const tokens = (tensor: ArrayLike<number>) => statisticsOf(tensor, host.response_mask);
  const errors = Float64Array.from(host.returns, (value, i) => value - host.values[i]!);
  const variance = ({ m2, count }: { m2: number; count: number }): number => m2 / (count - 1);
  const share = (lengths: Float64Array, width: number): number =>
    lengths.filter((n) => n === width).length / lengths.length;
  const answered = response.filter((n) => n > 0);
  return {
    ...meanMaxMin('critic/score', statisticsOf(sums(host.token_level_scores), produced)),
    ...meanMaxMin('critic/rewards', statisticsOf(sums(host.token_level_rewards), produced)),
    ...meanMaxMin('critic/advantages', tokens(host.advantages)),
    ...meanMaxMin('critic/returns', tokens(host.returns)),
    ...meanMaxMin('critic/values', tokens(host.values)),
    'critic/vf_explained_var': 1 - variance(tokens(errors)) / (variance(tokens(host.returns)) + 1e-5),
    ...meanMaxMin('response_length', statisticsOf(response)),
    'response_length/clip_ratio': share(response, shape.responseWidth),
    ...meanMaxMin('response_length_non_aborted', statisticsOf(answered)),
    'response_length_non_aborted/clip_ratio': share(answered, shape.responseWidth),
    'response/aborted_ratio': share(response, 0),
    ...meanMaxMin('prompt_length', statisticsOf(prompt)),
    'prompt_length/clip_ratio': share(prompt, shape.promptWidth),
  };
}
