/** Batches on which the semantics differ, one way at a time, and batches of which little is defined. */
import * as tf from '@tensorflow/tfjs-core';

import { type LossAggMode, type RolloutBatch, batchFromVerl } from '../../src/metrics/index.js';
import { seeded } from './random.js';
import { deviceTensor } from './tensors.js';

const [PROMPT, T] = [3, 6];

/** One row: as many numbers per field as there are columns. */
type Row = Record<string, number[]>;

const FIELDS = [
  ...['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values', 'vpreds', 'entropys'],
  ...['old_log_probs', 'log_probs', 'ref_log_prob', 'rollout_log_probs'],
  ...['rollout_is_weights', 'sum_pi_squared'],
] as const;

/** Rows in which nothing is out of the ordinary: padding of zeros, policies that are close, no row without a token. */
function healthyRows(count = 4): Row[] {
  const random = seeded(23);
  const drawn = (low: number, high: number): number => Math.fround(low + (high - low) * random());
  return Array.from({ length: count }, (_, row): Row => {
    const length = [6, 2, 5, 4][row]!;
    const perToken = (make: (t: number) => number): number[] =>
      Array.from({ length: T }, (_x, t) => (t < length ? make(t) : 0));
    const near = (xs: readonly number[]): number[] => perToken((t) => Math.fround(xs[t]! + drawn(-0.1, 0.1)));
    const old_log_probs = perToken(() => drawn(-3, -0.2));
    const advantages = perToken(() => drawn(-1, 1));
    const returns = perToken(() => drawn(-1, 2));
    return {
      attention_mask: Array.from({ length: PROMPT + T }, (_x, t) =>
        Number(t < PROMPT ? t >= row % PROMPT : t - PROMPT < length),
      ),
      response_mask: perToken((t) => Number(t !== 3)),
      token_level_scores: perToken((t) => Number(t === length - 1) * [0.5, 1, 0.7, 0.25][row]!),
      token_level_rewards: perToken((t) => Number(t === length - 1) * [0.5, 1, 0.7, 0.25][row]!),
      ...{ advantages, returns },
      ...{
        values: perToken((t) => Math.fround(0.9 * returns[t]! + drawn(-0.1, 0.2))),
        vpreds: perToken(() => drawn(-1, 2)),
      },
      ...{ entropys: perToken(() => drawn(0, 2)), rollout_is_weights: perToken(() => drawn(0.5, 1.5)) },
      ...{ old_log_probs, log_probs: near(old_log_probs), ref_log_prob: near(old_log_probs) },
      rollout_log_probs: near(old_log_probs),
      sum_pi_squared: perToken((t) => Math.fround(drawn(0, 0.1) + Math.exp(2 * old_log_probs[t]!))),
    };
  });
}

/** The rows with other numbers in a field, wherever `isAt` holds. */
function changed(
  rows: readonly Row[],
  fields: readonly string[],
  make: (value: number, row: Row, t: number) => number,
  isAt: (row: number, t: number, isToken: boolean) => boolean = () => true,
): Row[] {
  return rows.map((row, i) => {
    const change = (values: number[]): number[] =>
      values.map((value, t) =>
        isAt(i, t, row.response_mask![t] === 1) ? Math.fround(make(value, row, t)) : value,
      );
    return { ...row, ...Object.fromEntries(fields.map((field) => [field, change(row[field]!)])) };
  });
}

const isToken = (_row: number, _t: number, isOne: boolean): boolean => isOne;
const isPadding = (_row: number, t: number, isOne: boolean): boolean => !isOne && t !== 3;

/** Rows whose log ratios x = old − rollout are these, at log-probabilities of at most 0. */
function withLogRatio(x: (row: number, t: number) => number): Row[] {
  return healthy.map((row, i) => {
    const most = -0.2 - 0.05 * i;
    const perColumn = (make: (t: number) => number): number[] =>
      Array.from({ length: T }, (_x, t) => Math.fround(make(t)));
    const old_log_probs = perColumn((t) => most + Math.min(x(i, t), 0));
    return {
      ...row,
      old_log_probs,
      rollout_log_probs: perColumn((t) => most - Math.max(x(i, t), 0)),
      sum_pi_squared: perColumn((t) => 1.1 * Math.exp(2 * old_log_probs[t]!)),
    };
  });
}

const withoutTokens = (rows: readonly Row[], isAt: (row: number) => boolean): Row[] =>
  changed(
    rows,
    ['response_mask'],
    () => 0,
    (row) => isAt(row),
  );

/** A batch, and what is asked of it. */
export interface Scenario {
  readonly rows: readonly Row[];
  readonly columns?: Record<string, readonly number[]>;
  readonly gradientNorm?: number | undefined;
  readonly lossAggMode?: LossAggMode;
  /** The threshold of weights that is a range. */
  readonly range?: string;
  /** Seconds, of a step that took some. */
  readonly timing?: Readonly<Record<string, number>>;
}

export const healthy = healthyRows();

const withOneNaN = changed(
  healthy,
  FIELDS,
  () => NaN,
  (row, t) => row === 0 && t === 0,
);

