/**
 * Batches for policy metrics, and a second opinion on them: plain float64 loops over the tokens, written from the
 * formulas and sharing nothing with the engine.
 */
import * as tf from '@tensorflow/tfjs-core';

import { type LossAggMode, type RolloutBatch, batchFromVerl } from '../../src/metrics/index.js';
import { normal, seeded } from './random.js';
import { hostTensor } from './tensors.js';

export const POLICY_FIELDS = [
  'log_probs',
  'old_log_probs',
  'ref_log_prob',
  'advantages',
  'rollout_is_weights',
  'entropys',
  'vpreds',
  'values',
  'returns',
] as const;
export type PolicyField = (typeof POLICY_FIELDS)[number];

/** One row: T numbers per field. */
export type PolicyRow = Readonly<Record<PolicyField | 'mask', readonly number[]>>;

/** Rows with gaps in their masks, the third without a token; ratios on both sides of every clip bound. */
export function policyRows(rows: number, cols: number, seed = 11): PolicyRow[] {
  const random = seeded(seed);
  const each = (draw: () => number): number[] => Array.from({ length: cols }, () => Math.fround(draw()));
  return Array.from({ length: rows }, (_, i) => {
    const old = each(() => -3 * random() - 0.05);
    return {
      mask: each(() => (i !== 2 && random() < 0.7 ? 1 : 0)),
      old_log_probs: old,
      log_probs: old.map((x) => Math.fround(x + normal(random, 0, 0.8))),
      ref_log_prob: old.map((x) => Math.fround(x + normal(random, 0, 0.5))),
      advantages: each(() => normal(random)),
      rollout_is_weights: each(() => 2 * random()),
      entropys: each(() => 2 * random()),
      vpreds: each(() => normal(random)),
      values: each(() => normal(random)),
      returns: each(() => normal(random)),
    };
  });
}

/** The tensors of rows: `width` columns, `outside` wherever the mask is 0. */
export function policyTensors(
  rows: readonly PolicyRow[],
  { width, outside = 0 }: { readonly width: number; readonly outside?: number },
): Record<string, tf.Tensor> {
  const shape = [rows.length, width];
  const columns = Array.from({ length: width }, (_, t) => t);
  const fields = POLICY_FIELDS.map((name) => {
    const values = rows.flatMap((row) => columns.map((t) => (row.mask[t] === 1 ? row[name][t]! : outside)));
    return [name, hostTensor({ shape, values })] as const;
  });
  const mask = rows.flatMap((row) => columns.map((t) => row.mask[t] ?? 0));
  return { ...Object.fromEntries(fields), response_mask: hostTensor({ shape, dtype: 'bool', values: mask }) };
}

/** Computes from the batch of `tensors`, which are gone before the result is awaited. */
export async function fromTensors<T>(
  tensors: Record<string, tf.Tensor>,
  compute: (batch: RolloutBatch) => Promise<T>,
): Promise<T> {
  const computed = compute(batchFromVerl(tensors));
  tf.dispose(tensors);
  return computed;
}

/** What one token is worth, by row; only tokens of the mask. */
function tokens(rows: readonly PolicyRow[], of: (row: PolicyRow, t: number) => number): number[][] {
  return rows.map((row) => row.mask.flatMap((m, t) => (m === 1 ? [of(row, t)] : [])));
}

const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);
const mean = (xs: readonly number[]): number => sum(xs) / xs.length;

function aggregated(rows: readonly (readonly number[])[], mode: LossAggMode, width: number): number {
  const sequences = rows.filter((row) => row.length > 0);
  switch (mode) {
    case 'token-mean':
      return mean(rows.flat());
    case 'token-sum':
      return sum(rows.flat());
    case 'seq-mean-token-sum':
      return mean(sequences.map(sum));
    case 'seq-mean-token-mean':
      return mean(sequences.map(mean));
    case 'seq-mean-token-sum-norm':
      return mean(sequences.map(sum)) / width;
  }
}

/** Every key of `computePolicyMetrics` with verl's default options and the KL penalty in the reward. */
export function expectedPolicyMetrics(
  rows: readonly PolicyRow[],
  mode: LossAggMode,
  width: number,
): Record<string, number> {
  const loss = (of: (row: PolicyRow, t: number) => number): number =>
    aggregated(tokens(rows, of), mode, width);
  const share = (of: (row: PolicyRow, t: number) => boolean): number =>
    mean(tokens(rows, (row, t) => Number(of(row, t))).flat());
  const ratio = (row: PolicyRow, t: number): number => Math.exp(row.log_probs[t]! - row.old_log_probs[t]!);
  const held = (row: PolicyRow, t: number): number => Math.min(Math.max(ratio(row, t), 0.8), 1.2);
  const surrogate = (row: PolicyRow, t: number): number => {
    const a = row.advantages[t]!;
    const pessimistic = Math.min(a * ratio(row, t), a * held(row, t));
    return a < 0 ? Math.max(pessimistic, 3 * a) : pessimistic;
  };
  const heldValue = (row: PolicyRow, t: number): number =>
    row.values[t]! + Math.min(Math.max(row.vpreds[t]! - row.values[t]!, -0.5), 0.5);
  const errors = (row: PolicyRow, t: number): readonly [number, number] => [
    (row.vpreds[t]! - row.returns[t]!) ** 2,
    (heldValue(row, t) - row.returns[t]!) ** 2,
  ];
  return {
    'actor/ppo_kl': mean(tokens(rows, (row, t) => row.old_log_probs[t]! - row.log_probs[t]!).flat()),
    'actor/pg_loss': loss((row, t) => -surrogate(row, t) * row.rollout_is_weights[t]!),
    'actor/pg_clipfrac': share((row, t) =>
      row.advantages[t]! > 0 ? ratio(row, t) > 1.2 : ratio(row, t) < 0.8,
    ),
    'actor/pg_clipfrac_lower': share((row, t) => row.advantages[t]! < 0 && ratio(row, t) > 3),
    'actor/entropy': loss((row, t) => row.entropys[t]!),
    'actor/kl_loss': loss((row, t) => {
      const x = row.ref_log_prob[t]! - row.log_probs[t]!;
      return Math.min(Math.expm1(x) - x, 10);
    }),
    'actor/reward_kl_penalty': mean(
      tokens(rows, (row, t) => row.old_log_probs[t]! - row.ref_log_prob[t]!)
        .filter((row) => row.length > 0)
        .map(mean),
    ),
    'critic/vpred_mean': mean(tokens(rows, (row, t) => row.vpreds[t]!).flat()),
    'critic/vf_loss': loss((row, t) => Math.max(...errors(row, t)) / 2),
    'critic/vf_clipfrac': share(
      (row, t) => errors(row, t)[1] > errors(row, t)[0] && heldValue(row, t) !== row.vpreds[t],
    ),
  };
}
