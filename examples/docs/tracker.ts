import * as tf from '@tensorflow/tfjs';
import * as tally from '../../src/index.js';

const mask = tf.tensor2d([1, 1, 0, 1, 1, 0], [2, 3], 'bool'); // [batch, seq_len]: the tokens that count
const clipped = tf.tensor2d([0, 1, 0, 0, 0, 0], [2, 3], 'bool');
const advantages = tf.tensor2d([1, 2, 9, 3, 6, 9], [2, 3]); // 9 is padding, which no mask selects
const loss = tf.tensor2d([0, 1, NaN, 2, 1, NaN], [2, 3]);
const trainStep = () => advantages.data(); // stands for yours

const tracker = new tally.StatsTracker('ppo_actor');
tracker.denominator({ n_valid_tokens: mask, clipped_tokens: clipped }); // bool tensors
tracker.stat({ advantages, loss }, { denominator: 'n_valid_tokens' }); // float32 tensors of the mask's shape
tracker.scalar({ grad_norm: 0.5 }); // plain numbers: their mean over calls, and grad_norm__count
tracker.counter({ accepted: 1 }); // a total, exact up to 2^53
await tracker.recordTiming('train_step', () => trainStep()); // timeperf/train_step, in seconds
console.log(await tracker.export());
// { 'ppo_actor/accepted': 1, 'ppo_actor/advantages/avg': 3, 'ppo_actor/advantages/max': 6,
//   'ppo_actor/advantages/min': 1, 'ppo_actor/clipped_tokens': 1, 'ppo_actor/grad_norm': 0.5,
//   'ppo_actor/grad_norm__count': 1, 'ppo_actor/loss/avg': 1, 'ppo_actor/loss/max': 2, 'ppo_actor/loss/min': 0,
//   'ppo_actor/n_valid_tokens': 4, 'timeperf/train_step': …, 'timeperf/train_step__count': 1 }

const valid = tracker.denominator('n_valid_tokens', mask);
tracker.scope('update', () => {
  valid.stat({ loss });
});
console.log(await tracker.export());
// { 'ppo_actor/n_valid_tokens': 4,
//   'ppo_actor/update/loss/avg': 1, 'ppo_actor/update/loss/max': 2, 'ppo_actor/update/loss/min': 0 }

tracker.scalar({ loss: 2 }, { weight: 10 }); // a mean over 10 tokens
tracker.scalar({ loss: 1 }, { weight: 1000 }); // a mean over 1000
console.log(await tracker.export()); // { 'ppo_actor/loss': 1.0099, 'ppo_actor/loss__count': 1010 }

const critic = tally.getTracker('critic'); // one per name and process
critic.child('update').scalar({ lr: 1e-5 }, { reduceType: 'last' });
await critic.scope('epoch', async () => {
  await trainStep();
  critic.scalar({ steps: 1 }, { reduceType: 'sum' });
});
console.log(await tally.exportAll()); // { 'critic/epoch/steps': 1, 'critic/update/lr': 0.00001 }

const actor = new tally.StatsTracker('', {
  windows: ['step', 'epoch'], // one record call feeds both; export({ window: 'epoch' }) drains only its own
  nonFinite: 'ignore', // or 'propagate', 'error'; 'k/nonfinite' says how many elements were NaN or infinite
  derived: {
    clip_fraction: tally.ratio('clipped_tokens', 'n_valid_tokens'), // after the reduction, so never averaged
    ppl: tally.perplexity('loss'),
  },
});
actor.denominator({ n_valid_tokens: mask, clipped_tokens: clipped });
actor.stat({ loss }, { denominator: 'n_valid_tokens' });
console.log(await actor.export()); // { clip_fraction: 0.25, 'loss/avg': 1, ppl: 2.718, … }
console.log(await actor.export()); // {}
console.log(await actor.export({ window: 'epoch' })); // { clip_fraction: 0.25, 'loss/avg': 1, ppl: 2.718, … }

const logger = await tally.StatsLogger.create({
  experimentName: 'gsm8k',
  trialName: 'trial0',
  fileroot: 'runs',
});
tracker.scalar({ reward: 0.5 });
const [epoch, step, globalStep] = [0, 0, 0];
await logger.commit(epoch, step, globalStep, await tracker.export());
await logger.close();

const { commits, superseded, unreadable } = await tally.readJournal('runs/logs/gsm8k/trial0/metrics.jsonl');
console.log([commits.at(-1)?.data['ppo_actor/reward'], superseded.length, unreadable]); // [0.5, 0, 0]

const metrics = tally.defineMetrics({
  n_valid_tokens: 'denominator',
  loss: { denominator: 'n_valid_tokens' },
  advantages: { denominator: 'n_valid_tokens', reduceType: 'histogram' },
  lr: 'last',
});
const records = metrics.on(tracker.child('update'));
records.denominator({ n_valid_tokens: mask });
records.stat('n_valid_tokens', { loss, advantages }); // another name does not compile
const exported = metrics.read<'ppo_actor/update'>(await tracker.export());
console.log(exported['ppo_actor/update/loss/avg']); // 1

// controller, here in the same process
const ingest = new tally.StreamIngest({ expectedWorkers: 1 });
const transport = new tally.InProcessTransport(ingest);

// worker
const emitter = new tally.StreamEmitter(transport, { workerId: 'rollout-7', flushIntervalMs: 1000 });
await tally.withRollout({ isEval: false, taskId: 'gsm8k-17' }, async () => {
  await trainStep(); // plays an episode, anywhere below
  tally.reportEpisode(emitter, { outcome: 'accepted', values: { reward: 1 } });
});
const onWorker = new tally.StatsTracker();
onWorker.scalar({ 'rollout/tokens': 512 });
emitter.merge(await onWorker.rows()); // what a tracker on the worker has: averages, extremes, counts
await emitter.close(); // before the worker ends: delivers what waits

// controller
console.log(ingest.export());
// { 'rollout/accepted': 1, 'rollout/reward': 1, 'rollout/reward__count': 1, 'rollout/tokens': 512,
//   'stream/workers_seen': 1, … }

const ofWorkers = [
  { reward: 0.5, reward__count: 10, accepted: 3 },
  { reward: 1, reward__count: 30, accepted: 4 },
];
const totals = ['accepted'];
console.log(tally.aggregateExports(ofWorkers, { totals })); // { accepted: 7, reward: 0.875, reward__count: 40 }
