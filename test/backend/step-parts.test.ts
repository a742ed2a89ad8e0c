/** A step's metrics are there key by key, as the columns of the batch allow; what is left out is told. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test, vi } from 'vitest';

import {
  type Metrics,
  type RolloutBatch,
  type StepMetricsOptions,
  StepState,
  batchFromVerl,
  computeDataMetrics,
  computeGroupMetrics,
  computeStepMetrics,
  computeStepState,
  semanticsNames,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const [B, P, T] = [3, 2, 4];
/** The second row was aborted. */
const LENGTHS = [4, 0, 2];

function columns(): Record<string, tf.Tensor> {
  const grid = (of: (row: number, t: number) => number): tf.Tensor =>
    deviceTensor({
      shape: [B, T],
      values: Array.from({ length: B * T }, (_, i) => of(Math.floor(i / T), i % T)),
    });
  return {
    attention_mask: deviceTensor({
      shape: [B, P + T],
      dtype: 'int32',
      values: LENGTHS.flatMap((n) => [0, 1, ...Array.from({ length: T }, (_, t) => Number(t < n))]),
    }),
    response_mask: grid((row, t) => Number(t < LENGTHS[row]!)),
    token_level_scores: grid((row, t) => (t === LENGTHS[row]! - 1 ? row + 1 : 0)),
    token_level_rewards: grid((row, t) => (t < LENGTHS[row]! ? 0.25 : 0)),
    advantages: grid((row, t) => row - t),
    returns: grid((row, t) => row * t),
    values: grid((row, t) => row * t + (t % 2)),
  };
}
const LISTS = { __num_turns__: [1, 2, 3] };

/** The patterns of the keys that each column carries. */
const KEYS: Readonly<Record<string, RegExp>> = {
  attention_mask: /^(response_length|response\/|prompt_length)/,
  response_mask: /^critic\/(advantages|returns|values|vf)/,
  token_level_scores: /^critic\/score\//,
  token_level_rewards: /^critic\/rewards\//,
  advantages: /^critic\/advantages\//,
  returns: /^critic\/(returns\/|vf)/,
  values: /^critic\/(values\/|vf)/,
};
const COLUMNS = Object.keys(KEYS);

async function withBatch<R>(
  without: readonly string[],
  use: (batch: RolloutBatch) => Promise<R>,
  lists: Record<string, readonly number[]> = LISTS,
): Promise<R> {
  const all = columns();
  const given = Object.entries(all).filter(([name]) => !without.includes(name));
  const asked = use(batchFromVerl(Object.fromEntries(given), lists, { responseWidth: T }));
  tf.dispose(all);
  return asked;
}

const onSkipped = (): void => undefined;
const dataOf = (without: readonly string[], options: StepMetricsOptions = {}): Promise<Metrics> =>
  withBatch(without, (batch) => computeStepMetrics(batch, { families: ['data'], onSkipped, ...options }));

describe.each(semanticsNames)('%s: without a column the keys of all others stay as they are', (semantics) => {
  test.each(COLUMNS)('%s', async (column) => {
    const whole = await dataOf([], { semantics });
    const part = await expectNoLeaks(() => dataOf([column], { semantics }));
    const kept = Object.keys(whole).filter((key) => !KEYS[column]!.test(key));
    expect(Object.keys(part)).toEqual(kept);
    for (const key of kept) expect(part[key], key).toBeCloseToReference(whole[key]!, { rel: 1e-6, abs: 0 });
  });

  test('attention_mask: rows without a token of response_mask are no rows that responded', async () => {
    const part = await dataOf(['attention_mask'], { semantics });
    expect(part).toMatchObject({ 'critic/score/mean': 2, 'critic/score/min': 1, 'critic/rewards/min': 0.5 });
  });
});

