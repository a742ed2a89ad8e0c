/** States of parts of a step merge to that of the whole: any split of the rows over micro-batches and ranks. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { MissingInputError, ValueError } from '../../src/errors.js';
import {
  type Metrics,
  type RolloutBatch,
  StepState,
  type StepFacts,
  type StepStateOptions,
  batchFromVerl,
  computeStepMetrics,
  computeStepState,
  semanticsNames,
} from '../../src/metrics/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';
import { runsOf } from '../support/long.js';

const backend = await testBackend();

const [ROWS, PROMPT, WIDTH] = [7, 3, 6];
/** The first row fills the width, so that the parts that are trimmed to their own are as wide together. */
const LENGTHS = [6, 2, 0, 4, 5, 1, 3];

const TOKEN_FIELDS = [
  ...(['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values', 'vpreds'] as const),
  ...(['old_log_probs', 'log_probs', 'ref_log_prob', 'rollout_log_probs'] as const),
  ...(['entropys', 'sum_pi_squared', 'rollout_is_weights'] as const),
] as const;

/** One row: a number per token and field. */
interface Row {
  readonly prompt: number;
  readonly length: number;
  readonly turns: number;
  readonly group: string | number;
  readonly tokens: Readonly<Record<string, readonly number[]>>;
}

const ALL: readonly Row[] = (() => {
  const random = seeded(31);
  const logProb = (): number => Math.fround(-Math.abs(normal(random, 0, 0.7)));
  const draw = (field: string): number => {
    if (field.includes('log_prob')) return logProb();
    if (field === 'sum_pi_squared') return Math.fround(0.5 + 0.5 * random());
    return field === 'rollout_is_weights' ? Math.fround(0.5 + random()) : normal(random, 0.3, 1);
  };
  return LENGTHS.map((length, row) => ({
    prompt: 1 + (row % PROMPT),
    length,
    turns: 1 + (row % 4),
    // 1 and '1' are two groups.
    group: ['1', 1, '1', 1, 'b', 'b', '1'][row]!,
    tokens: Object.fromEntries(
      TOKEN_FIELDS.map((field) => [field, Array.from({ length }, () => draw(field))]),
    ),
  }));
})();

/** A batch of these rows, padded with NaN. */
function batchOf(rows: readonly Row[], width = WIDTH): { batch: RolloutBatch; dispose: () => void } {
  const full = (of: (row: Row, t: number) => number): number[] =>
    rows.flatMap((row) => Array.from({ length: width }, (_, t) => of(row, t)));
  const shape = [rows.length, width];
  const tensors: Record<string, tf.Tensor> = {
    attention_mask: deviceTensor({
      shape: [rows.length, PROMPT + width],
      dtype: 'int32',
      values: rows.flatMap(({ prompt, length }) =>
        Array.from({ length: PROMPT + width }, (_, t) =>
          Number(t < PROMPT ? t >= PROMPT - prompt : t - PROMPT < length),
        ),
      ),
    }),
    response_mask: deviceTensor({
      shape,
      dtype: 'bool',
      values: full(({ length }, t) => Number(t < length && t !== 1)),
    }),
  };
  for (const field of TOKEN_FIELDS) {
    tensors[field] = deviceTensor({ shape, values: full(({ tokens }, t) => tokens[field]![t] ?? NaN) });
  }
  const lists = { __num_turns__: rows.map(({ turns }) => turns) };
  return {
    batch: batchFromVerl(tensors, lists),
    dispose: () => {
      tf.dispose(tensors);
    },
  };
}

const OPTIONS: StepStateOptions = {
  rolloutCorrection: {
    rolloutIs: 'token',
    rolloutIsThreshold: '0.4_2',
    rolloutRs: 'token_k1,seq_mean_k3',
    rolloutRsThreshold: '0.5_2,1',
    batchNormalize: true,
  },
  policy: { useKlInReward: true, lossAggMode: 'seq-mean-token-sum-norm' },
  maxResponseLength: Infinity,
  rightAbove: 0.25,
};
const FACTS: StepFacts = { timing: { gen: 2, update_actor: 3, step: 6 }, nGpus: 2, gradientNorm: 0.7 };

async function stateOf(
  rows: readonly Row[],
  options: StepStateOptions = OPTIONS,
  width = WIDTH,
): Promise<StepState> {
  const { batch, dispose } = batchOf(rows, width);
  const pending = computeStepState(batch, { ...options, groups: rows.map(({ group }) => group) });
  dispose();
  return pending;
}

async function wholeOf(rows: readonly Row[], options: StepStateOptions = OPTIONS): Promise<Metrics> {
  const { batch, dispose } = batchOf(rows);
  const groups = rows.map(({ group }) => group);
  const metrics = await computeStepMetrics(batch, { ...options, ...FACTS, groups });
  dispose();
  return metrics;
}

