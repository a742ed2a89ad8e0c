/** The peer of `computeDataMetrics`: the same metrics composed from TensorFlow.js operations, read back once. */
import * as tf from '@tensorflow/tfjs-core';
import type { Numbers } from '../agreement.js';
import type { Rollout } from '../rollout.js';

/** verl's data metrics of a healthy batch, critic included. */
export async function composedDataMetrics(
  tensors: Readonly<Record<keyof Rollout, tf.Tensor>>,
): Promise<Numbers> {
  const named = tf.tidy(() => {
    const metrics = dataMetrics(tensors as Readonly<Record<keyof Rollout, tf.Tensor2D>>);
    return { names: Object.keys(metrics), packed: tf.stack(Object.values(metrics)) };
  });
  const numbers = await named.packed.data<'float32'>();
  named.packed.dispose();
  return Object.fromEntries(named.names.map((name, i) => [name, numbers[i]!]));
}

function dataMetrics(tensors: Readonly<Record<keyof Rollout, tf.Tensor2D>>): Record<string, tf.Tensor> {
  const { attention_mask: attention, response_mask: mask, returns, values } = tensors;
  const [rows, responseWidth] = mask.shape;
  const promptWidth = attention.shape[1] - responseWidth;
  const countRows = (from: number, width: number): tf.Tensor =>
    tf.sum(tf.cast(tf.slice(attention, [0, from], [rows, width]), 'float32'), 1);
  const promptLength = countRows(0, promptWidth);
  const responseLength = countRows(promptWidth, responseWidth);
  const everyRow = tf.ones([rows], 'bool');
  const answered = tf.greater(responseLength, 0);
  const share = (lengths: tf.Tensor, width: number, among: tf.Tensor): tf.Tensor => {
    const hits = tf.logicalAnd(tf.equal(lengths, width), among);
    return tf.div(tf.sum(tf.cast(hits, 'float32')), tf.sum(tf.cast(among, 'float32')));
  };
  return {
    ...meanMaxMin('critic/score', tf.sum(tensors.token_level_scores, 1), answered),
    ...meanMaxMin('critic/rewards', tf.sum(tensors.token_level_rewards, 1), answered),
    ...meanMaxMin('critic/advantages', tensors.advantages, mask),
    ...meanMaxMin('critic/returns', returns, mask),
    ...meanMaxMin('critic/values', values, mask),
    'critic/vf_explained_var': tf.sub(
      1,
      tf.div(variance(tf.sub(returns, values), mask), tf.add(variance(returns, mask), 1e-5)),
    ),
    ...meanMaxMin('response_length', responseLength, everyRow),
    'response_length/clip_ratio': share(responseLength, responseWidth, everyRow),
    ...meanMaxMin('response_length_non_aborted', responseLength, answered),
    'response_length_non_aborted/clip_ratio': share(responseLength, responseWidth, answered),
    'response/aborted_ratio': share(responseLength, 0, everyRow),
    ...meanMaxMin('prompt_length', promptLength, everyRow),
    'prompt_length/clip_ratio': share(promptLength, promptWidth, everyRow),
  };
}

function meanMaxMin(prefix: string, x: tf.Tensor, mask: tf.Tensor): Record<string, tf.Tensor> {
  return {
    [`${prefix}/mean`]: mean(x, mask),
    [`${prefix}/max`]: tf.max(tf.where(mask, x, tf.fill(x.shape, -Infinity))),
    [`${prefix}/min`]: tf.min(tf.where(mask, x, tf.fill(x.shape, Infinity))),
  };
}

function mean(x: tf.Tensor, mask: tf.Tensor): tf.Tensor {
  const selected = tf.where(mask, x, tf.zerosLike(x));
  return tf.div(tf.sum(selected), tf.sum(tf.cast(mask, 'float32')));
}

function variance(x: tf.Tensor, mask: tf.Tensor): tf.Tensor {
  const deviations = tf.square(tf.sub(x, mean(x, mask)));
  const total = tf.sum(tf.where(mask, deviations, tf.zerosLike(x)));
  return tf.div(total, tf.sub(tf.sum(tf.cast(mask, 'float32')), 1));
}
