/** The peer of `maskedMoments`: the same statistics composed from TensorFlow.js operations, as users write them. */
import * as tf from '@tensorflow/tfjs';

/** Count, mean, m2, min, max, number of NaN and of infinities, per tensor, in that order; one read-back for all. */
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
