/** A promise where a value belongs is refused, and the refusal says to await it. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TensortallyError } from '../../../src/errors.js';
import { StepState, batchFromVerl, computeDataMetrics, reduceMetrics } from '../../../src/metrics/index.js';
import { StatsLogger, StatsTracker, aggregateExports } from '../../../src/tracker/index.js';

let folder: string;
let logger: StatsLogger;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'forgotten-await-'));
  logger = await StatsLogger.create({
    ...{ experimentName: 'e', trialName: 't', fileroot: folder, console: false },
  });
});

afterEach(async () => {
  await logger.close();
  rmSync(folder, { recursive: true });
});

describe('a promise as the data of a commit', () => {
  const promised = (): never => Promise.resolve({ a: 1 }) as never;

  it.each<[string, () => unknown]>([
    ['alone', promised],
    ['in a list', () => [{ a: 1 }, promised()]],
    ['as a number', () => ({ a: promised() as unknown })],
    ['that only has a then', () => ({ then: () => undefined })],
  ])('%s is refused, and the step is not taken', async (_, data) => {
    await expect(logger.commit(0, 0, 0, data() as never)).rejects.toThrow(/got a Promise.*; await it first;/);
    await logger.commit(0, 0, 0, { a: 1 });
    await logger.close();
    const lines = readFileSync(join(logger.folder, 'metrics.jsonl'), 'utf8');
    expect(lines).toContain('"a":1');
    expect(lines).not.toContain('"data":{}');
  });

  it('is refused in the place of the step, too', async () => {
    const commit = logger.commit.bind(logger) as (...args: unknown[]) => Promise<void>;
    await expect(commit(0, 0, promised())).rejects.toThrow(
      /globalStep: .*got a Promise; await it first; call it as commit\(epoch, step, globalStep, data\)/,
    );
    await expect(commit(0, 0, { a: 1 })).rejects.toThrow(
      /call it as commit\(epoch, step, globalStep, data\)/,
    );
  });

  it.each([new Date(), new WeakMap(), new AbortController()])(
    '%s, which lists nothing, is none',
    async (data) => {
      await expect(logger.commit(0, 0, 0, data as never)).rejects.toThrow(/expected a record of numbers/);
    },
  );

  it('is none, but numbers of a class are', async () => {
    class Stats {
      readonly a = 1;
    }
    await logger.commit(0, 0, 0, new Stats() as never);
    await logger.commit(0, 1, 1, Object.assign(Object.create(null), { a: 1 }) as never);
    await logger.commit(0, 2, 2, {});
  });
});

it.each<[string, (promise: never) => unknown]>([
  ['a batch', (promise) => computeDataMetrics(promise)],
  ['columns', (promise) => batchFromVerl(promise)],
  ['a column', (promise) => batchFromVerl({ response_mask: promise })],
  ['a scalar', (promise) => { new StatsTracker().scalar({ a: promise }); }], // prettier-ignore
  ['scalars', (promise) => { new StatsTracker().scalar(promise); }], // prettier-ignore
  ['a weight', (promise) => { new StatsTracker().scalar({ a: 1 }, { weight: promise }); }], // prettier-ignore
  ['a counter', (promise) => { new StatsTracker().counter({ a: promise }); }], // prettier-ignore
  ['a mask', (promise) => { new StatsTracker().denominator({ a: promise }); }], // prettier-ignore
  ['options', (promise) => { new StatsTracker().scalar({ a: 1 }, promise); }], // prettier-ignore
  ['an export of a worker', (promise) => aggregateExports([promise])],
  ['exports', (promise) => aggregateExports(promise)],
  ['metrics of steps', (promise) => reduceMetrics(promise)],
  ['bytes of a state', (promise) => StepState.fromBytes(promise)],
  ['a state', (promise) => StepState.merge([promise])],
])('a promise of %s is to be awaited first', async (_, use) => {
  const refusal = await Promise.resolve()
    .then(() => use(Promise.resolve() as never))
    .catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(TensortallyError);
  expect(refusal).toMatchObject({ remedy: expect.stringMatching(/^await it first; /) as string });
});