describe('GRPO, which has no returns and no values', () => {
  const GRPO = ['returns', 'values'];
  const EXPECTED = {
    ...{ 'critic/score/mean': 2, 'critic/rewards/mean': 0.75, 'critic/advantages/mean': -0.5 },
    ...{ 'response_length/mean': 2, 'response/aborted_ratio': 1 / 3, 'prompt_length/mean': 1 },
    'num_turns/mean': 2,
  };

  test('has lengths, aborted ratio, advantages and scores', async () => {
    for (const useCritic of [undefined, false]) {
      const metrics = await dataOf(GRPO, { useCritic });
      for (const [key, value] of Object.entries(EXPECTED)) expect(metrics[key], key).toBeCloseTo(value, 6);
      expect(Object.keys(metrics).filter((key) => /returns|values|vf_/.test(key))).toEqual([]);
    }
  });

  test('is what computeDataMetrics takes with useCritic: false, and names that option without', async () => {
    await withBatch(GRPO, async (batch) => {
      const refused = computeDataMetrics(batch);
      const metrics = computeDataMetrics(batch, { useCritic: false });
      await expect(refused).rejects.toThrow(/returns.*put returns into the batch.*useCritic: false/);
      expect((await metrics)['critic/advantages/mean']).toBeCloseTo(-0.5, 6);
    });
  });

  test('with returns has them, without a critic as well', async () => {
    const metrics = await dataOf(['values'], { useCritic: false });
    expect(metrics['critic/returns/max']).toBe(2);
  });
});

test('a critic that is not used says nothing of values', async () => {
  const metrics = await dataOf([], { useCritic: false });
  expect(Object.keys(metrics).filter((key) => /values|vf_/.test(key))).toEqual([]);
  expect(metrics['critic/returns/max']).toBe(2);
});

test('one length column gives the metrics of its part', async () => {
  const of = (lists: Record<string, number[]>, options: StepMetricsOptions = {}): Promise<Metrics> =>
    withBatch(
      ['attention_mask'],
      (batch) => computeStepMetrics(batch, { families: ['data', 'timing'], onSkipped, ...options }),
      lists,
    );
  const timing = { gen: 3, ref: 1 };
  const response = await of({ response_length: LENGTHS }, { timing });
  expect(response).toMatchObject({ 'response_length/mean': 2, 'response_length_non_aborted/mean': 3 });
  expect(response['timing_per_token_ms/gen']).toBeCloseTo(500, 9);
  expect(response).not.toHaveProperty('timing_per_token_ms/ref');
  expect(response).not.toHaveProperty('prompt_length/mean');
  const prompt = await of({ prompt_length: [1, 2, 3] }, { timing });
  expect(prompt).toMatchObject({ 'prompt_length/mean': 2, 'timing_s/gen': 3, 'timing_s/ref': 1 });
  expect(Object.keys(prompt).filter((key) => /response|per_token/.test(key))).toEqual([]);
  const capped = await of({ response_length: LENGTHS }, { maxModelLength: 4 });
  expect(capped['response_length/clip_ratio']).toBeNaN();
});

test('times and tokens are there as far as they are known', async () => {
  const families = ['timing', 'throughput'] as const;
  const of = (without: readonly string[], options: StepMetricsOptions): Promise<Metrics> =>
    dataOf(without, { families, ...options });
  expect(await of(['attention_mask'], { timing: { gen: 1, step: 2 }, nGpus: 1 })).toEqual({
    ...{ 'timing_s/gen': 1, 'timing_s/step': 2, 'perf/time_per_step': 2 },
  });
  expect(await of([], { timing: { step: 3 } })).toEqual({
    ...{ 'timing_s/step': 3, 'perf/time_per_step': 3, 'perf/total_num_tokens': 9 },
  });
  expect(await of([], { timing: {}, nGpus: 1 })).toEqual({ 'perf/total_num_tokens': 9 });
});

describe('groups are there key by key', () => {
  const groups = ['a', 'a', 'b'];
  const GROUP_KEYS: Readonly<Record<string, RegExp>> = {
    token_level_rewards: /^group\/(reward|zero)/,
    token_level_scores: /^group\/all_/,
  };
  const of = (without: readonly string[]): Promise<Metrics> =>
    dataOf(without, { families: ['groups'], groups });

  test.each([['token_level_rewards'], ['token_level_scores'], ['token_level_rewards', 'token_level_scores']])(
    'without %s %s',
    async (...without: string[]) => {
      const whole = await of([]);
      // The aborted row is in no group.
      expect(whole).toMatchObject({ 'group/count': 2, 'group/singleton_count': 2, 'group/size/mean': 1 });
      const part = await expectNoLeaks(() => of(without));
      const kept = Object.keys(whole).filter(
        (key) => !without.some((column) => GROUP_KEYS[column]!.test(key)),
      );
      expect(Object.keys(part)).toEqual(kept);
      for (const key of kept) expect(part[key], key).toEqual(whole[key]);
    },
  );

  test('the single function asks for all of them', async () => {
    await withBatch(['token_level_scores'], async (batch) => {
      await expect(computeGroupMetrics(batch, groups)).rejects.toThrow(/token_level_scores/);
    });
  });

  test('without a mask there are none, and the rest of the step stays', async () => {
    const seen: string[] = [];
    const told = (family: string, reason: string): void => void seen.push(`${family}: ${reason}`);
    const without = ['attention_mask', 'response_mask'];
    const options = { families: ['data', 'groups'], groups, onSkipped: told } as const;
    const metrics = await dataOf(without, options);
    expect(metrics).toHaveProperty('critic/score/mean');
    expect(Object.keys(metrics).filter((key) => key.startsWith('group/'))).toEqual([]);
    expect(seen.find((text) => text.startsWith('groups'))).toMatch(/response_mask is missing/);
  });
});

