/** First steps: one masked statistic through a tracker, and the data metrics of a batch. */
import * as tf from '@tensorflow/tfjs';
import { StatsTracker, batchFromVerl, computeDataMetrics, initBackend } from '../../src/index.js';

await initBackend(); // the best backend here, or the one that you already use
const tracker = new StatsTracker('ppo_actor');

const mask = tf.tensor2d([1, 1, 0, 1, 0, 0], [2, 3], 'bool'); // [batch, seq_len]: the tokens that count
const x = tf.tensor2d([1, 2, NaN, 3, 9, 9], [2, 3]); // what the padding holds does not matter
tracker.denominator({ n_valid_tokens: mask });
tracker.stat({ advantages: x }, { denominator: 'n_valid_tokens' }); // reduced now: x may be disposed
console.log(await tracker.export()); // { 'ppo_actor/advantages/avg': 2, 'ppo_actor/n_valid_tokens': 3, … }

const tokens = { token_level_scores: x, token_level_rewards: x, advantages: x, returns: x, values: x };
const attention_mask = tf.concat([tf.ones([2, 2], 'bool'), mask], 1); // [batch, prompt + response]
const batch = batchFromVerl({ attention_mask, response_mask: mask, ...tokens });
console.log(await computeDataMetrics(batch)); // { 'critic/score/mean': 3, 'response_length/mean': 1.5, … }
