/** Compact masks: a mask that many passes share, brought once into the form that they read fastest. */
import type * as tf from '@tensorflow/tfjs-core';
import type { BackendName } from '../backend-names.js';
import { cpuHost, wasmHost } from '../hosts.js';
import { assertRank } from '../moments/checks.js';
import { assertNumericTensor, residentKernel } from '../residency.js';
import { CompactMask } from './compact-mask.js';
import { hostMask } from './host.js';
import type { MaskKernel } from './request.js';
import { tensorflowMask } from './tensorflow.js';
import { webgpuMask } from './webgpu.js';

export { CompactMask, type MaskTensor } from './compact-mask.js';

const WHERE = 'compactMask';

/** The kernels by the name of the backend whose tensors they read. */
const maskKernels: Readonly<Record<BackendName, MaskKernel>> = {
  cpu: hostMask(cpuHost),
  wasm: hostMask(wasmHost),
  webgpu: webgpuMask,
  tensorflow: tensorflowMask,
};

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
  const { kernel, backend } = residentKernel(WHERE, maskKernels, [named]);
  return new CompactMask([...mask.shape], kernel(backend, mask));
}
