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
 * Deviations from the mean keep their digits however far from 0 the values are: numbers near the end of float32 are
 * brought nearer first, and int32 values of which a selected one is beyond 2^24 are read back and whitened on the host.
 *
 * @param values float32 or int32, rank 1 to 4
 * @param mask same shape; every non-zero element selects. Left out, all count
 * @returns float32, the shape of the values, on their backend; it belongs to the caller. One read-back, of the moments,
 *   and a second one of such int32 values.
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
    const { mean } = moments;
    const scale = 1 / Math.sqrt(moments.variance() + EPSILON);
    const { tensor } = retained;
    const named = [{ name: 'values', tensor }];
    if (tensor.dtype === 'int32' && Math.max(-moments.min, moments.max) > MOST_EXACT) {
      const after = shiftMean ? 0 : mean;
      const whitened = Float32Array.from(await tensor.data(), (x) => (x - mean) * scale + after);
      return tidyWhere(WHERE, named, () => tf.tensor(whitened, tensor.shape, 'float32'));
    }
    return tidyWhere(WHERE, named, () => {
      const whitened = scaled(tensor, mean, scale);
      return shiftMean ? whitened : tf.add(whitened, mean);
    });
  } finally {
    retained.release();
  }
}

/** Integers beyond this are not all float32 numbers, and what devices call int32 arithmetic may be that of float32. */
const MOST_EXACT = 2 ** 24;

/** Of values as spread out as this, deviations can overflow float32, and the scale is a denormal, which devices lose. */
const VAST = 2 ** 96;
/** Brings them back to where float32 has its digits, and changes none of them. */
const NEARER = 2 ** -64;

/** (x − mean) · scale. */
function scaled(values: tf.Tensor, mean: number, scale: number): tf.Tensor {
  const floats = tf.cast(values, 'float32');
  if (scale * VAST < 1) return tf.mul(centred(tf.mul(floats, NEARER), mean * NEARER), scale / NEARER);
  return tf.mul(centred(floats, mean), scale);
}

/** x − mean, the mean in two parts: of values far from 0, rounding it once would shift the result. */
function centred(values: tf.Tensor, mean: number): tf.Tensor {
  const rounded = Math.fround(mean);
  return tf.sub(tf.sub(values, rounded), mean - rounded);
}
