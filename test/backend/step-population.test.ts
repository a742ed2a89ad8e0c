/** Which tokens a step's metrics are over where its rollout correction rejects some, and the tensors of both. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { MissingInputError, ValueError } from '../../src/errors.js';
import {
  type Metrics,
  type RolloutBatch,
  type StepMetricsOptions,
  StepState,
  batchFromVerl,
  computeDataMetrics,
  computeDebugMetrics,
  computeGroupMetrics,
  computeKlMetrics,
  computePolicyMetrics,
  computeRolloutCorrection,
  computeStepMetrics,
  computeStepState,
  computeVarianceProxyMetrics,
  correctedStep,
  semanticsNames,
} from '../../src/metrics/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

const [B, P, T] = [4, 2, 5];
const LENGTHS = [5, 2, 0, 4];
const GROUPS = ['a', 'a', 'b', 'b'];

function columns(): Record<string, tf.Tensor> {
  const random = seeded(29);
  const grid = (of: (row: number, t: number) => number, dtype: 'float32' | 'bool' = 'float32'): tf.Tensor =>
    deviceTensor({
      shape: [B, T],
      dtype,
      values: Array.from({ length: B * T }, (_, i) => Math.fround(of(Math.floor(i / T), i % T))),
    });
  const numbers = (): tf.Tensor => grid(() => normal(random, 0.3, 1));
  const logs = (): tf.Tensor => grid(() => -Math.abs(normal(random, 0, 0.7)));
  return {
    attention_mask: deviceTensor({
      shape: [B, P + T],
      dtype: 'int32',
      values: LENGTHS.flatMap((n) => [0, 1, ...Array.from({ length: T }, (_, t) => Number(t < n))]),
    }),
    response_mask: grid((row, t) => Number(t < LENGTHS[row]!), 'bool'),
    ...{ token_level_scores: numbers(), token_level_rewards: numbers(), advantages: numbers() },
    ...{ returns: numbers(), values: numbers(), vpreds: numbers(), entropys: numbers() },
    ...{ old_log_probs: logs(), log_probs: logs(), ref_log_prob: logs(), rollout_log_probs: logs() },
    sum_pi_squared: grid(() => 0.5 + 0.5 * random()),
  };
}

const ON_TOKENS = {
  rolloutIs: 'token',
  rolloutRs: 'token_k1,token_k3',
  rolloutRsThreshold: '0.5_2,0.4',
} as const;
const ON_ROWS = {
  rolloutIs: 'sequence',
  rolloutRs: 'seq_mean_k2,token_k1',
  rolloutRsThreshold: '0.3,0.4_3',
} as const;
const CORRECTIONS = [ON_TOKENS, ON_ROWS] as const;

async function withBatch<R>(use: (batch: RolloutBatch) => Promise<R>): Promise<R> {
  const all = columns();
  try {
    return await use(batchFromVerl(all));
  } finally {
    tf.dispose(all);
  }
}

const onSkipped = (): void => undefined;
const CLOSE = { rel: 1e-5, abs: 1e-5 };

function expectSame(actual: Metrics, expected: Metrics): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, CLOSE);
  }
}

describe.each(semanticsNames)('%s', (semantics) => {
  const OPTIONS = {
    gradientNorm: 0.7,
    policy: { useKlInReward: true },
    groups: GROUPS,
    semantics,
    onSkipped,
  };

  test.each(CORRECTIONS)('metrics are over the tokens that $rolloutRs leaves', async (rolloutCorrection) => {
    await withBatch(async (batch) => {
      const correction = await computeRolloutCorrection(batch, { ...rolloutCorrection, semantics });
      const left = { ...batch, responseMask: correction.responseMask };
      const [before, after] = [await batch.responseMask!.data(), await correction.responseMask.data()];
      expect(after.filter(Boolean).length).toBeLessThan(before.filter(Boolean).length);
      expect(after.filter(Boolean).length).toBeGreaterThan(1);
      const expected = {
        ...(await computeDataMetrics(left, { semantics })),
        ...(await computeVarianceProxyMetrics(left, { gradientNorm: 0.7, semantics })),
        ...correction.metrics,
        ...(await computeDebugMetrics(left)),
        ...(await computePolicyMetrics(left, { useKlInReward: true, semantics })),
        ...(await computeKlMetrics(left, { semantics })),
        ...(await computeGroupMetrics(left, GROUPS)),
      };
      expectSame(await computeStepMetrics(batch, { ...OPTIONS, rolloutCorrection }), expected);
      const kept = { ...OPTIONS, rolloutCorrection, population: 'kept' } as const;
      expectSame(await computeStepMetrics(batch, kept), expected);
      tf.dispose([correction.isWeights, correction.responseMask]);
    });
  });

  test("population 'all' takes nothing away", async () => {
    await withBatch(async (batch) => {
      const rolloutCorrection = ON_TOKENS;
      const all = { ...OPTIONS, rolloutCorrection, population: 'all' } as const;
      const found = await computeStepMetrics(batch, all);
      const plain = await computeStepMetrics(batch, { ...OPTIONS, rolloutCorrection: {} });
      for (const [key, value] of Object.entries(plain)) {
        expect(found[key], key).toBeCloseToReference(value, CLOSE);
      }
    });
  });
});

test('the correction decides also where its metrics are not wanted', async () => {
  await withBatch(async (batch) => {
    for (const rolloutCorrection of CORRECTIONS) {
      const whole = await computeStepMetrics(batch, { rolloutCorrection, onSkipped });
      const kl = await computeStepMetrics(batch, { rolloutCorrection, families: ['kl'], onSkipped });
      expect(Object.keys(kl)).toHaveLength(8);
      for (const [key, value] of Object.entries(kl))
        expect(value, key).toBeCloseToReference(whole[key]!, CLOSE);
    }
  });
});

test('a rejected row keeps its lengths and its score, with and without an attention mask', async () => {
  await withBatch(async (batch) => {
    const { attentionMask, ...bare } = batch;
    expect(attentionMask).toBeDefined();
    const rolloutCorrection = { rolloutRs: 'seq_max_k2', rolloutRsThreshold: 1e-9 } as const;
    for (const given of [batch, bare]) {
      const families = ['data', 'groups'] as const;
      const options = { rolloutCorrection, families, groups: GROUPS, onSkipped } as const;
      const kept = await computeStepMetrics(given, options);
      const all = await computeStepMetrics(given, { ...options, population: 'all' });
      for (const key of Object.keys(all).filter((name) => !/advantages|returns|values|vf_/.test(name))) {
        expect(kept[key], key).toEqual(all[key]);
      }
      expect(kept['critic/advantages/mean']).toBeNaN();
    }
  });
});

describe('one call gives the metrics and the tensors', () => {
  test.each(CORRECTIONS)('of $rolloutRs, as two calls do', async (rolloutCorrection) => {
    await withBatch(async (batch) => {
      for (const population of ['kept', 'all'] as const) {
        const options: StepMetricsOptions & { rolloutCorrection: typeof rolloutCorrection } = {
          ...{ rolloutCorrection, population, groups: GROUPS, onSkipped },
        };
        const expected = await computeRolloutCorrection(batch, rolloutCorrection);
        const step = await correctedStep(batch, options);
        expectSame(step.metrics, await computeStepMetrics(batch, options));
        expect(step.responseMask.dtype).toBe('bool');
        expect(await step.responseMask.data()).toEqual(await expected.responseMask.data());
        expect(Array.from(await step.isWeights.data())).toBeCloseToReference(
          Array.from(await expected.isWeights.data()),
          CLOSE,
        );
        tf.dispose([step.isWeights, step.responseMask, expected.isWeights, expected.responseMask]);
      }
    });
  });

  test('with one read-back, two where rows are judged; the batch may go at once, nothing is left', async () => {
    for (const [rolloutCorrection, most] of [
      [ON_TOKENS, 1],
      [ON_ROWS, 2],
    ] as const) {
      await expectNoLeaks(async () => {
        const all = columns();
        const reads = await countReadBacks(backend, async () => {
          const families = ['data', 'kl', 'rolloutCorrection'] as const;
          const pending = correctedStep(batchFromVerl(all), { rolloutCorrection, families, onSkipped });
          tf.dispose(all);
          const { isWeights, responseMask } = await pending;
          tf.dispose([isWeights, responseMask]);
        });
        if (hasDevice()) expect(reads).toBe(most);
      });
    }
  });

  test('without rejection and without weights gives a mask of its own', async () => {
    await withBatch(async (batch) => {
      const step = await correctedStep(batch, { rolloutCorrection: {}, families: ['data'], onSkipped });
      expect(step).not.toHaveProperty('isWeights');
      expect(Object.keys(step.metrics).filter((key) => key.startsWith('rollout_corr'))).toEqual([]);
      step.responseMask.dispose();
      expect(batch.responseMask!.isDisposed).toBe(false);
    });
  });

  test('and refuses a batch that lacks an input of the correction', async () => {
    await withBatch(async (batch) => {
      const { rolloutLogProbs, ...without } = batch;
      expect(rolloutLogProbs).toBeDefined();
      const options = { rolloutCorrection: ON_TOKENS, onSkipped };
      await expect(correctedStep(without, options)).rejects.toBeInstanceOf(MissingInputError);
      // Metrics alone leave the correction out, and nothing is rejected.
      const metrics = await computeStepMetrics(without, options);
      const all = await computeStepMetrics(without, { onSkipped });
      expect(metrics).toEqual(all);
    });
  });
});

test('a rejection that lacks an input is told, also where its own metrics are not wanted', async () => {
  await withBatch(async (batch) => {
    const { rolloutLogProbs, ...without } = batch;
    expect(rolloutLogProbs).toBeDefined();
    const toldOf = async (options: StepMetricsOptions): Promise<string[]> => {
      const seen: string[] = [];
      const told = (family: string, reason: string): void => void seen.push(`${family}: ${reason}`);
      await computeStepMetrics(without, { families: ['data'], onSkipped: told, ...options });
      return seen;
    };
    expect(await toldOf({ rolloutCorrection: ON_TOKENS })).toEqual([
      expect.stringMatching(/^rolloutCorrection: rollout_log_probs is missing.*nothing is rejected/),
    ]);
    expect(await toldOf({ rolloutCorrection: ON_TOKENS, population: 'all' })).toEqual([]);
    expect(await toldOf({ rolloutCorrection: { rolloutIs: 'token' } })).toEqual([]);
  });
});

describe('states', () => {
  const options = { rolloutCorrection: ON_ROWS, groups: GROUPS, onSkipped } as const;

  test('of one population merge, also from bytes, to the metrics of the whole', async () => {
    await withBatch(async (batch) => {
      const facts = { gradientNorm: 0.7 };
      const whole = await computeStepMetrics(batch, { ...options, ...facts });
      const state = await computeStepState(batch, options);
      expectSame(StepState.fromBytes(state.toBytes()).metrics(facts), whole);
      expect(StepState.merge([state, StepState.fromBytes(state.toBytes())]).rows).toBe(2 * B);
    });
  });

  test('of two populations do not merge, unless nothing is rejected', async () => {
    await withBatch(async (batch) => {
      const [kept, all] = [
        await computeStepState(batch, options),
        await computeStepState(batch, { ...options, population: 'all' }),
      ];
      expect(() => StepState.merge([kept, all])).toThrow(/states\[1\]: options\.population: .*kept, got all/);
      expect(() => StepState.merge([all, kept])).toThrow(ValueError);
      const plain = { onSkipped };
      const same = [
        await computeStepState(batch, { ...plain, population: 'all' }),
        await computeStepState(batch, plain),
      ];
      expect(StepState.merge(same).rows).toBe(2 * B);
    });
  });
});

test('another population is refused by name', async () => {
  await withBatch(async (batch) => {
    const refused = computeStepMetrics(batch, { population: 'left' as 'kept' });
    await expect(refused).rejects.toThrow(/options\.population.*kept, all.*'left'/);
    await expect(refused).rejects.toBeInstanceOf(ValueError);
  });
});