describe('the policy family is there key by key', () => {
  test('a penalty in the reward without its reference leaves the rest, and is told', async () => {
    const seen: string[] = [];
    await withBatch([], async (batch) => {
      const given = { ...batch, logProbs: batch.values, oldLogProbs: batch.returns };
      const options = { families: ['policy'], policy: { useKlInReward: true } } as const;
      const metrics = await computeStepMetrics(given, {
        ...options,
        onSkipped: (family, reason) => void seen.push(`${family}: ${reason}`),
      });
      expect(Object.keys(metrics)).toEqual([
        ...['actor/ppo_kl', 'actor/pg_loss', 'actor/pg_clipfrac', 'actor/pg_clipfrac_lower'],
      ]);
      expect(seen).toEqual([
        expect.stringMatching(/^policy: ref_log_prob is missing.*actor\/reward_kl_penalty/),
      ]);
    });
  });

  test('columns that lack their partner are told with the keys that need both', async () => {
    const told = async (fields: readonly string[]): Promise<string> => {
      let text = '';
      await withBatch([], async (batch) => {
        const bare = { batchSize: batch.batchSize, responseMask: batch.responseMask };
        const given = { ...bare, ...Object.fromEntries(fields.map((field) => [field, batch.values])) };
        await computeStepMetrics(given, {
          families: ['policy', 'timing'],
          timing: { step: 1 },
          onSkipped: (family, reason) => {
            if (family === 'policy') text = reason;
          },
        });
      });
      return text;
    };
    expect(await told(['logProbs'])).toMatch(/old_log_probs is missing.*actor\/ppo_kl/);
    expect(await told(['logProbs', 'oldLogProbs'])).toMatch(/advantages is missing.*actor\/pg_\*/);
    expect(await told(['valuePredictions', 'values'])).toMatch(/returns is missing.*critic\/vf_\*/);
    expect(await told(['entropys'])).toBe('');
    expect(await told([])).toBe('the batch has nothing that an update computed');
  });
});

