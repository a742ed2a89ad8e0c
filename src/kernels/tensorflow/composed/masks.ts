/** Compact masks on a GPU of TensorFlow: bool tensors, which a pass takes without a cast. */
import { cast } from '@tensorflow/tfjs-core';
import type { MaskKernel } from '../../masks/request.js';
import { holdTensor, retainTensor } from '../../residency.js';
import { tidyWhere } from '../../resident-ops.js';

export const deviceMask: MaskKernel = (_backend, mask) => {
  // As a number becomes bool, NaN is true and both zeros are false: what a pass would make of it.
  const held =
    mask.dtype === 'bool'
      ? retainTensor(mask)
      : holdTensor(tidyWhere('compactMask', [{ name: 'mask', tensor: mask }], () => cast(mask, 'bool')));
  return { held, form: 'elements', bytes: mask.size };
};
