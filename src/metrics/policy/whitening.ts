/** Whitening: values shifted and scaled so that the selected ones have mean 0 and variance 1. */
import * as tf from '@tensorflow/tfjs-core';
import { assertOptions } from '../../arguments.js';
import { maskedMoments, retainTensor } from '../../kernels/index.js';
import { assertTensors } from '../../kernels/moments/checks.js';
import { tidyWhere } from '../../kernels/resident-ops.js';
import type { Moments } from '../../rows/index.js';
import { isOneNumber } from '../numbers/rounding.js';
import { type Semantics, assertSemantics } from '../semantics.js';

/** Options of `maskedWhiten`. */
export interface WhitenOptions {
  /** Whether the mean becomes 0 (default) or stays. */
  readonly shiftMean?: boolean | undefined;
  /** Default `'recommended'`; the verl presets add 1e-8 to the variance. */
  readonly semantics?: Semantics | undefined;
}

const WHERE = 'maskedWhiten';
/** What verl adds to the variance. */
const VERL_EPSILON = 1e-8;

/**
 * (x − μ) / σ, with mean and unbiased variance of the elements that the mask selects; plus μ again without `shiftMean`.
 * Elements outside the mask are transformed as well and count for nothing.
 *
 * Values of any unit come out alike, also those of 1e-5. Selected elements that are equal but for float32 rounding (their
 * range is at most 2⁻²¹ of the largest magnitude) become 0, or μ without `shiftMean`. Fewer than two selected elements
 * have no variance, and a NaN among them no mean: then everything is NaN.
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
  assertOptions(WHERE, options, { shiftMean: 'boolean', semantics: 'any' });
  const { shiftMean = true, semantics = 'recommended' } = options;
  assertSemantics(WHERE, semantics);
  assertTensors(
    WHERE,
    [{ name: 'values', tensor: values }],
    mask === undefined ? undefined : { name: 'mask', tensor: mask },
  );
  const pending = maskedMoments(values, mask);
  const { refusal } = pending;
  if (refusal !== undefined) throw refusal;
  const retained = retainTensor(values);
  try {
    const moments = await pending;
    const { mean } = moments;
    const scale = scaleOf(moments, values.dtype, semantics);
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

/** What deviations are multiplied by. */
function scaleOf(moments: Moments, dtype: tf.DataType, semantics: Semantics): number {
  const variance = moments.variance();
  if (semantics !== 'recommended') return 1 / Math.sqrt(variance + VERL_EPSILON);
  const { count, min, max } = moments;
  // Integers have not been rounded.
  const isConstant = dtype === 'float32' ? isOneNumber(min, max) : min === max;
  return count > 1 && isConstant ? 0 : 1 / Math.sqrt(variance);
}

/** Of values as spread out as this, deviations can overflow float32, and the scale is a denormal, which devices lose. */
const VAST = 2 ** 96;
/** Brings them back to where float32 has its digits, and changes none of them. */
const NEARER = 2 ** -64;
/** Of values as close as this, deviations can be denormals, and the scale can overflow float32. */
const TINY = 2 ** -60;

/** (x − mean) · scale. */
function scaled(values: tf.Tensor, mean: number, scale: number): tf.Tensor {
  const floats = tf.cast(values, 'float32');
  if (scale === 0) return tf.mul(floats, 0);
  const unit = scale * VAST < 1 ? NEARER : scale * TINY > 1 ? 1 / NEARER : 1;
  if (unit === 1) return tf.mul(centred(floats, mean), scale);
  return tf.mul(centred(tf.mul(floats, unit), mean * unit), scale / unit);
}

/** x − mean, the mean in two parts: of values far from 0, rounding it once would shift the result. */
function centred(values: tf.Tensor, mean: number): tf.Tensor {
  const rounded = Math.fround(mean);
  return tf.sub(tf.sub(values, rounded), mean - rounded);
}
