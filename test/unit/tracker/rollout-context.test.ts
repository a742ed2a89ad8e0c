/** Training and evaluation are told apart by the asynchronous context, whatever runs beside it. */
import { EventEmitter } from 'node:events';
import { describe, expect, test } from 'vitest';
import { KeyConflictError, MissingInputError, ValueError } from '../../../src/errors.js';
import { StatsTracker } from '../../../src/tracker/index.js';
import {
  currentRollout,
  reportEpisode,
  rolloutKey,
  rolloutScope,
  withRollout,
} from '../../../src/tracker/rollout-context.js';

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('withRollout', () => {
  test('gives its context to everything that runs inside, and to nothing else', async () => {
    const seen: string[] = [];
    const task = async (isEval: boolean): Promise<void> => {
      await withRollout({ isEval, taskId: isEval ? 'e' : 't' }, async () => {
        for (let i = 0; i < 3; i++) {
          await tick();
          seen.push(`${rolloutScope()}:${currentRollout()?.taskId}`);
        }
      });
    };
    await Promise.all([task(true), task(false), task(true)]);
    expect(seen.filter((one) => one === 'eval-rollout:e')).toHaveLength(6);
    expect(seen.filter((one) => one === 'rollout:t')).toHaveLength(3);
    expect(currentRollout()).toBeUndefined();
    expect(rolloutScope()).toBe('rollout');
  });

  test('reaches tasks that nobody awaits, timers and generators, and ends with a body that throws', async () => {
    const late: string[] = [];
    const generate = function* (): Generator<string> {
      for (;;) yield rolloutScope();
    };
    let generator: Generator<string> | undefined;
    expect(() =>
      withRollout({ isEval: true }, () => {
        void tick().then(() => late.push(rolloutScope()));
        setTimeout(() => late.push(rolloutScope()), 0);
        generator = generate();
        throw new Error('a body that fails');
      }),
    ).toThrow('a body that fails');
    expect(rolloutScope()).toBe('rollout');
    expect(generator!.next().value).toBe('rollout');
    expect(withRollout({ isEval: true }, () => generator!.next().value as string)).toBe('eval-rollout');
    await new Promise((resolve) => setTimeout(resolve, 1));
    await tick();
    expect(late).toEqual(['eval-rollout', 'eval-rollout']);
  });

  test('the innermost counts, and returns what its body returns', () => {
    const outcome = withRollout({ isEval: true, taskId: 1 }, () => [
      rolloutKey('reward'),
      withRollout({ isEval: false }, () => [rolloutKey('reward'), currentRollout()]),
      rolloutKey('reward'),
    ]);
    expect(outcome).toEqual([
      'eval-rollout/reward',
      ['rollout/reward', { isEval: false, taskId: undefined }],
      'eval-rollout/reward',
    ]);
  });

  test('follows an event to where it is emitted, as asynchronous context does', () => {
    const events = new EventEmitter();
    const seen: string[] = [];
    withRollout({ isEval: true }, () => events.on('done', () => seen.push(rolloutScope())));
    events.emit('done');
    withRollout({ isEval: true }, () => events.emit('done'));
    expect(seen).toEqual(['rollout', 'eval-rollout']);
  });

  test('refuses a context that does not say what it is', () => {
    const body = (): number => 1;
    expect(() => withRollout(undefined as never, body)).toThrow(MissingInputError);
    expect(() => withRollout({} as never, body)).toThrow(
      'context.isEval: expected true or false, got undefined',
    );
    expect(() => withRollout({ isEval: 1 } as never, body)).toThrow(ValueError);
    expect(() => withRollout({ isEval: true, taskId: {} } as never, body)).toThrow('context.taskId');
    expect(() => withRollout({ isEval: true }, undefined as never)).toThrow(MissingInputError);
    expect(() => rolloutKey('')).toThrow(ValueError);
  });
});

describe('reportEpisode', () => {
  test('records nothing of an invalid episode', () => {
    const calls: unknown[] = [];
    const recorder = {
      scalar: (values: object) => calls.push(values),
      counter: (values: object) => calls.push(values),
    };
    expect(() => {
      reportEpisode(recorder, { outcome: 'done' as never });
    }).toThrow("episode.outcome: expected one of 'accepted', 'rejected', 'failed', got the text 'done'");
    expect(() => {
      reportEpisode(recorder, { outcome: 'accepted', values: { reward: null as never } });
    }).toThrow("episode.values['reward']: expected a number, got null");
    for (const name of ['accepted', 'rejected', 'failed', 'effective/reward', '']) {
      for (const outcome of ['accepted', 'failed'] as const) {
        expect(() => {
          reportEpisode(recorder, { outcome, values: { reward: 1, [name]: 1 } });
        }, name).toThrow(ValueError);
      }
    }
    expect(() => {
      reportEpisode({} as never, { outcome: 'accepted' });
    }).toThrow(MissingInputError);
    expect(calls).toEqual([]);
  });

  test('records all or nothing where the recorder refuses one of its keys', async () => {
    const episode = { outcome: 'accepted', values: { reward: 1 } } as const;
    const counters = new StatsTracker();
    counters.scalar({ 'rollout/accepted': 7 });
    expect(() => {
      reportEpisode(counters, episode);
    }).toThrow(KeyConflictError);
    expect(await counters.export()).toEqual({ 'rollout/accepted': 7, 'rollout/accepted__count': 1 });
    const scalars = new StatsTracker();
    scalars.counter({ 'rollout/effective/reward': 7 });
    expect(() => {
      reportEpisode(scalars, episode);
    }).toThrow(KeyConflictError);
    expect(await scalars.export()).toEqual({ 'rollout/accepted': 0, 'rollout/effective/reward': 7 });
    const full = new StatsTracker('', { maxKeys: 2 });
    expect(() => {
      reportEpisode(full, episode);
    }).toThrow(/at most 2 keys/);
    expect(await full.export()).toEqual({ 'rollout/accepted': 0 });
  });

  test('writes to a tracker at its root, training and evaluation apart', async () => {
    const tracker = new StatsTracker();
    reportEpisode(tracker, { outcome: 'accepted', values: { reward: 1, solved: true } });
    reportEpisode(tracker, { outcome: 'rejected', values: { reward: 0, solved: false } });
    await withRollout({ isEval: true }, async () => {
      await tick();
      reportEpisode(tracker, { outcome: 'failed' });
    });
    expect(await tracker.export()).toEqual({
      ...{ 'eval-rollout/failed': 1, 'rollout/accepted': 1, 'rollout/rejected': 1 },
      ...{ 'rollout/reward': 0.5, 'rollout/reward__count': 2 },
      ...{ 'rollout/solved': 0.5, 'rollout/solved__count': 2 },
      ...{ 'rollout/effective/reward': 1, 'rollout/effective/reward__count': 1 },
      ...{ 'rollout/effective/solved': 1, 'rollout/effective/solved__count': 1 },
    });
  });
});
