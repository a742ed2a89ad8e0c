/** Two copies of the package in one process: what must be one is, and the rest does not get in each other's way. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test, vi } from 'vitest';

import * as ours from '../../src/index.js';
import { processWide } from '../../src/process-wide.js';

vi.resetModules();
const theirs = await import('../../src/index.js');

await ours.initBackend('cpu');

test('they are two copies', () => {
  expect(theirs.StatsTracker).not.toBe(ours.StatsTracker);
  expect(theirs.ValueError).not.toBe(ours.ValueError);
});

test('what one runs as evaluation is evaluation for the other, through awaits', async () => {
  await ours.withRollout({ isEval: true, taskId: 7 }, async () => {
    await Promise.resolve();
    expect(theirs.rolloutScope()).toBe('eval-rollout');
    expect(theirs.currentRollout()).toEqual({ isEval: true, taskId: 7 });
    theirs.withRollout({ isEval: false }, () => {
      expect(ours.rolloutScope()).toBe('rollout');
    });
  });
  expect(theirs.rolloutScope()).toBe('rollout');
});

test('trackers of one name are one, scopes and masks of the other copy included, and are exported together', async () => {
  expect(theirs.getTracker('ppo')).toBe(ours.getTracker('ppo'));
  ours.getTracker('ppo').scalar({ loss: 1 });
  theirs.getTracker('ppo').scope('update', () => {
    ours.getTracker('ppo').scalar({ loss: 3 });
  });
  const mask = tf.tensor1d([1, 0, 1], 'bool');
  const values = tf.tensor1d([2, 100, 4]);
  const theirTracker = theirs.getTracker('ppo');
  theirTracker.denominator({ n: mask });
  theirTracker.stat({ reward: values }, { denominator: 'n' });
  expect(await theirs.exportAll()).toMatchObject({
    'ppo/loss': 1,
    'ppo/update/loss': 3,
    'ppo/reward/avg': 3,
  });
  expect(await ours.exportAll()).toEqual({});
});

test('errors, trackers and compact masks of one are instances of the classes of the other', () => {
  let refusal: unknown;
  try {
    theirs.getTracker('ppo').scalar({ loss: 'high' as unknown as number });
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toBeInstanceOf(ours.ValueError);
  expect(refusal).toBeInstanceOf(theirs.ValueError);
  expect(refusal).toBeInstanceOf(ours.TensortallyError);
  expect(refusal).not.toBeInstanceOf(ours.ShapeError);
  expect(new Error('plain')).not.toBeInstanceOf(ours.TensortallyError);
  const detail = { where: 'w', expected: 'e', received: 'r', remedy: 'do' };
  expect(new ours.DisposedTensorError(detail)).toBeInstanceOf(theirs.MissingInputError);
  expect(new ours.MissingInputError(detail)).not.toBeInstanceOf(theirs.DisposedTensorError);

  const schema = theirs.defineMetrics({ kl: { denominator: 'n' }, n: 'denominator' } as never);
  expect(() => schema.on(ours.getTracker('schema') as never)).not.toThrow();
  expect(() => schema.on({} as never)).toThrow(theirs.ValueError);
});

test('what only its own copy can read is refused by a message that says so', async () => {
  const mask = tf.tensor1d([1, 0, 1], 'bool');
  const pending = theirs.maskedMoments(tf.tensor1d([2, 100, 4]), mask);
  await expect(ours.collect(pending as never)).rejects.toThrow(
    /got a Pending of another copy of tensortally \(`npm ls tensortally` lists them\)/,
  );
  await expect(theirs.collect(pending)).resolves.toMatchObject([{ count: 2, mean: 3 }]);
  const batch = { ...ours.batchFromVerl({}, { global_token_num: [8] }), batchSize: 1 };
  const state = await theirs.computeStepState(batch, { families: ['throughput'] });
  expect(() => ours.StepState.merge([state as never])).toThrow(/a StepState of another copy of tensortally/);
  expect(ours.StepState.fromBytes(state.toBytes()).rows).toBe(1);
});

test('metrics, histograms and explained variances of the other copy merge with ours', async () => {
  const [a, b] = [new ours.Metric('mean', 1), new theirs.Metric('mean', 4)];
  expect(ours.Metric.merge([a, b as never, b as never]).aggregate()).toBe(3);
  expect(ours.Metric.merge([b as never]).aggregate()).toBe(4);

  const ourHistogram = ours.Histogram.fromRow([2, 0, 0, 1, -3, 2, 5, 1]);
  const theirHistogram = theirs.Histogram.fromRow([2, 1, 0, 0, -3, 1, 7, 4]);
  const row = [2, 1, 0, 1, -3, 3, 5, 1, 7, 4];
  expect(ourHistogram.merge(theirHistogram as never).toJSON()).toEqual(row);
  expect(theirHistogram.merge(ourHistogram as never).toJSON()).toEqual(row);
  const ownMerge = ours.Histogram.empty.merge(theirHistogram).merge(ourHistogram);
  expect(ownMerge.toJSON()).toEqual(row);

  const [returns, values] = [tf.tensor1d([1, 2, 4]), tf.tensor1d([1, 2, 3])];
  const theirPart = await theirs.ExplainedVariance.of(returns, values);
  const merged = new ours.ExplainedVariance().merge(theirPart);
  expect(merged.value()).toBe(theirPart.value());
  expect(merged.count).toBe(3);
});

test('a subclass of an error is known by itself alone', () => {
  class MyError extends ours.ValueError {}
  const detail = { where: 'w', expected: 'e', received: 'r', remedy: 'do' };
  expect(new MyError(detail)).toBeInstanceOf(MyError);
  expect(new MyError(detail)).toBeInstanceOf(theirs.ValueError);
  expect(new theirs.ValueError(detail)).not.toBeInstanceOf(MyError);
});

test('their calls of initBackend wait for each other, and both report the same', async () => {
  const [a, b] = await Promise.all([ours.initBackend('wasm'), theirs.initBackend('cpu')]);
  expect([a.backend, b.backend]).toEqual(['wasm', 'cpu']);
  expect(ours.backendReport()).toEqual(theirs.backendReport());
});

test('another form of a structure is another thing, and a thing is made once', () => {
  const make = vi.fn(() => ({}));
  const first = processWide('test', 1, make);
  expect(processWide('test', 1, make)).toBe(first);
  expect(make).toHaveBeenCalledTimes(1);
  expect(processWide('test', 2, make)).not.toBe(first);
});
