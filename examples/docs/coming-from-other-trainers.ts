import * as tf from '@tensorflow/tfjs';
import * as tally from '../../src/index.js';

const response_mask = tf.ones([1, 4], 'bool');
const before = tf.log(tf.tensor2d([[0.5, 0.5, 0.5, 0.5]]));
const after = tf.log(tf.tensor2d([[0.65, 0.5, 0.35, 0.55]])); // ratios of 1.3, 1, 0.7 and 1.1
const update = tally.batchFromVerl({ response_mask, old_log_probs: after, rollout_log_probs: before });

const clip = { rolloutIs: 'token', rolloutIsThreshold: [0.8, 1.2] } as const;
const { metrics: clipped } = await tally.computeRolloutCorrection(update, clip);
console.log(clipped);
// { 'rollout_corr/rollout_is_ratio_fraction_high': 0.25,
//   'rollout_corr/rollout_is_ratio_fraction_low': 0.25, 'rollout_corr/k3_kl': 0.02475, … }

const all = { rolloutIs: 'token', rolloutIsThreshold: 1e8 } as const;
const { metrics: ratios } = await tally.computeRolloutCorrection(update, all);
console.log(ratios);
// { 'rollout_corr/rollout_is_mean': 1.025, 'rollout_corr/rollout_is_max': 1.3, … }

const advantages = tf.tensor2d([[1, 1, 1, -1]]);
const policy = tally.batchFromVerl({ response_mask, old_log_probs: before, log_probs: after, advantages });
console.log(await tally.computePolicyMetrics(policy, { clipRatioC: null })); // { 'actor/pg_clipfrac': 0.25, … }

const kl = tally.batchFromVerl({ response_mask, log_probs: before, ref_log_prob: after });
console.log(await tally.computeKlMetrics(kl)); // { 'k1/mean': -0.00025, 'k2/mean': 0.0256, 'k3/mean': 0.02475, … }
