/** Rows for rollout corrections, and what a correction makes of them. Not a test. */
import * as tf from '@tensorflow/tfjs-core';

import {
  type Metrics,
  type RolloutCorrection,
  type RolloutCorrectionOptions,
  batchFromVerl,
  computeRolloutCorrection,
} from '../../src/metrics/index.js';
import { seeded } from './random.js';
import { type TensorDtype, deviceTensor } from './tensors.js';

export const T = 9;

export interface Row {
  readonly old: readonly number[];
  readonly rollout: readonly number[];
  readonly mask: readonly number[];
}

/** Rows of different lengths with gaps, one of them empty. */
export function rows(): Row[] {
  const random = seeded(11);
  return Array.from({ length: 7 }, (_, i) => {
    const length = i === 3 ? 0 : 2 + Math.floor(random() * (T - 2));
    const numbers = () => Array.from({ length: T }, () => Math.fround(-2 * random()));
    const mask = Array.from({ length: T }, (_x, t) => Number(t < length && (t === 0 || random() < 0.8)));
    return { old: numbers(), rollout: numbers(), mask };
  });
}

/** Everything at once. */
export const ALL: RolloutCorrectionOptions = {
  rolloutIs: 'token',
  rolloutIsThreshold: 1.5,
  rolloutRs: 'token_k1,token_k3,seq_mean_k2,seq_max_k3,seq_sum_k1',
  rolloutRsThreshold: '0.3_3.5,0.9,0.6,1.8,0.05_20',
};

export interface Computed {
  readonly metrics: Metrics;
  /** One array per row. */
  readonly weights: readonly (readonly number[])[] | undefined;
  readonly mask: readonly (readonly number[])[];
}

export interface Layout {
  readonly width?: number;
  readonly garbage?: number;
  readonly dtype?: TensorDtype;
}

/** The result for rows whose elements outside the mask hold `garbage`. */
export async function correct(batch: readonly Row[], options = ALL, layout: Layout = {}): Promise<Computed> {
  const { width = T, garbage = 0, dtype = 'int32' } = layout;
  const shape = [batch.length, width];
  const values = (row: Row, field: 'old' | 'rollout'): number[] =>
    Array.from({ length: width }, (_, t) => (row.mask[t] === 1 ? row[field][t]! : garbage));
  const masks = batch.flatMap(({ mask }) => Array.from({ length: width }, (_, t) => mask[t] ?? 0));
  const tensors = {
    old_log_probs: deviceTensor({ shape, values: batch.flatMap((row) => values(row, 'old')) }),
    rollout_log_probs: deviceTensor({ shape, values: batch.flatMap((row) => values(row, 'rollout')) }),
    response_mask: deviceTensor({ shape, dtype, values: masks }),
  };
  const computing = computeRolloutCorrection(batchFromVerl(tensors), options);
  tf.dispose(tensors);
  return read(await computing);
}

export async function read({ metrics, isWeights, responseMask }: RolloutCorrection): Promise<Computed> {
  const cut = (values: ArrayLike<number>): number[][] => {
    const [B, width] = responseMask.shape as [number, number];
    return Array.from({ length: B }, (_, row) => Array.from(values).slice(row * width, (row + 1) * width));
  };
  const weights = isWeights && cut(await isWeights.data());
  const mask = cut(await responseMask.data());
  tf.dispose([responseMask, ...(isWeights === undefined ? [] : [isWeights])]);
  return { metrics, weights, mask };
}

export function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}
