/**
 * The catalogue against what is computed: every key that a function reports is in it, every entry is reported by one,
 * every value is in its range, and the semantics differ where it says so and nowhere else.
 */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';

import { concerns } from '../../src/metrics/catalog/differences.js';
import type { Metrics, RolloutBatch, Semantics } from '../../src/metrics/index.js';
import * as metrics from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { SCENARIOS, type Scenario, healthy, withBatch } from '../support/catalog-scenarios.js';
import { type Bound, mismatches } from '../support/matchers.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const { explainMetric, isInRange, metricCatalog, rejectionNames, semanticDifferences, semanticsNames } =
  metrics;

/** What the same computation may differ by in two passes, and what a value may be past its range. */
const CLOSE = { rel: 1e-5, abs: 1e-6 };

/** What the trainer alone knows is never reported by a function. */
const computedEntries = metricCatalog.filter(({ family }) => family !== 'trainer');

const STAGES = ['gen', 'ref', 'values', 'adv', 'update_critic', 'update_actor', 'reward', 'step'];
const SECONDS = Object.fromEntries(STAGES.map((stage, i) => [stage, 0.5 + i]));

/** A number is compared with the bounds of k1, and with what is kept of k2 and k3. */
const REJECTION = {
  rolloutRs: rejectionNames.join(),
  rolloutRsThreshold: rejectionNames.map((name) => (name.endsWith('k1') ? '0.7_1.5' : '0.2')).join(),
} as const;

type Calls = Record<string, () => Promise<Metrics>>;

/** What reports everything of a batch: all metrics of a step, and those that are none or have further options. */
function callsOf(
  batch: RolloutBatch,
  semantics: Semantics,
  { gradientNorm, lossAggMode, range = '0.5_2', timing = SECONDS }: Scenario,
): Calls {
  const corrected = async (rolloutIs: metrics.WeightLevel, threshold: string): Promise<Metrics> => {
    const result = await metrics.computeRolloutCorrection(batch, {
      ...REJECTION,
      ...{ rolloutIs, rolloutIsThreshold: threshold, batchNormalize: true, semantics },
    });
    tf.dispose([result.isWeights, result.responseMask]);
    return result.metrics;
  };
  return {
    computeStepMetrics: () =>
      metrics.computeStepMetrics(batch, {
        ...{ timing, nGpus: 2, gradientNorm, groups: groupsOf(batch), semantics },
        policy: { useKlInReward: true, lossAggMode },
        rolloutCorrection: { ...REJECTION, rolloutIs: 'token' },
      }),
    'computeRolloutCorrection token': () => corrected('token', range),
    'computeRolloutCorrection sequence': () => corrected('sequence', '2'),
    'computeRolloutCorrection sequence range': () => corrected('sequence', range),
    computeKlMetrics: () => metrics.computeKlMetrics(batch, { semantics }),
  };
}

/** What the metrics of a step consist of, and what depends on no semantics. */
function furtherCallsOf(batch: RolloutBatch, semantics: Semantics): Calls {
  return {
    computeDataMetrics: () => metrics.computeDataMetrics(batch, { semantics }),
    computeTimingMetrics: () => metrics.computeTimingMetrics(batch, SECONDS, { semantics }),
    computeThroughputMetrics: () => metrics.computeThroughputMetrics(batch, SECONDS, 2),
    computeSequenceBalanceMetrics: () =>
      metrics.computeSequenceBalanceMetrics(batch, [
        Array.from({ length: batch.batchSize }, (_, i) => i),
        [],
      ]),
    computeVarianceProxyMetrics: () =>
      metrics.computeVarianceProxyMetrics(batch, { gradientNorm: 1, semantics }),
    computeDebugMetrics: () => metrics.computeDebugMetrics(batch),
    computeMoeMetrics: () => moeMetrics(batch),
    computePolicyMetrics: () => metrics.computePolicyMetrics(batch, { useKlInReward: true, semantics }),
    computeGroupMetrics: () => metrics.computeGroupMetrics(batch, groupsOf(batch)),
    processValidationMetrics: () => Promise.resolve(validationMetrics()),
  };
}

/** Two layers, of which one sends all tokens to one of four experts. */
async function moeMetrics({ batchSize, responseMask }: RolloutBatch): Promise<Metrics> {
  const cols = responseMask!.shape[1]!;
  const values = Array.from({ length: batchSize * cols * 2 }, (_, i) => (i % 2 === 0 ? (i >> 1) % 4 : 2));
  const experts = deviceTensor({ shape: [batchSize, cols, 2, 1], dtype: 'int32', values });
  const found = await metrics.computeMoeMetrics(experts, responseMask!, { numExperts: 4 });
  experts.dispose();
  return found;
}

