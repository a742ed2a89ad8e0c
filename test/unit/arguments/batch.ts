/** Tensors and a batch that fit, for arguments that do not. They go with the process. Not a test. */
import * as tf from '@tensorflow/tfjs-core';
import { batchFromVerl, type RolloutBatch } from '../../../src/index.js';

export function tensor(): tf.Tensor {
  return tf.tensor2d([1, 2, 3, 4], [2, 2]);
}

export function mask(): tf.Tensor {
  return tf.tensor1d([1, 0], 'bool');
}

/** What `batchFromVerl` takes: two rows, two columns, all response. */
export function columns(): Record<string, tf.Tensor> {
  const names = ['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values'];
  const given = Object.fromEntries(names.map((name) => [name, tensor()]));
  return { ...given, response_mask: tensor(), attention_mask: tensor() };
}

export function batch(): RolloutBatch {
  return batchFromVerl(columns());
}
