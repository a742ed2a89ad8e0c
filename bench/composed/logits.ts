/** The peer of `logitsStatistics`: the same quantities composed from TensorFlow.js operations. */
import * as tf from '@tensorflow/tfjs-core';
import type { LogitsStatistics } from '../../src/index.js';

/** Of logits `[N, V]` and labels `[N]`; all results `[N]`, on the device. */
export function composedLogits(logits: tf.Tensor2D, labels: tf.Tensor1D): LogitsStatistics {
  return tf.tidy(() => {
    const logProbs = tf.logSoftmax(logits);
    const probabilities = tf.exp(logProbs);
    const [rows, width] = logits.shape;
    const flat = tf.add(tf.mul(tf.range(0, rows, 1, 'int32'), width), labels);
    return {
      logProbs: tf.gather(tf.reshape(logProbs, [-1]), tf.cast(flat, 'int32')),
      entropy: tf.neg(tf.sum(tf.mul(probabilities, logProbs), 1)),
      sumPiSquared: tf.sum(tf.square(probabilities), 1),
      maxProb: tf.max(probabilities, 1),
    };
  });
}