function groupsOf({ batchSize }: RolloutBatch): string[] {
  return ['a', 'a', 'b', 'c'].slice(0, batchSize);
}

/** Sources with a core variable, votes, and prompts with different numbers of samples; one of them with a NaN. */
function validationMetrics(): Metrics {
  const uids = Array.from('ppppqqr' + 'pppp');
  return metrics.processValidationMetrics(
    uids.map((_uid, i) => (i < 7 ? 'openai/gsm8k' : 'math')),
    uids,
    {
      acc: [...[1, 0, 0, 1, 0, 1, 1], ...[1, 0, NaN, 1]],
      reward: [...[1, -2, 0.5, NaN, 2, 3, 4], ...[1, 2, 3, 4]],
      pred: Array.from('aabbcda' + 'abab'),
    },
  ).metrics;
}

const entries = new Map<string, metrics.CatalogEntry>();

/** The entry of a key, looked up once. */
function entryOf(key: string): metrics.CatalogEntry {
  const entry = entries.get(key) ?? explainMetric(key).entry;
  entries.set(key, entry);
  return entry;
}

/** What each function reports of a scenario, by semantics. */
type Reports = Record<Semantics, Record<string, Metrics>>;

const reported = new Map<string, Reports[]>();

beforeAll(async () => {
  for (const [id, scenarios] of Object.entries(SCENARIOS)) {
    const all: Reports[] = [];
    for (const scenario of scenarios) {
      const asked = { gradientNorm: 0.3, ...scenario };
      all.push(await withBatch(asked, (batch) => reportsOf(batch, asked)));
    }
    reported.set(id, all);
  }
}, 600_000);

async function reportsOf(batch: RolloutBatch, scenario: Scenario): Promise<Reports> {
  const reports: Partial<Reports> = {};
  for (const semantics of semanticsNames) {
    const ofFunctions: Record<string, Metrics> = {};
    const calls = {
      ...callsOf(batch, semantics, scenario),
      ...(scenario.rows === healthy && furtherCallsOf(batch, semantics)),
    };
    for (const [name, call] of Object.entries(calls)) ofFunctions[name] = await call();
    reports[semantics] = ofFunctions;
  }
  return reports as Reports;
}

/** Every value, with where it comes from. */
function* values(): Generator<{ where: string; semantics: Semantics; key: string; value: number }> {
  for (const [id, all] of reported) {
    for (const [i, reports] of all.entries()) {
      for (const semantics of semanticsNames) {
        for (const [name, found] of Object.entries(reports[semantics])) {
          for (const [key, value] of Object.entries(found))
            yield { where: `${id} ${i}, ${semantics}, ${name}: ${key}`, semantics, key, value };
        }
      }
    }
  }
}

/** Keys of the catalogue under which a preset reports another number than `recommended`. */
function differing(reports: Reports, preset: Semantics, bound: Bound = CLOSE): Set<string> {
  const keys = Object.entries(reports.recommended).flatMap(([name, expected]) => {
    const actual = reports[preset][name]!;
    expect(Object.keys(actual), name).toEqual(Object.keys(expected));
    return Object.keys(expected).filter(
      (key) => mismatches([actual[key]!], [expected[key]!], bound).length > 0,
    );
  });
  return new Set(keys.map((key) => entryOf(key).key));
}

