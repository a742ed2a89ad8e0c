/** What a new user of the tracker gets wrong is told in the words that were typed, once, and with what to type. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsLogger, StatsTracker, ratio } from '../../../src/tracker/index.js';
import { StreamEmitter } from '../../../src/tracker/stream/emitter.js';

beforeAll(async () => {
  await initBackend('cpu');
});
afterEach(() => {
  vi.restoreAllMocks();
});

const warned = () => vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);

test('a misspelt denominator is named as typed, with the name to type', () => {
  for (const tracker of [new StatsTracker('a'), new StatsTracker('').child('a')]) {
    tracker.denominator({ n_valid: tf.ones([1, 2], 'bool') });
    expect(() => {
      tracker.stat({ x: tf.ones([1, 2]) }, { denominator: 'n_valids' });
    }).toThrow(/got 'n_valids', while 'n_valid' in this scope is known; did you mean 'n_valid'\?/);
    expect(() => {
      tracker.stat({ x: tf.ones([1, 2]) }, { denominator: 'n_valid' });
    }).not.toThrow();
  }
});

test('a number given to stat is sent to scalar', () => {
  const tracker = new StatsTracker('');
  tracker.denominator({ n: tf.ones([1, 2], 'bool') });
  expect(() => {
    tracker.stat({ x: 1 } as never, { denominator: 'n' });
  }).toThrow(/scalar\(\)/);
});

test('rows that are no list are told to come from await tracker.rows()', () => {
  const transport = { delivery: 'direct' as const, send: () => Promise.reject(new Error('no')) };
  const emitter = new StreamEmitter(transport, { workerId: 'w' });
  for (const wrong of [{ a: 1 }, Promise.resolve([])]) {
    expect(() => {
      emitter.merge(wrong as never);
    }).toThrow(/await tracker\.rows\(\)/);
  }
});

test('a derivation that has some of its inputs warns once of those that it lacks', async () => {
  const warnings = warned();
  const tracker = new StatsTracker('a', {
    derived: { misspelt: ratio('a/x', 'a/n'), absent: ratio('b/x', 'b/y') },
  });
  for (let i = 0; i < 2; i++) {
    tracker.scalar({ x: 1 });
    expect(await tracker.export()).toEqual({ 'a/x': 1, 'a/x__count': 1 });
  }
  expect(warnings).toHaveBeenCalledTimes(1);
  expect(String(warnings.mock.calls[0]![0])).toMatch(/'misspelt'.*'a\/n' is not exported/);
});

test('a commit without a number is warned of once, and one with a tensor says to read it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'told-to-a-user-'));
  const warnings = warned();
  const logger = await StatsLogger.create({
    experimentName: 'e',
    trialName: 't',
    fileroot: folder,
    console: false,
  });
  try {
    const promise = Promise.resolve({ a: 1 });
    // eslint-disable-next-line @typescript-eslint/no-misused-promises, @typescript-eslint/no-misused-spread -- the mistake that this is about
    for (const step of [0, 1]) await logger.commit(0, step, step, { ...promise } as never);
    expect(warnings).toHaveBeenCalledTimes(1);
    expect(String(warnings.mock.calls[0]![0])).toMatch(/no number.*await computeStepMetrics/);
    await expect(logger.commit(0, 2, 2, { x: tf.scalar(1) } as never)).rejects.toThrow(/read it first/);
  } finally {
    await logger.close();
    rmSync(folder, { recursive: true });
  }
});
