/**
 * Every public function with every kind of value in every parameter: what it does not take it refuses with a typed
 * error that names the input, and never with whatever JavaScript throws on the way.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as tensortally from '../../../src/index.js';
import { TensortallyError } from '../../../src/index.js';
import { histogramCalls } from './histogram-calls.js';
import { kernelCalls } from './kernel-calls.js';
import { loggerCalls } from './logger-calls.js';
import { metricsCalls } from './metrics-calls.js';
import { type Kind, type Row, type Rows, VALUES } from './row.js';
import { streamCalls } from './stream-calls.js';
import { trackerCalls } from './tracker-calls.js';

const folder = mkdtempSync(join(tmpdir(), 'bad-arguments-'));
const ROWS: Rows = {
  ...kernelCalls,
  ...histogramCalls,
  ...metricsCalls,
  ...trackerCalls,
  ...streamCalls,
  ...loggerCalls(folder),
};

beforeAll(async () => {
  await tensortally.initBackend('cpu');
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** What is not in the table, and why. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  DenominatorHandle: 'made by TrackerHandle#denominator',
  MetricSchema: 'made by defineMetrics',
  CompactMask: 'made by compactMask',
  'CompactMask#release': 'takes no arguments',
  'CompactMask#stored': 'internal: what kernels read',
  isInRange: 'arithmetic on a number and a range of the catalogue: it checks nothing',
  'MetricSchema#read': 'a view for the compiler',
  DefinedMetrics: 'made by MetricSchema#on',
  ...Object.fromEntries(
    Object.entries(tensortally)
      .filter(([, given]) => typeof given !== 'function')
      .map(([key]) => [key, 'a value']),
  ),
  ...Object.fromEntries(
    Object.entries(tensortally)
      .filter(([key]) => key.endsWith('Error'))
      .map(([key]) => [key, 'an error, made by the package itself']),
  ),
  ...Object.fromEntries(
    ['backendReport', 'probeBackends', 'Pending#release', 'StatsTracker#dispose', 'StatsLogger#stateDict']
      .concat([
        'StatsLogger#close',
        'JsonlWriter#close',
        'ConsoleWriter#close',
        'Metric#aggregate',
        'StepState#toBytes',
        'StatsTracker#memory',
      ])
      .map((key) => [key, 'takes no arguments']),
  ),
  ...Object.fromEntries(
    ['currentRollout', 'rolloutScope', 'StreamEmitter#flush', 'StreamEmitter#close', 'StreamEmitter#status']
      .concat(['StreamIngest#policyVersions', 'StreamIngest#health'])
      .map((key) => [key, 'takes no arguments']),
  ),
  ...Object.fromEntries(
    ['Moments', 'MomentsTable', 'RowMoments', 'finiteCount', 'finiteMean', 'liftRow', 'mergeRows'].map(
      (key) => [key, 'arithmetic on rows that merges them by the thousand: it checks nothing'],
    ),
  ),
  maskedMoments: 'in test/backend/moments-refusals.test.ts',
  momentsTables: 'in test/backend/moments-refusals.test.ts',
  channelMoments: 'in test/backend/channel-refusals.test.ts',
  channelTables: 'in test/backend/channel-refusals.test.ts',
  logitsStatistics: 'in test/backend/logits-refusals.test.ts',
  Histogram: 'made by Histogram.fromRow',
  'Histogram#toRow': 'takes no arguments',
  'Histogram#toJSON': 'takes no arguments',
  ExplainedVariance: 'made by ExplainedVariance.of, or of rows, which are arithmetic',
  JsonlWriter: 'made by JsonlWriter.open',
  StatsLogger: 'made by StatsLogger.create',
  StepState: 'made by computeStepState',
  TrackerHandle: 'made by TrackerHandle#child',
};

/** Names of all that can be called: exports, and the methods of exported classes. */
function callables(): string[] {
  return Object.entries(tensortally).flatMap(([key, given]) => {
    if (typeof given !== 'function' || LEFT_OUT[key]?.startsWith('a') === true) return [key];
    const methodsOf = (holder: object, mark: string): string[] =>
      Object.entries(Object.getOwnPropertyDescriptors(holder))
        .filter(([method, { value: body }]) => method !== 'constructor' && typeof body === 'function')
        .map(([method]) => key + mark + method);
    const prototype = (given as { prototype?: object }).prototype;
    return [key, ...methodsOf(given, '.'), ...(prototype === undefined ? [] : methodsOf(prototype, '#'))];
  });
}

test('the table has every public function', () => {
  const missing = callables().filter((key) => !(key in ROWS) && !(key in LEFT_OUT));
  expect(missing).toEqual([]);
  const unknown = Object.keys(ROWS).filter((key) => !callables().includes(key.replace(/\{.*/, '')));
  expect(unknown).toEqual([]);
});

/**
 * What an error may call the function that was called: methods that are called on an object that the user has made go by
 * their own name, or with their class.
 */
function callNames(key: string): readonly string[] {
  const [called = ''] = key.split('{');
  const method = called.split('#')[1];
  if (method === undefined) return [called, ...(REFUSES_FOR[key] ?? [])];
  return [method, called.replace('#', '.'), ...(REFUSES_FOR[key] ?? [])];
}

/** Rows in which another public name is the one to tell. */
const REFUSES_FOR: Readonly<Record<string, readonly string[]>> = {
  // `console` of the configuration holds the options of the writer.
  'StatsLogger.create{option}': ['ConsoleWriter'],
};

/** How a call ends: `done`, or what it throws or rejects with. */
async function endOf({ call, isAsync = false }: Row, args: readonly unknown[]): Promise<unknown> {
  let returned: unknown;
  try {
    returned = (call as (...args: readonly unknown[]) => unknown)(...args);
  } catch (error) {
    expect(isAsync, `throws instead of rejecting: ${String(error)}`).toBe(false);
    return error;
  }
  try {
    await returned;
    return 'done';
  } catch (error) {
    return error;
  }
}

describe.each(Object.entries(ROWS))('%s', (key, row) => {
  test('takes what fits and refuses all else with a typed error', async () => {
    const { parameters } = row();
    for (const [i, { takes, spares = [] }] of parameters.entries()) {
      for (const [kind, given] of Object.entries(VALUES) as [Kind, unknown][]) {
        if (spares.includes(kind)) continue;
        const fresh = row();
        const args = fresh.parameters.map(({ fits }, at) => (at === i ? given : fits));
        const end = await endOf(fresh, args);
        const what = `${key} with ${kind} as parameter ${i + 1}`;
        if (takes.includes(kind)) {
          if (end !== 'done') throw new Error(`${what} is refused`, { cause: end });
          continue;
        }
        if (!(end instanceof TensortallyError)) {
          throw new Error(`${what} ends with ${String(end)}`, { cause: end });
        }
        const { where, input, expected, received, remedy } = end;
        expect(callNames(key), what).toContain(where);
        for (const part of [where, input, expected, received, remedy]) expect(part, what).toMatch(/\S/);
        expect(end.message, what).toContain(input);
      }
    }
  });
});
