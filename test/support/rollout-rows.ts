/**
 * Rows of a made-up rollout, and the batches that they make: at any width, in any order, whatever the padding holds.
 * What a metric says must depend on the rows alone.
 */
import * as tf from '@tensorflow/tfjs-core';

import { type RolloutBatch, batchFromVerl } from '../../src/metrics/index.js';
import { seeded } from './random.js';
import { deviceTensor } from './tensors.js';

const FIELDS = [
  'token_level_scores',
  'token_level_rewards',
  'advantages',
  'old_log_probs',
  'rollout_log_probs',
  'rollout_is_weights',
  'sum_pi_squared',
] as const;
export type RolloutField = (typeof FIELDS)[number];

/** One row: as many numbers per field as it has response tokens. */
export interface RolloutRow extends Readonly<Record<RolloutField, readonly number[]>> {
  readonly promptTokens: number;
  /** 1 for what the policy wrote, 0 for tool output. */
  readonly response_mask: readonly number[];
}

/** Response columns of a batch that is made without a width. */
export const WIDTH = 9;
const PROMPT_WIDTH = 3;

/**
 * Rows of different lengths with tool output among their tokens, the third one aborted. The rewards of a row are on
 * its last token.
 *
 * @param leastProb probabilities are spread between this and 1
 */
export function rolloutRows(seed: number, { count = 6, leastProb = 0.05 } = {}): RolloutRow[] {
  const random = seeded(seed);
  return Array.from({ length: count }, (_, row): RolloutRow => {
    const length = row === 2 ? 0 : 1 + Math.floor(random() * WIDTH);
    const perToken = (make: (token: number) => number): number[] =>
      Array.from({ length }, (_x, token) => Math.fround(make(token)));
    const old_log_probs = perToken(() => Math.log(1 - (1 - leastProb) * random()));
    const last = (value: number) => perToken((token) => (token === length - 1 ? value : 0));
    return {
      promptTokens: 1 + Math.floor(random() * PROMPT_WIDTH),
      response_mask: perToken((token) => (token > 0 && random() < 0.2 ? 0 : 1)),
      token_level_scores: last(Math.round(random())),
      token_level_rewards: last(random() - 0.5),
      advantages: perToken(() => random() * 4 - 2),
      old_log_probs,
      rollout_log_probs: perToken((token) => old_log_probs[token]! * (1 + 0.1 * (random() - 0.5))),
      rollout_is_weights: perToken(() => 0.5 + random()),
      sum_pi_squared: perToken((token) => {
        const p = Math.exp(old_log_probs[token]!);
        return p * p + (1 - p) ** 2 * random();
      }),
    };
  });
}

/** Options of `rolloutBatch`. */
interface BatchLayout {
  readonly width?: number;
  /** What stands where no token is. */
  readonly padding?: number;
  /** Fields that the batch is made without. */
  readonly without?: readonly (RolloutField | 'response_mask' | 'attention_mask')[];
}

/** A batch of these rows on the device, and how to free it. */
export function rolloutBatch(
  rows: readonly RolloutRow[],
  { width = WIDTH, padding = 0, without = [] }: BatchLayout = {},
): { batch: RolloutBatch; dispose: () => void } {
  const padded = (xs: readonly number[], fill: number): number[] =>
    Array.from({ length: width }, (_, token) => xs[token] ?? fill);
  const prompt = ({ promptTokens }: RolloutRow): number[] =>
    Array.from({ length: PROMPT_WIDTH }, (_, token) => Number(token >= PROMPT_WIDTH - promptTokens));
  const all = {
    attention_mask: deviceTensor({
      shape: [rows.length, PROMPT_WIDTH + width],
      dtype: 'int32',
      values: rows.flatMap((row) => [
        ...prompt(row),
        ...padded(
          row.response_mask.map(() => 1),
          0,
        ),
      ]),
    }),
    response_mask: deviceTensor({
      shape: [rows.length, width],
      dtype: 'bool',
      values: rows.flatMap((row) => padded(row.response_mask, 0)),
    }),
    ...Object.fromEntries(
      FIELDS.map((name) => [
        name,
        deviceTensor({
          shape: [rows.length, width],
          values: rows.flatMap((row) => padded(row[name], padding)),
        }),
      ]),
    ),
  };
  const kept = Object.entries(all).filter(([name]) => !without.includes(name as RolloutField));
  return {
    batch: batchFromVerl(Object.fromEntries(kept), {}, { responseWidth: width }),
    dispose: () => {
      tf.dispose(all);
    },
  };
}

/** What `compute` says of a batch of these rows; the tensors are disposed before the result is read. */
export async function resultOf<T>(
  compute: (batch: RolloutBatch) => Promise<T>,
  rows: readonly RolloutRow[],
  layout?: BatchLayout,
): Promise<T> {
  const { batch, dispose } = rolloutBatch(rows, layout);
  const computed = compute(batch);
  dispose();
  return computed;
}

/** The numbers of a field at the tokens that the policy wrote, over all rows. */
export function written(rows: readonly RolloutRow[], field: RolloutField): number[] {
  return rows.flatMap((row) => row[field].filter((_x, token) => row.response_mask[token] === 1));
}
