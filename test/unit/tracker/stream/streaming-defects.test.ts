/**
 * The ways in which AReaL's streaming of rollout statistics loses or mixes numbers, S1 to S8 (4aef98d8d), and what
 * happens to the same records here.
 */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { KeyConflictError } from '../../../../src/errors.js';
import { Moments, initBackend, momentsTables } from '../../../../src/kernels/index.js';
import { aggregateExports } from '../../../../src/tracker/export/aggregate-exports.js';
import { reportEpisode, rolloutKey, withRollout } from '../../../../src/tracker/rollout-context.js';
import { StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { InProcessTransport } from '../../../../src/tracker/stream/in-process-transport.js';
import { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import { mask, values } from '../tensors.js';
import { recordsOf, transport } from './workers.js';

beforeAll(async () => {
  await initBackend('cpu');
});

/** A controller and some workers. */
function stream(workers: number): {
  ingest: StreamIngest;
  emitters: StreamEmitter[];
  flush: () => Promise<unknown>;
} {
  const ingest = new StreamIngest();
  const emitters = Array.from(
    { length: workers },
    (_, i) => new StreamEmitter(new InProcessTransport(ingest), { workerId: `rollout-${i}` }),
  );
  return { ingest, emitters, flush: () => Promise.all(emitters.map((emitter) => emitter.flush())) };
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('S1 · accepted and rejected', () => {
  test('are counters: what is exported is how many there were', async () => {
    const { ingest, emitters, flush } = stream(2);
    for (let i = 0; i < 7; i++) emitters[0]!.counter({ 'rollout/accepted': 1 });
    for (let i = 0; i < 5; i++) emitters[1]!.counter({ 'rollout/accepted': 1 });
    emitters[0]!.counter({ 'rollout/rejected': 2 });
    await flush();
    expect(recordsOf(ingest)).toEqual({ 'rollout/accepted': 12, 'rollout/rejected': 2 });
  });

  test('keep their counts in merged exports, where they come as means of ones', () => {
    const worker = (n: number): Record<string, number> => ({
      'rollout/accepted': 1,
      'rollout/accepted__count': n,
    });
    expect(aggregateExports([worker(7), worker(5)])['rollout/accepted__count']).toBe(12);
  });
});

describe('S2 · training and evaluation', () => {
  test('that run beside each other through one workflow never write the same key', async () => {
    const { ingest, emitters, flush } = stream(1);
    const workflow = async (reward: number): Promise<void> => {
      await tick();
      reportEpisode(emitters[0]!, { outcome: reward > 0 ? 'accepted' : 'rejected', values: { reward } });
      await tick();
      emitters[0]!.scalar({ [rolloutKey('num_turns')]: 2 });
    };
    await Promise.all([
      withRollout({ isEval: false, taskId: 1 }, () => workflow(1)),
      withRollout({ isEval: true, taskId: 2 }, () => workflow(0)),
      withRollout({ isEval: false, taskId: 3 }, () => workflow(0)),
      withRollout({ isEval: true, taskId: 4 }, () => workflow(3)),
      withRollout({ isEval: true, taskId: 5 }, () => workflow(6)),
    ]);
    await flush();
    expect(recordsOf(ingest)).toEqual({
      'rollout/accepted': 1,
      'rollout/rejected': 1,
      'rollout/reward': 0.5,
      'rollout/reward__count': 2,
      'rollout/effective/reward': 1,
      'rollout/effective/reward__count': 1,
      'rollout/num_turns': 2,
      'rollout/num_turns__count': 2,
      'eval-rollout/accepted': 2,
      'eval-rollout/rejected': 1,
      'eval-rollout/reward': 3,
      'eval-rollout/reward__count': 3,
      'eval-rollout/effective/reward': 4.5,
      'eval-rollout/effective/reward__count': 2,
      'eval-rollout/num_turns': 2,
      'eval-rollout/num_turns__count': 3,
    });
  });

  test('a key that is recorded in two ways is refused, not overwritten', async () => {
    const { ingest, emitters } = stream(2);
    emitters[0]!.counter({ 'rollout/accepted': 7 });
    emitters[1]!.scalar({ 'rollout/accepted': 1 });
    await emitters[0]!.flush();
    await expect(emitters[1]!.flush()).rejects.toThrow(KeyConflictError);
    expect(recordsOf(ingest, false)).toEqual({ 'rollout/accepted': 7 });
    expect(ingest.health().refused).toBe(1);
  });
});

describe('S3 · tensor statistics of a worker', () => {
  test('arrive as rows and are exported with their averages, extremes and denominators', async () => {
    const { ingest, emitters, flush } = stream(2);
    for (const [i, emitter] of emitters.entries()) {
      const [entropy, tokens] = [values(i + 1, 100, i + 3), mask(1, 0, 1)];
      const tables = await momentsTables({ entropy }, tokens);
      tf.dispose([entropy, tokens]);
      const row = tables.entropy.total();
      emitter.merge([
        { key: 'rollout/entropy', reduction: 'avg_min_max', row },
        { key: 'rollout/n_tokens', reduction: 'denominator', row },
      ]);
    }
    await flush();
    expect(recordsOf(ingest)).toEqual({
      'rollout/entropy/avg': 2.5,
      'rollout/entropy/min': 1,
      'rollout/entropy/max': 4,
      'rollout/n_tokens': 4,
    });
  });
});

describe('S4 · a lost answer or a worker that fails', () => {
  test('loses nothing and counts nothing twice, and leaves the others alone', async () => {
    const ingest = new StreamIngest({ expectedWorkers: ['fine', 'unlucky', 'dead'] });
    let answersLost = 2;
    const fine = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'fine' });
    const unlucky = new StreamEmitter(
      transport((delta) => {
        const answer = ingest.receive(delta);
        if (answersLost-- > 0) throw new Error('socket hang up');
        return answer;
      }),
      { workerId: 'unlucky' },
    );
    fine.scalar({ 'rollout/reward': 1 });
    unlucky.scalar({ 'rollout/reward': 4 });
    const settled = await Promise.allSettled([fine.flush(), unlucky.flush()]);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    await expect(unlucky.flush()).rejects.toThrow('socket hang up');
    unlucky.scalar({ 'rollout/reward': 7 });
    await unlucky.flush();
    expect(ingest.export()).toMatchObject({
      'rollout/reward': 4,
      'rollout/reward__count': 3,
      'stream/workers_seen': 2,
      'stream/workers_expected': 3,
      'stream/duplicates': 2,
      'stream/lost': 0,
    });
  });
});

describe('S5 · NaN, missing values, extremes and deviations', () => {
  test('a NaN shows in the mean, and the row still knows all finite samples', async () => {
    const { ingest, emitters, flush } = stream(2);
    for (const reward of [1, 5, NaN]) emitters[0]!.scalar({ 'rollout/reward': reward });
    for (const reward of [3, Infinity]) emitters[1]!.scalar({ 'rollout/reward': reward });
    await flush();
    expect(ingest.export({ reset: false })).toMatchObject({
      'rollout/reward': NaN,
      'rollout/reward__count': 5,
    });
    const { row } = ingest.rows()[0]!;
    expect(row).toMatchObject({ count: 5, nan: 1, posInf: 1 });
    const finite = new Moments(row, 'ignore');
    expect(finite).toMatchObject({ count: 3, mean: 3, min: 1, max: 5 });
    expect(finite.std()).toBe(2);
  });

  test('no value is refused where it is recorded, and costs the episode nothing else', async () => {
    const { ingest, emitters, flush } = stream(1);
    expect(() => {
      emitters[0]!.scalar({ 'rollout/reward': null as unknown as number });
    }).toThrow('rollout/reward: expected a number, got null; leave the key out when there is no value');
    emitters[0]!.counter({ 'rollout/failed': 1 });
    await flush();
    expect(recordsOf(ingest)).toEqual({ 'rollout/failed': 1 });
  });

  test('extremes are exported where they are asked for', async () => {
    const { ingest, emitters, flush } = stream(2);
    for (const [i, x] of [3, 9, 1, 7].entries()) {
      emitters[i % 2]!.scalar({ 'rollout/length': x }, { reduceType: 'avg_min_max' });
    }
    await flush();
    expect(recordsOf(ingest)).toEqual({
      'rollout/length/avg': 5,
      'rollout/length/min': 1,
      'rollout/length/max': 9,
    });
  });
});

describe('S6 · the populations behind a reward', () => {
  test('are explicit: all episodes with a reward, those that are trained on, and those that failed', async () => {
    const { ingest, emitters, flush } = stream(1);
    const [emitter] = emitters;
    reportEpisode(emitter!, { outcome: 'accepted', values: { reward: 1 } });
    reportEpisode(emitter!, { outcome: 'accepted', values: { reward: 0.5 } });
    reportEpisode(emitter!, { outcome: 'rejected', values: { reward: 0 } });
    reportEpisode(emitter!, { outcome: 'failed' });
    await flush();
    expect(recordsOf(ingest)).toEqual({
      'rollout/reward': 0.5,
      'rollout/reward__count': 3,
      'rollout/effective/reward': 0.75,
      'rollout/effective/reward__count': 2,
      'rollout/accepted': 2,
      'rollout/rejected': 1,
      'rollout/failed': 1,
    });
  });
});

describe('S7 · what a worker holds', () => {
  test('does not grow with samples: one row per key, and one delta of a bounded size', async () => {
    const sizes: number[] = [];
    const emitter = new StreamEmitter(
      transport((delta) => {
        sizes.push(delta.length);
        return { status: 'accepted' };
      }),
      { workerId: 'w' },
    );
    for (const samples of [1, 20_000]) {
      for (let i = 0; i < samples; i++) emitter.scalar({ reward: i, num_turns: 1 });
      expect(emitter.status().waitingRows).toBe(2);
      await emitter.flush();
    }
    // The first one has brought the names along.
    expect(sizes[1]).toBeLessThan(sizes[0]!);
  });
});

describe('S8 · late samples', () => {
  test('are told by the version of the policy that made them, not by the step in which they arrive', async () => {
    const { ingest, emitters, flush } = stream(2);
    emitters[0]!.scalar({ 'rollout/reward': 1 }, { policyVersion: 7 });
    await flush();
    const onTime = ingest.export({ policyVersion: 7 });
    emitters[0]!.scalar({ 'rollout/reward': 10 }, { policyVersion: 8 });
    emitters[1]!.scalar({ 'rollout/reward': 3 }, { policyVersion: 7 });
    await flush();
    const next = ingest.export({ policyVersion: 8 });
    expect([onTime['rollout/reward'], next['rollout/reward'], next['rollout/reward__count']]).toEqual([
      1, 10, 1,
    ]);
    expect(ingest.policyVersions()).toEqual([7]);
    expect(ingest.export({ policyVersion: 7 })).toMatchObject({
      'rollout/reward': 3,
      'rollout/reward__count': 1,
    });
  });
});