describe('what was left out is told', () => {
  test('to onSkipped, once a family, with the keys of the inputs that are missing', async () => {
    const seen: [string, string][] = [];
    await dataOf(['returns', 'token_level_rewards'], {
      onSkipped: (family, reason) => void seen.push([family, reason]),
    });
    expect(seen).toHaveLength(1);
    expect(seen[0]![0]).toBe('data');
    expect(seen[0]![1]).toMatch(/returns is missing.*critic\/returns.*token_level_rewards is missing/);
  });

  /** What is warned of while `run` runs. */
  async function warningsOf(run: () => Promise<unknown>): Promise<string[]> {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    try {
      await run();
      for (const [, options] of warn.mock.calls as unknown as [string, object][]) {
        expect(options).toMatchObject({ code: 'TENSORTALLY_LEFT_OUT' });
      }
      return warn.mock.calls.map(([text]) => String(text));
    } finally {
      warn.mockRestore();
    }
  }
  /** All families that the batch allows, with no one listening. */
  const plain = (without: readonly string[], options: StepMetricsOptions = {}): Promise<Metrics> =>
    withBatch(without, (batch) => computeStepMetrics(batch, options));

  test('in a warning without onSkipped, once for every set of inputs', async () => {
    const step = (without: readonly string[]): Promise<Metrics> => dataOf(without, { onSkipped: undefined });
    const texts = await warningsOf(async () => {
      for (let i = 0; i < 3; i++) {
        await step(['returns', 'values']);
        await step(['advantages']);
        await step([]);
      }
    });
    expect(texts).toHaveLength(2);
    expect(texts[0]).toMatch(/computeStepMetrics left out.*\n.*data: returns is missing/);
    expect(texts[1]).toMatch(/advantages is missing/);
  });

  test('families that nobody asked for, and that the batch has no column for, are left out in silence', async () => {
    expect(await warningsOf(() => plain([]))).toEqual([]);
    expect(await warningsOf(() => plain(['returns', 'values'], { useCritic: false }))).toEqual([]);
    const seen: string[] = [];
    await plain([], { onSkipped: (family) => void seen.push(family) });
    expect(seen).toEqual([
      ...['varianceProxy', 'rolloutCorrection', 'debug', 'policy', 'kl', 'groups', 'timing', 'throughput'],
    ]);
  });

  test('a family of which the batch has a column of its own is told of, and no other', async () => {
    const texts = await warningsOf(() => plain(['token_level_rewards']));
    expect(texts).toHaveLength(1);
    expect(texts[0]).toMatch(/data: token_level_rewards is missing/);
    expect(texts[0]).not.toMatch(/varianceProxy|debug|kl:|groups|timing|throughput|rolloutCorrection/);
    const own = await warningsOf(() =>
      withBatch(['advantages'], (batch) =>
        computeStepMetrics({ ...batch, oldLogProbs: batch.values, sumPiSquared: batch.values }),
      ),
    );
    expect(own).toEqual([expect.stringMatching(/varianceProxy: advantages is missing/)]);
  });

  test.each<[RegExp, StepMetricsOptions]>([
    [/kl: log_probs is missing/, { families: ['data', 'kl'] }],
    [/policy: the batch has nothing/, { policy: { clipRatio: 0.1 } }],
    [/rolloutCorrection: old_log_probs is missing/, { rolloutCorrection: {} }],
    [/varianceProxy: old_log_probs is missing/, { gradientNorm: 0.5 }],
    [/throughput: options.nGpus is missing/, { timing: { step: 2 } }],
    [/throughput: options.timing is missing/, { nGpus: 2 }],
  ])('what an option asks for is told: %s', async (expected, options) => {
    // Another set than that of another test.
    const texts = await warningsOf(() => plain(['values', 'returns'], { useCritic: false, ...options }));
    expect(texts).toEqual([expect.stringMatching(expected)]);
    expect(texts[0]!.trim().split('\n')).toHaveLength(3);
  });
});

describe('states of parts of a step', () => {
  const rows = (batch: RolloutBatch, from: number, to: number): RolloutBatch => {
    const cut = (value: unknown): unknown =>
      value instanceof tf.Tensor
        ? tf.slice(value as tf.Tensor2D, [from, 0], [to - from, (value as tf.Tensor2D).shape[1]])
        : Array.isArray(value)
          ? value.slice(from, to)
          : value;
    const fields = Object.entries(batch).map(([field, value]) => [field, cut(value)] as const);
    return { ...(Object.fromEntries(fields) as unknown as RolloutBatch), batchSize: to - from };
  };
  const options = { families: ['data', 'timing', 'throughput'], onSkipped } as const;
  const facts = { timing: { gen: 1, step: 2 }, nGpus: 2 };

  test.each(COLUMNS)('without %s merge and travel as the whole does', async (column) => {
    await withBatch([column], async (batch) => {
      const states = [
        [0, 1],
        [1, 3],
      ].map(async ([from, to]) => {
        let part: Promise<StepState> | undefined;
        tf.tidy(() => {
          part = computeStepState(rows(batch, from!, to!), options);
        });
        return StepState.fromBytes((await part!).toBytes());
      });
      const whole = computeStepMetrics(batch, { ...options, ...facts });
      const merged = StepState.merge(await Promise.all(states)).metrics(facts);
      expect(Object.keys(merged)).toEqual(Object.keys(await whole));
      for (const [key, value] of Object.entries(await whole)) {
        expect(merged[key], key).toBeCloseToReference(value, { rel: 1e-5, abs: 1e-6 });
      }
    });
  });

  test('of other columns do not merge, and say which', async () => {
    const state = (without: readonly string[]): Promise<StepState> =>
      withBatch(without, (batch) => computeStepState(batch, options));
    const [whole, scoreless, lengthless] = [
      await state([]),
      await state(['token_level_scores']),
      await state(['attention_mask']),
    ];
    expect(() => StepState.merge([whole, scoreless])).toThrow(/states\[1\]: family data: .*score/);
    expect(() => StepState.merge([whole, lengthless])).toThrow(
      /states\[1\]: (family data|prompt lengths|response lengths)/,
    );
    expect(scoreless.skipped.data).toContain('token_level_scores is missing');
  });
});
