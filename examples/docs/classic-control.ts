import * as tf from '@tensorflow/tfjs';
import * as tally from '../../src/index.js';

const advantages = tf.tensor1d([1, -1, 0.5, 2]);
const old_log_probs = tf.log(tf.tensor1d([0.5, 0.5, 0.5, 0.5]));
const log_probs = tf.log(tf.tensor1d([0.55, 0.5, 0.45, 0.7])); // ratios of 1.1, 1, 0.9 and 1.4
const returns = tf.tensor1d([3, 2, 1, 4]);
const values = tf.tensor1d([2.5, 2, 1, 3.5]);

const steps = tally.batchFromVerl({ advantages, old_log_probs, log_probs, returns, values, vpreds: values });
const options = { clipRatioLow: 0.2, clipRatioHigh: 0.2, clipRatioC: null, cliprangeValue: null };
const update = await tally.computePolicyMetrics(steps, options); // null: a bound that this trainer does not have
console.log(update); // { 'actor/pg_clipfrac': 0.25, 'critic/vf_clipfrac': 0, … }

const fit = await tally.ExplainedVariance.of(returns, values);
console.log(fit.value()); // 0.95

let merged = new tally.ExplainedVariance(); // over mini-batches: merge returns a new object
for (const [start, size] of [
  [0, 2],
  [2, 2],
] as const) {
  const [ofReturns, ofValues] = [tf.slice(returns, start, size), tf.slice(values, start, size)];
  merged = merged.merge(await tally.ExplainedVariance.of(ofReturns, ofValues));
}
console.log(merged.value()); // 0.95

const response_mask = tf.tensor2d([1, 1, 1, 1, 1, 0], [2, 3], 'bool'); // episodes of 3 and of 2 steps
const rewards = tf.tensor2d([1, 1, 1, 1, 1, NaN], [2, 3]); // what the padding holds does not matter
const episodes = tally.batchFromVerl({
  response_mask,
  token_level_scores: rewards,
  token_level_rewards: rewards,
  advantages: rewards,
  attention_mask: response_mask, // no prompt: P = 0
});
const data = await tally.computeDataMetrics(episodes, { useCritic: false });
console.log(data); // { 'critic/score/mean': 2.5, 'response_length/mean': 2.5, 'response_length/max': 3, … }
