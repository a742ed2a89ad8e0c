/** Two copies of the package in one process: what must be one is, and the rest does not get in each other's way. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test, vi } from 'vitest';

import * as ours from '../../src/index.js';
import { processWide } from '../../src/kernels/process-wide.js';

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