/** By the identifier of the difference that they show; several where one batch does not show all of it. */
export const SCENARIOS: Readonly<Record<string, readonly Scenario[]>> = {
  healthy: [{ rows: healthy }],
  'score-padding': [
    { rows: changed(healthy, ['token_level_scores', 'token_level_rewards'], () => NaN, isPadding) },
  ],
  'explained-variance-epsilon': [
    { rows: changed(healthy, ['returns', 'values'], (x) => 1e-3 * x) },
    { rows: changed(healthy, ['returns', 'values'], (x) => 1e-4 * x) },
  ],
  'constant-returns': [
    // As 1 ± 1e-7 is one number to float32.
    { rows: changed(healthy, ['returns'], (_x, _row, t) => 1 + (t % 2 === 0 ? 1e-7 : -1e-7)) },
    { rows: changed(healthy, ['returns'], () => 2) },
  ],
  'length-columns': [
    { rows: healthy, columns: { response_length: [4, 0, 3, 0], prompt_length: [2, 2, 5, 4] } },
  ],
  'time-of-no-tokens': [
    {
      rows: withoutTokens(healthy, () => true).map((row) => ({
        ...row,
        attention_mask: Array<number>(PROMPT + T).fill(0),
      })),
    },
  ],
  'rows-without-tokens': [
    {
      rows: withoutTokens(
        withLogRatio((row) => 0.1 + 0.3 * row),
        (row) => row === 1,
      ),
    },
    {
      rows: withoutTokens(
        withLogRatio((row) => -0.1 - 0.3 * row),
        (row) => row === 1,
      ),
    },
  ],
  'mean-of-nothing': [{ rows: withoutTokens(healthy, () => true) }],
  'loss-outside-mask': [
    { rows: changed(healthy, FIELDS, () => NaN, isPadding), lossAggMode: 'seq-mean-token-mean' },
  ],
  'sequence-norm': [{ rows: healthy, lossAggMode: 'seq-mean-token-sum-norm' }],
  'weights-before-truncation': [
    { rows: withLogRatio((row, t) => (t % 2 === 0 ? 1 : -1.2) * (1 + 0.2 * row)) },
    { rows: withLogRatio((row, t) => 1 + 0.1 * t + 0.2 * row) },
  ],
  'sample-size-epsilon': [{ rows: withLogRatio(() => -19), range: '1e-10_2' }],
  'comparison-with-nan': [
    { rows: withOneNaN },
    // Where the log ratio is NaN, rejection takes the token out of what the update is measured over.
    {
      rows: changed(
        healthy,
        ['advantages', 'vpreds'],
        () => NaN,
        (row, t) => row === 0 && t === 0,
      ),
    },
  ],
  'held-log-ratio': [
    {
      rows: changed(
        healthy,
        ['log_probs'],
        (x) => x - 25,
        (row, t) => row === 0 && t === 0,
      ),
    },
  ],
  'held-criteria': [{ rows: withLogRatio((row, t) => -21 - row - t) }],
  'least-norm-factor': [{ rows: withLogRatio((row, t) => -21 - row - t) }],
  'unheld-k3': [{ rows: withLogRatio((row, t) => (row === 0 && t === 0 ? 25 : 0.1)) }],
  'std-of-one-row': [{ rows: healthyRows(1) }],
  'unheld-least-weight': [{ rows: withLogRatio((row) => (row === 0 ? -15 : 0.01)) }],
  'unknown-norm-factor': [{ rows: withOneNaN }],
  'unknown-noise': [{ rows: healthy, gradientNorm: undefined }],
  'negative-w': [{ rows: changed(healthy, ['sum_pi_squared'], () => 0.01, isToken) }],
  'small-weights': [
    {
      rows: changed(
        healthy,
        ['rollout_is_weights'],
        () => 0,
        (_row, t) => t === 1,
      ),
    },
  ],
  'no rows': [{ rows: [] }],
  'invalid times': [
    { rows: healthy, timing: { step: 0 } },
    { rows: healthy, timing: { step: NaN } },
  ],
  'infinite values': [
    {
      rows: changed(
        healthy,
        ['advantages', 'returns', 'values'],
        () => Infinity,
        (row, t) => row === 0 && t === 0,
      ),
    },
    {
      rows: changed(
        healthy,
        ['old_log_probs'],
        () => -Infinity,
        (row, t) => row === 0 && t === 0,
      ),
    },
  ],
};

/** Calls `use` with the batch of a scenario. */
export async function withBatch<R>(
  { rows, columns = {} }: Scenario,
  use: (batch: RolloutBatch) => Promise<R>,
): Promise<R> {
  const tensor = (name: string, dtype: 'float32' | 'int32' | 'bool'): tf.Tensor =>
    deviceTensor({
      shape: [rows.length, name === 'attention_mask' ? PROMPT + T : T],
      dtype,
      values: rows.flatMap((row) => row[name]!),
    });
  const tensors = {
    attention_mask: tensor('attention_mask', 'int32'),
    response_mask: tensor('response_mask', 'bool'),
    ...Object.fromEntries(FIELDS.map((name) => [name, tensor(name, 'float32')])),
  };
  const counts = { __num_turns__: rows.map((_row, i) => 1 + i), tool_call_counts: rows.map((_row, i) => i) };
  try {
    return await use(batchFromVerl(tensors, { ...counts, ...columns }));
  } finally {
    tf.dispose(tensors);
  }
}
