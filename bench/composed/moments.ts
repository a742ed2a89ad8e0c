/** The peer of `maskedMoments`: the same statistics composed from TensorFlow.js operations, as users write them. */
import * as tf from '@tensorflow/tfjs-core';

/** The statistics of each tensor, in the order in which `composedMoments` packs them. */
export const COMPOSED_STATISTICS = ['count', 'mean', 'm2', 'min', 'max', 'nan', 'infinite'] as const;

/** `COMPOSED_STATISTICS` of every tensor under one mask; one read-back for all. */
export async function composedMoments(values: readonly tf.Tensor[], mask: tf.Tensor): Promise<Float32Array> {
  const packed = tf.tidy(() => tf.stack(values.flatMap((x) => statistics(x, mask))));
  const numbers = await packed.data<'float32'>();
  packed.dispose();
  return numbers;
}

function statistics(x: tf.Tensor, mask: tf.Tensor): tf.Tensor[] {
  const selected = tf.logicalAnd(mask, tf.isFinite(x));
  const zeros = tf.zerosLike(x);
  const count = tf.sum(tf.cast(selected, 'float32'));
  const mean = tf.div(tf.sum(tf.where(selected, x, zeros)), count);
  return [
    count,
    mean,
    tf.sum(tf.where(selected, tf.square(tf.sub(x, mean)), zeros)),
    tf.min(tf.where(selected, x, tf.fill(x.shape, Infinity))),
    tf.max(tf.where(selected, x, tf.fill(x.shape, -Infinity))),
    tf.sum(tf.cast(tf.logicalAnd(mask, tf.isNaN(x)), 'float32')),
    tf.sum(tf.cast(tf.logicalAnd(mask, tf.isInf(x)), 'float32')),
  ];
}
