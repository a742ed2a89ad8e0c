/** Small tensors for tracker tests. */
import * as tf from '@tensorflow/tfjs-core';

export function mask(...bits: (0 | 1)[]): tf.Tensor {
  return tf.tensor1d(bits, 'bool');
}

export function values(...numbers: number[]): tf.Tensor {
  return tf.tensor1d(numbers, 'float32');
}