/** Rows do not know their neighbours: what a device makes of them differs by its rounding at most. */
const CLOSE = hasDevice() ? { rel: 2e-5, abs: 2e-6 } : { rel: 1e-12, abs: 1e-12 };

function expectSame(actual: Metrics, expected: Metrics): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, CLOSE);
  }
}

/** The rows in consecutive parts, some of them perhaps empty. */
const splits = fc.array(fc.nat(ROWS), { minLength: 0, maxLength: 4 }).map((cuts) => {
  const edges = [0, ...cuts.sort((a, b) => a - b), ROWS];
  return edges.slice(1).map((to, i) => ALL.slice(edges[i], to));
});

describe.each(semanticsNames)('%s', (semantics) => {
  const options = { ...OPTIONS, semantics };

  test('parts merge to the whole, in any split', async () => {
    const whole = await wholeOf(ALL, options);
    expect(Object.keys(whole).length).toBeGreaterThan(100);
    await fc.assert(
      fc.asyncProperty(splits, async (parts) => {
        const states: StepState[] = [];
        for (const part of parts) states.push(await stateOf(part, options));
        expectSame(StepState.merge(states).metrics(FACTS), whole);
      }),
      { numRuns: runsOf(backend === 'webgpu' ? 5 : 12) },
    );
  });
});

test('ranks merge in whatever order they come, and parts of parts', async () => {
  const [a, b, c] = [
    await stateOf(ALL.slice(0, 2)),
    await stateOf(ALL.slice(2, 5)),
    await stateOf(ALL.slice(5)),
  ];
  const whole = await wholeOf(ALL);
  expectSame(StepState.merge([c, a, b]).metrics(FACTS), whole);
  expectSame(StepState.merge([StepState.merge([a, b]), c]).metrics(FACTS), whole);
});

test('parts that are trimmed to their own width merge as if padded to the widest', async () => {
  const states: StepState[] = [];
  for (const part of [ALL.slice(0, 3), ALL.slice(3, 5), ALL.slice(5)]) {
    states.push(await stateOf(part, OPTIONS, Math.max(...part.map(({ length }) => length))));
  }
  expectSame(StepState.merge(states).metrics(FACTS), await wholeOf(ALL));
});

test('a state goes through bytes as it is, infinite options and group ids included', async () => {
  const state = await stateOf(ALL);
  const bytes = state.toBytes();
  // As a part of a larger buffer, at an odd place.
  const received = new Uint8Array(bytes.length + 3);
  received.set(bytes, 3);
  const copy = StepState.fromBytes(received.subarray(3));
  expect(copy.rows).toBe(ROWS);
  expect(copy.metrics(FACTS)).toEqual(state.metrics(FACTS));
  expect(copy.toBytes()).toEqual(bytes);
  const parts = [await stateOf(ALL.slice(0, 3)), await stateOf(ALL.slice(3))];
  const sent = parts.map((part) => StepState.fromBytes(part.toBytes()));
  expect(StepState.merge(sent).metrics(FACTS)).toEqual(StepState.merge(parts).metrics(FACTS));
});

test('families share what they share when merged and sent: the bytes do not grow', async () => {
  const parts = [await stateOf(ALL.slice(0, 3)), await stateOf(ALL.slice(3))];
  const [merged, whole] = [StepState.merge(parts).toBytes(), (await stateOf(ALL)).toBytes()];
  expect(merged.length).toBe(whole.length);
});

test('the facts of the step are asked for last, and what lacks them is left out', async () => {
  const state = await stateOf(ALL);
  const keys = Object.keys(state.metrics());
  expect(keys.filter((key) => /^(timing|perf)/.test(key))).toEqual([]);
  expect(state.metrics()['variance_proxy/proxy1_signal_strength']).toBeNaN();
  expect(Object.keys(state.metrics({ timing: { gen: 1 } }))).toContain('timing_per_token_ms/gen');
  expect(() => state.metrics({ gradientNorm: -1 })).toThrow(ValueError);
  expect(() => state.metrics({ nGpus: -1 })).toThrow(ValueError);
  expect(() => state.metrics({ timng: {} } as StepFacts)).toThrow(/timng.*timing/s);
});

test('the tokens of all ranks are one list, not one per part', async () => {
  const { batch, dispose } = batchOf(ALL);
  const of = (globalTokenNum: number[]): Promise<StepState> => computeStepState({ ...batch, globalTokenNum });
  const [a, b, c] = [await of([10, 20]), await of([10, 20]), await of([10, 21])];
  dispose();
  expect(StepState.merge([a, b]).metrics(FACTS)['perf/total_num_tokens']).toBe(30);
  expect(() => StepState.merge([a, c])).toThrow(/global_token_num/);
});