describe('the catalogue', () => {
  test('is held to every function that reports metrics', () => {
    // A state has no metrics of its own; what it is finished to is held to computeStepMetrics.
    const functions = Object.keys(metrics).filter((name) => /^(compute|process)(?!StepState)\w+/.test(name));
    const called = Object.keys(reported.get('healthy')![0]!.recommended).map((name) => name.split(' ')[0]!);
    expect(functions.length).toBeGreaterThan(10);
    expect([...new Set(called)].sort()).toEqual(functions.sort());
  });

  test('has every key that is reported, and no entry that is not', () => {
    const found = new Set(Array.from(values(), ({ key }) => entryOf(key).key));
    expect(computedEntries.map(({ key }) => key).filter((key) => !found.has(key))).toEqual([]);
  });

  test('has ranges in which all values are, and says what can be NaN', () => {
    const outside = Array.from(values()).filter(({ key, value, semantics }) => {
      const { range, presetRange, undefinedWhen } = entryOf(key);
      if (Number.isNaN(value)) return undefinedWhen === undefined;
      return !isInRange(value, semantics === 'recommended' ? range : (presetRange ?? range), CLOSE.rel);
    });
    expect(outside).toEqual([]);
  });

  test('calls nothing NaN that never is', () => {
    const seen = new Set(
      Array.from(values()).flatMap(({ key, value }) => (Number.isNaN(value) ? [entryOf(key).key] : [])),
    );
    const never = computedEntries.filter(
      ({ key, undefinedWhen }) => undefinedWhen !== undefined && !seen.has(key),
    );
    expect(never.map(({ key }) => key)).toEqual([]);
  });

  test('leaves no healthy value undefined', () => {
    const undefinedOnes = Array.from(values()).filter(
      ({ where, value, key }) =>
        where.startsWith('healthy') && Number.isNaN(value) && !key.startsWith('val-'),
    );
    expect(undefinedOnes).toEqual([]);
  });
});

describe('semantics', () => {
  const presets = semanticsNames.filter((name) => name !== 'recommended');

  test('are one where the inputs are healthy', () => {
    for (const preset of presets) expect([...differing(reported.get('healthy')![0]!, preset)]).toEqual([]);
  });

  const ofKeys = semanticDifferences.filter(({ keys }) => keys.length > 0);

  test.each(ofKeys.map((difference) => [difference.id, difference] as const))(
    'differ as told: %s',
    (id, { keys, reported: says }) => {
      const claimed = metricCatalog.map(({ key }) => key).filter((key) => concerns(keys, key));
      for (const preset of presets.filter((name) => says[name] !== says.recommended)) {
        const found = reported.get(id)!.map((reports) => differing(reports, preset, { rel: CLOSE.rel }));
        const missing = claimed.filter((key) => !found.some((keysOfOne) => keysOfOne.has(key)));
        expect(missing, `${preset} reports the same`).toEqual([]);
      }
    },
  );

  /** By difference, the outcome of a function that reports no keys. */
  const OUTCOMES: Readonly<Record<string, (semantics: Semantics) => Promise<unknown>>> = {
    'reduction-by-name': (semantics) =>
      Promise.resolve(metrics.reduceMetrics({ minibatch_loss: [1, 4] }, { semantics }).minibatch_loss),
    'whitening-epsilon': async (semantics) => {
      const values = deviceTensor({ shape: [2], values: [1e-4, -1e-4] });
      const whitened = await metrics.maskedWhiten(values, undefined, { semantics });
      const [first] = await whitened.data();
      tf.dispose([values, whitened]);
      return Math.round(10 * first!);
    },
    'unknown-loss-mode': (semantics) => aggregated({ lossAggMode: 'token-sum', semantics }),
    'unknown-global-count': (semantics) => aggregated({ dpSize: 2, semantics }),
  };

  /** The loss of two tokens, 1 and 4, or the name of the refusal. */
  async function aggregated(options: metrics.AggLossOptions): Promise<unknown> {
    const tensors = [
      [1, 4],
      [1, 1],
    ].map((values) => deviceTensor({ shape: [1, 2], values }));
    try {
      return await metrics.aggLoss(tensors[0]!, tensors[1]!, options);
    } catch (error) {
      return (error as Error).name;
    } finally {
      tf.dispose(tensors);
    }
  }

  test.each(
    semanticDifferences
      .filter(({ keys }) => keys.length === 0)
      .map((difference) => [difference.id, difference] as const),
  )('differ as told, without keys: %s', async (id, { reported: says }) => {
    const expected = await OUTCOMES[id]!('recommended');
    for (const preset of presets) {
      const isSame = Object.is(await OUTCOMES[id]!(preset), expected);
      expect(isSame, preset).toBe(says[preset] === says.recommended);
    }
  });

  test('differ nowhere else', () => {
    for (const preset of presets) {
      const claimed = semanticDifferences
        .filter(({ reported: says }) => says[preset] !== says.recommended)
        .flatMap(({ keys }) => keys);
      for (const [id, all] of reported) {
        const untold = all.flatMap((reports) => [...differing(reports, preset)]);
        expect(
          untold.filter((key) => !concerns(claimed, key)),
          `${preset}, ${id}`,
        ).toEqual([]);
      }
    }
  });
});
