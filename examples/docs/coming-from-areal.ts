import * as tf from '@tensorflow/tfjs';
import * as tally from '../../src/index.js';

const lossMask = tf.tensor1d([0, 0, 1, 1, 1], 'bool'); // packed tokens of a micro-batch
const ratio = tf.tensor1d([NaN, NaN, 0.5, 1, 1.5]); // outside of the mask anything may stand
const clipped = tf.tensor1d([0, 0, 1, 0, 0], 'bool');

const tracker = tally.getTracker('ppo_actor');
await tracker.scope('update', async () => {
  tracker.denominator({ n_valid_tokens: lossMask, clipped_tokens: clipped });
  tracker.stat({ importance_weight: ratio }, { denominator: 'n_valid_tokens' });
  tracker.stat({ clipped_ratio: ratio }, { denominator: 'clipped_tokens', reduceType: 'avg' });
  tracker.scalar({ grad_norm: 0.7 });
  await tracker.recordTiming('train_step', () => ratio.data());
});
console.log(await tally.exportAll());
// { 'ppo_actor/update/clipped_ratio': 0.5, 'ppo_actor/update/clipped_tokens': 1,
//   'ppo_actor/update/grad_norm': 0.7, 'ppo_actor/update/grad_norm__count': 1,
//   'ppo_actor/update/importance_weight/avg': 1, 'ppo_actor/update/importance_weight/max': 1.5,
//   'ppo_actor/update/importance_weight/min': 0.5, 'ppo_actor/update/n_valid_tokens': 3,
//   'timeperf/train_step': …, 'timeperf/train_step__count': 1 }

const valid = tracker.denominator('n_valid_tokens', lossMask);
tracker.scope('update', () => {
  valid.stat({ ratio });
});
tracker.scope('compute_logp', () => {
  valid.stat({ ratio }, { reduceType: 'max' });
});
console.log(await tracker.export());
// { 'ppo_actor/compute_logp/ratio': 1.5, 'ppo_actor/n_valid_tokens': 3, 'ppo_actor/update/ratio/avg': 1,
//   'ppo_actor/update/ratio/max': 1.5, 'ppo_actor/update/ratio/min': 0.5 }

const ofWorkers = [
  { 'rollout/reward': 0.25, 'rollout/reward__count': 4, 'rollout/accepted': 4 },
  { 'rollout/reward': 1, 'rollout/reward__count': 12, 'rollout/accepted': 10 },
];
console.log(tally.aggregateExports(ofWorkers, { totals: ['rollout/accepted'] }));
// { 'rollout/accepted': 14, 'rollout/reward': 0.8125, 'rollout/reward__count': 16 }

const ingest = new tally.StreamIngest({ expectedWorkers: 1 });
const emitter = new tally.StreamEmitter(new tally.InProcessTransport(ingest), { workerId: 'rollout-0' });
await tally.withRollout({ isEval: true, taskId: 3 }, async () => {
  await ratio.data(); // an episode
  tally.reportEpisode(emitter, { outcome: 'accepted', values: { reward: 1 } });
});
await emitter.close();
console.log(ingest.export()); // { 'eval-rollout/accepted': 1, 'eval-rollout/reward': 1, … }

const logger = await tally.StatsLogger.create({
  experimentName: 'gsm8k-grpo',
  trialName: 'trial0',
  fileroot: 'runs',
  console: false,
});
tracker.scalar({ lr: 1e-6 });
const { lastCommitStep } = logger.stateDict();
await logger.commit(0, 0, lastCommitStep + 1, await tally.exportAll());
console.log(logger.stateDict()); // { lastCommitStep: 0 }
await logger.close();