test('one read-back, a second where rows are rejected; nothing left behind, and the tensors may go at once', async () => {
  for (const [population, most] of [
    ['all', 1],
    ['kept', 2],
  ] as const) {
    await expectNoLeaks(async () => {
      const reads = await countReadBacks(backend, () => stateOf(ALL, { ...OPTIONS, population }));
      if (hasDevice()) expect(reads).toBe(most);
    });
  }
});

describe('what does not fit is refused', () => {
  test('states of other options, other inputs, or none', async () => {
    const state = await stateOf(ALL);
    const others = await stateOf(ALL, { ...OPTIONS, rightAbove: 0.5 });
    expect(() => StepState.merge([state, others])).toThrow(
      /states\[1\]: options\.rightAbove: expected that of states\[0\], 0\.25, got 0\.5/,
    );
    const { batch, dispose } = batchOf(ALL);
    const { entropys, ...without } = batch;
    const groups = ALL.map(({ group }) => group);
    const fewer = await computeStepState(without, { ...OPTIONS, groups });
    expect(entropys).toBeDefined();
    dispose();
    expect(() => StepState.merge([state, fewer])).toThrow(/states\[1\]: family policy: .*actor\/entropy/);
    for (const wrong of [[], undefined, [{}], [state, null]] as unknown as StepState[][]) {
      expect(() => StepState.merge(wrong)).toThrow(ValueError);
    }
  });

  test('options written in another order are the same options', async () => {
    const { rolloutIs, ...rest } = OPTIONS.rolloutCorrection!;
    const reordered = { ...OPTIONS, rolloutCorrection: { ...rest, rolloutIs }, groups: undefined };
    const states = [await stateOf(ALL.slice(0, 3)), await stateOf(ALL.slice(3), reordered)];
    expect(StepState.merge(states).rows).toBe(ROWS);
  });

  test('options are compared as they act, not as they are written', async () => {
    const asWritten: readonly StepStateOptions[] = [
      {},
      { semantics: 'recommended' },
      { rightAbove: 0.5 },
      { policy: {} },
      { policy: { clipRatioLow: 0.2, klLossType: 'k3' } },
      { rolloutCorrection: {} },
      { rolloutCorrection: { rolloutIsThreshold: 2, batchNormalize: false } },
      { families: undefined },
    ];
    const states: StepState[] = [];
    for (const options of asWritten) states.push(await stateOf(ALL.slice(0, 2), options));
    expect(StepState.merge(states).rows).toBe(2 * asWritten.length);

    const some = await stateOf(ALL, { families: ['data', 'kl', 'groups'] });
    const inAnotherOrder = await stateOf(ALL, { families: ['groups', 'kl', 'data'] });
    expect(StepState.merge([some, inAnotherOrder]).rows).toBe(2 * ROWS);
    expect(StepState.merge([some, StepState.fromBytes(inAnotherOrder.toBytes())]).rows).toBe(2 * ROWS);
  });

  test.each<[string, StepStateOptions]>([
    ['options.semantics', { semantics: 'verl-2026-08' }],
    ['options.families', { families: ['data'] }],
    ['options.maxResponseLength', { maxResponseLength: 4 }],
    ['options.maxPromptLength', { maxPromptLength: 4 }],
    ['options.policy.clipRatioHigh', { policy: { clipRatioHigh: 0.28 } }],
    ['options.policy.klLossType', { policy: { klLossType: 'k2' } }],
    ['options.rolloutCorrection.rolloutIs', { rolloutCorrection: { rolloutIs: 'token' } }],
    ['family data', { useCritic: false }],
  ])('a difference in %s is called by its name', async (part, options) => {
    const [state, other] = [await stateOf(ALL, {}), await stateOf(ALL, options)];
    for (const pair of [
      [state, other],
      [other, state],
    ]) {
      expect(() => StepState.merge(pair)).toThrow(`StepState.merge: states[1]: ${part}: `);
    }
  });

  test('bytes that are no state, or not all of it', async () => {
    const bytes = (await stateOf(ALL)).toBytes();
    const changed = bytes.slice();
    changed[0]!++;
    const noText = bytes.slice();
    noText[17] = 0x21;
    const cases = [
      new Uint8Array(),
      bytes.subarray(0, 4),
      bytes.subarray(0, 60),
      bytes.subarray(0, -8),
      changed,
      noText,
    ];
    for (const wrong of [...cases, [...bytes], 'text', null, undefined] as unknown as Uint8Array[]) {
      expect(() => StepState.fromBytes(wrong)).toThrow(ValueError);
    }
  });

  test('a batch of which nothing can be said', async () => {
    const mask = deviceTensor({ shape: [1, 2], values: [1, 1] });
    const batch = batchFromVerl({ response_mask: mask });
    await expect(computeStepState(batch)).rejects.toThrow(MissingInputError);
    mask.dispose();
  });
});
