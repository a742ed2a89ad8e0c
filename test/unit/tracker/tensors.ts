/** Small tensors for tracker tests. */
import * as tf from '@tensorflow/tfjs-core';
import type { StatsTracker } from '../../../src/tracker/index.js';

export function mask(...bits: (0 | 1)[]): tf.Tensor {
  return tf.tensor1d(bits, 'bool');
}

export function values(...numbers: number[]): tf.Tensor {
  return tf.tensor1d(numbers, 'float32');
}

/** Records one micro-batch: numbers as `v`, of which the sum is exported, under a mask `m` that selects all of them. */
export function recordSum(tracker: StatsTracker, ...numbers: number[]): void {
  tf.tidy(() => {
    tracker.denominator({ m: tf.ones([numbers.length], 'bool') });
    tracker.stat({ v: values(...numbers) }, { denominator: 'm', reduceType: 'sum' });
  });
}
