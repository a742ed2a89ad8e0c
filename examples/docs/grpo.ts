import * as tf from '@tensorflow/tfjs';
import * as tally from '../../src/index.js';

await tally.initBackend('cpu'); // trains everything; without a name the best back end here

const groups = ['p1', 'p1', 'p2', 'p2']; // the prompt of every row
const rewards = tf.tensor1d([1, 0, 1, 1]);
const lengths = tf.tensor1d([3, 2, 1, 3], 'int32');
const T = 3;

const response_mask = tf.less(tf.range(0, T, 1, 'int32'), tf.expandDims(lengths, 1)); // [B, T] bool
const attention_mask = tf.concat([tf.ones([4, 2], 'bool'), response_mask], 1); // [B, P + T]
const isLast = tf.cast(tf.oneHot(tf.cast(tf.sub(lengths, 1), 'int32'), T), 'float32');
const token_level_scores = tf.mul(isLast, tf.expandDims(rewards, 1)); // the score on the last token
const old_log_probs = tf.fill([4, T], -1); // the trainer, before the update
const rollout_log_probs = tf.tensor2d([-1, -1, -1.1, -1, -0.9, 0, -1, 0, 0, -1, -3, -1], [4, T]); // the rollout engine

const scores = await rewards.data();
const moments = tally.groupMoments(scores, groups);
const perRow = groups.map((group, i) => {
  const { mean } = moments.get(group)!;
  const std = moments.get(group)!.std();
  return std > 0 ? (scores[i]! - mean) / std : 0;
});
const advantages = tf.mul(tf.ones([4, T]), tf.tensor2d(perRow, [4, 1]));
console.log(perRow); // [0.7071, -0.7071, 0, 0]

const batch = tally.batchFromVerl({
  attention_mask,
  response_mask,
  token_level_scores,
  token_level_rewards: token_level_scores,
  advantages,
  old_log_probs,
  rollout_log_probs,
});
const leftOut = new Set<string>();
const { metrics, isWeights, responseMask } = await tally.correctedStep(batch, {
  useCritic: false,
  groups,
  timing: { gen: 2, step: 5 },
  nGpus: 1,
  rolloutCorrection: { rolloutIs: 'token', rolloutRs: 'token_k1', rolloutRsThreshold: [0.5, 2] },
  onSkipped: (family) => leftOut.add(family), // without it a warning says once what the batch lacks
});
console.log(metrics);
// { 'critic/score/mean': 0.75, 'response_length/mean': 2.25, 'group/zero_std_ratio': 0.5,
//   'perf/total_num_tokens': 17, … }
console.log([...leftOut].sort()); // ['kl', 'policy', 'varianceProxy']

const log_probs = tf.fill([4, T], -0.9); // of the model, with a gradient
const loss = tf.tidy(() => {
  const ratio = tf.exp(tf.sub(log_probs, old_log_probs));
  const clipped = tf.minimum(tf.mul(ratio, advantages), tf.mul(tf.clipByValue(ratio, 0.8, 1.2), advantages));
  return tf.mul(tf.neg(clipped), isWeights);
});

const tracker = tally.getTracker('grpo_actor');
tracker.denominator({ n_valid_tokens: responseMask });
tracker.stat({ loss }, { denominator: 'n_valid_tokens' });
tracker.scalar({ grad_norm: 0.4 });

const policy = tally.batchFromVerl({
  response_mask: responseMask,
  old_log_probs,
  log_probs,
  advantages,
  isWeights,
});
const update = await tally.computePolicyMetrics(policy, { clipRatioHigh: 0.28 });
console.log(update['actor/pg_clipfrac']); // 0

const logger = await tally.StatsLogger.create({
  experimentName: 'gsm8k',
  trialName: 'grpo-0',
  fileroot: 'runs',
  console: false, // true for a table on the terminal
});
await logger.commit(0, 0, 0, { ...metrics, ...update, ...(await tracker.export()) });
await logger.close();
console.log(logger.stateDict()); // { lastCommitStep: 0 }
tf.dispose([isWeights, responseMask, loss]);
