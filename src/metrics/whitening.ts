/** Whitening: values shifted and scaled so that the selected ones have mean 0 and variance 1. */
import * as tf from '@tensorflow/tfjs-core';
import { assertOptions } from '../kernels/arguments.js';
import { maskedMoments, retainTensor } from '../kernels/index.js';
import { tidyWhere } from '../kernels/resident-ops.js';

/** Options of `maskedWhiten`. */
export interface WhitenOptions {
  /** Whether the mean becomes 0 (default) or stays. */
  readonly shiftMean?: boolean | undefined;
}

const WHERE = 'maskedWhiten';
/** Keeps equal values finite; verl's constant. */
const EPSILON = 1e-8;

/**
 * (x − μ) / √(σ² + 1e-8), with mean and unbiased variance of the elements that the mask selects; plus μ again without
 * `shiftMean`. Elements outside the mask are transformed as well and count for nothing.
 *
 * Fewer than two selected elements have no variance, and a NaN among them no mean: then everything is NaN.
 *
 * @param values float32 or int32, rank 1 to 4
 * @param mask same shape; every non-zero element selects. Left out, all count
 * @returns float32, the shape of the values, on their backend; it belongs to the caller. One read-back, of the moments.
 *   The arguments may be disposed while this waits
 * @throws as `maskedMoments`, by rejection
 * @source verl, utils/torch_functional.py, masked_whiten
 * @example  const whitened = await maskedWhiten(advantages, responseMask);
 */
export async function maskedWhiten(
  values: tf.Tensor,
  mask?: tf.Tensor,
  options: WhitenOptions = {},
): Promise<tf.Tensor> {
  assertOptions(WHERE, options, { shiftMean: 'boolean' });
  const { shiftMean = true } = options;
  const pending = maskedMoments(values, mask);
  const { refusal } = pending;
  if (refusal !== undefined) throw refusal;
  const retained = retainTensor(values);
  try {
    const moments = await pending;
    const scale = 1 / Math.sqrt(moments.variance() + EPSILON);
    const mean = Math.fround(moments.mean);
    const { tensor } = retained;
    return tidyWhere(WHERE, [{ name: 'values', tensor }], () => {
      // The mean in two parts: of values far from 0, rounding it once would shift the result.
      const centred = tf.sub(tf.sub(tf.cast(tensor, 'float32'), mean), moments.mean - mean);
      const whitened = tf.mul(centred, scale);
      return shiftMean ? whitened : tf.add(whitened, moments.mean);
    });
  } finally {
    retained.release();
  }
}
