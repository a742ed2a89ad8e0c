/**
 * Which rollout the running code belongs to: training or evaluation, and of which task.
 *
 * It follows the asynchronous context, so that one workflow serves both without being told, and their numbers never meet
 * under one key.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { assertFunction, assertNamed, assertOptions, kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import { processWide } from '../process-wide.js';
import { begun } from '../promises.js';

/** What a task is run for. */
export interface RolloutContext {
  /** Evaluation, whose samples nobody trains on. */
  readonly isEval: boolean;
  readonly taskId?: string | number | undefined;
}

/** First level of the keys of a rollout, and the name of its tracker. */
export type RolloutScope = 'rollout' | 'eval-rollout';

/** One per process: what one copy of the package runs as evaluation is evaluation for the other. */
const contexts = processWide('rollout-context', 1, () => new AsyncLocalStorage<RolloutContext>());

/**
 * Runs a task as a rollout: everything that `fn` does, awaits or starts has this context, and nothing else has.
 *
 * @param context `isEval`: whether it is evaluation; `taskId`: for logs and traces
 * @returns what `fn` returns, a promise included
 * @throws MissingInputError or ValueError for an invalid context or function
 * @example
 *   await withRollout({ isEval: true, taskId: 7 }, async () => {
 *     const episode = await play(); // anywhere below: rolloutScope() === 'eval-rollout'
 *     reportEpisode(emitter, { outcome: 'accepted', values: { reward: episode.reward } });
 *   });
 */
export function withRollout<T>(context: RolloutContext, fn: () => T): T {
  assertNamed('withRollout', 'context', context, {
    expected: 'an object with isEval',
    remedy: 'call it as withRollout({ isEval: false }, () => …)',
  });
  assertOptions('withRollout', context, { isEval: 'boolean', taskId: 'any' }, 'context');
  const { isEval, taskId } = context;
  if (typeof (isEval as boolean | undefined) !== 'boolean') {
    throw refusal('withRollout', 'context.isEval', 'true or false', isEval, 'say what the task is run for');
  }
  if (taskId !== undefined && typeof taskId !== 'string' && typeof taskId !== 'number') {
    throw refusal(
      'withRollout',
      'context.taskId',
      'a text or a number',
      taskId,
      'leave it out if there is none',
    );
  }
  assertFunction('withRollout', 'fn', fn);
  return contexts.run(Object.freeze({ isEval, taskId }), () => begun(fn()));
}

/** The rollout that the calling code belongs to; undefined outside of any. */
export function currentRollout(): RolloutContext | undefined {
  return contexts.getStore();
}

/**
 * Where numbers of the calling code belong: `eval-rollout` in an evaluation, `rollout` in a training rollout and outside
 * of any. The name for `getTracker`, and the first level of the keys of a `StreamEmitter`.
 */
export function rolloutScope(): RolloutScope {
  return contexts.getStore()?.isEval === true ? 'eval-rollout' : 'rollout';
}

/** The full key of a number of the current rollout, e.g. `eval-rollout/reward`. */
export function rolloutKey(name: string): string {
  if (typeof name !== 'string' || name === '') {
    throw refusal('rolloutKey', 'name', 'a text that is not empty', name, "name the number, e.g. 'reward'");
  }
  return `${rolloutScope()}/${name}`;
}

/** How an episode ended; each outcome is a counter of its own. */
const OUTCOMES = ['accepted', 'rejected', 'failed'] as const;
export type EpisodeOutcome = (typeof OUTCOMES)[number];

export interface Episode {
  /** `accepted` into training, `rejected` by a filter, or `failed` before it had anything to show. */
  readonly outcome: EpisodeOutcome;
  /** What was measured, by name: none that `reportEpisode` writes itself. */
  readonly values?: Readonly<Record<string, number | boolean>> | undefined;
}

/** What takes full keys: a `StreamEmitter`, or a `StatsTracker` without a name that is not inside of a scope of its own. */
export interface EpisodeRecorder {
  scalar(values: Record<string, number | boolean>): void;
  counter(values: Record<string, number>): void;
}

/** Below it is what accepted episodes have. */
const EFFECTIVE = 'effective/';

/**
 * Records one episode of the current rollout, so that every mean names its population.
 *
 * Writes `<scope>/<name>` over all episodes that have the value, whatever became of them, and
 * `<scope>/effective/<name>` over accepted ones, which is what training sees; and one of the counters
 * `<scope>/accepted`, `<scope>/rejected` and `<scope>/failed`, whose sum is the number of episodes attempted.
 *
 * @param recorder where the records go
 * @throws MissingInputError or ValueError for an invalid episode, also one with a value under a name that is written
 *   here: an outcome, or one that begins with `effective/`; what the recorder refuses with, such as KeyConflictError for
 *   a key that is something else in it. No value is recorded then and no episode counted
 */
export function reportEpisode(recorder: EpisodeRecorder, episode: Episode): void {
  assertNamed('reportEpisode', 'recorder', recorder, {
    expected: 'a StreamEmitter or a StatsTracker',
    remedy: 'pass the emitter of this worker, or the tracker of this process',
  });
  const { scalar, counter } = recorder as unknown as Readonly<Record<string, unknown>>;
  assertFunction('reportEpisode', 'recorder.scalar', scalar);
  assertFunction('reportEpisode', 'recorder.counter', counter);
  assertNamed('reportEpisode', 'episode', episode, {
    expected: 'an object with outcome and values',
    remedy: "call it as reportEpisode(emitter, { outcome: 'accepted', values: { reward: … } })",
  });
  assertOptions('reportEpisode', episode, { outcome: 'any', values: 'object' }, 'episode');
  const { outcome, values = {} } = episode;
  if (!OUTCOMES.includes(outcome)) {
    const expected = `one of ${OUTCOMES.map((name) => `'${name}'`).join(', ')}`;
    throw refusal('reportEpisode', 'episode.outcome', expected, outcome, 'say what became of the episode');
  }
  const scope = rolloutScope();
  const numbers: Record<string, number | boolean> = {};
  for (const [name, x] of Object.entries(values)) {
    assertEpisodeValue(name, x);
    numbers[`${scope}/${name}`] = x;
    if (outcome === 'accepted') numbers[`${scope}/${EFFECTIVE}${name}`] = x;
  }
  const counted = `${scope}/${outcome}`;
  // Two calls make one record: whatever the second could refuse is refused before the first, by counting nothing.
  recorder.counter({ [counted]: 0 });
  if (Object.keys(numbers).length > 0) recorder.scalar(numbers);
  recorder.counter({ [counted]: 1 });
}

function assertEpisodeValue(name: string, x: unknown): void {
  if ((OUTCOMES as readonly string[]).includes(name) || name.startsWith(EFFECTIVE) || name === '') {
    const expected = `a name other than ${OUTCOMES.map((taken) => `'${taken}'`).join(', ')} and '${EFFECTIVE}…'`;
    throw refusal('reportEpisode', 'episode.values', expected, name, 'rename it; these are written for you');
  }
  if (typeof x === 'number' || typeof x === 'boolean') return;
  throw refusal('reportEpisode', `episode.values['${name}']`, 'a number', x, 'leave it out if there is none');
}

function refusal(
  where: string,
  input: string,
  expected: string,
  received: unknown,
  remedy: string,
): ValueError {
  return new ValueError({ where, input, expected, received: kindOf(received), remedy });
}
