/** Masked moments on tfjs' `cpu` backend: tiles of the arrays that hold the tensors, copied to a memory of our own. */
import { cpuArray } from '../host-arrays.js';
import { ownWorkspace } from '../simd/workspace.js';
import { hostKernel } from './host-loop.js';

export const cpuMoments = hostKernel({
  workspace: ownWorkspace,
  holdsTensors: false,
  // A cast from int32 or bool to float32 only renames the dtype: the elements stay what they were.
  storesFloat32: (backend, info) => cpuArray(backend, info) instanceof Float32Array,
  array: cpuArray,
});
