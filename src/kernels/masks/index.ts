/** Compact masks: a mask that many passes share, brought once into the form that they read fastest. */
import type * as tf from '@tensorflow/tfjs-core';
import { residentBackend } from '../backends/table.js';
import { assertRank } from '../moments/checks.js';
import { assertNumericTensor } from '../residency.js';
import { CompactMask } from './compact-mask.js';

export { CompactMask, type MaskTensor } from './compact-mask.js';

const WHERE = 'compactMask';

/**
 * Holds a mask that several passes are to use, in as few bytes as they need: runs of selected elements or one bit per
 * element in the memory of the host, one bit per element on `webgpu` (small masks stay as they are), one byte on
 * `tensorflow` with a GPU. Every operation that takes a mask takes it in place of the tensor, and gives the same numbers.
 *
 * Launches in the call, so the tensor may be disposed in the next line; what is held belongs to the caller and outlives
 * any `tf.tidy`.
 *
 * @param mask rank 1 to 4; bool, int32 or float32, every non-zero element selects
 * @throws MissingInputError, DisposedTensorError, DtypeError or ShapeError for what is no mask; BackendError for a
 *   tensor on a backend without kernels
 * @example
 *   const mask = compactMask(responseMask);
 *   const tables = collect(momentsTables({ loss }, mask), momentsTables({ entropy }, mask));
 *   mask.release();
 */
export function compactMask(mask: tf.Tensor): CompactMask {
  assertNumericTensor(WHERE, 'mask', mask);
  const named = { name: 'mask', tensor: mask };
  assertRank(WHERE, named);
  const { kernels, backend } = residentBackend(WHERE, [named]);
  return new CompactMask([...mask.shape], kernels.masks(backend, mask));
}
