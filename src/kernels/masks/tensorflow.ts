/** Compact masks on the `tensorflow` backend: bool tensors on a GPU, which a pass takes without a cast. */
import { cast } from '@tensorflow/tfjs-core';
import { tensorflowHost } from '../hosts.js';
import { holdTensor, retainTensor } from '../residency.js';
import { tidyWhere } from '../resident-ops.js';
import { usesGpu } from '../tensorflow-ops.js';
import { hostMask } from './host.js';
import type { MaskKernel } from './request.js';

const deviceMask: MaskKernel = (_backend, mask) => {
  // As a number becomes bool, NaN is true and both zeros are false: what a pass would make of it.
  const held =
    mask.dtype === 'bool'
      ? retainTensor(mask)
      : holdTensor(tidyWhere('compactMask', [{ name: 'mask', tensor: mask }], () => cast(mask, 'bool')));
  return { held, form: 'elements', bytes: mask.size };
};

const hostMaskKernel = hostMask(tensorflowHost);

export const tensorflowMask: MaskKernel = (backend, mask) =>
  usesGpu(backend) ? deviceMask(backend, mask) : hostMaskKernel(backend, mask);
