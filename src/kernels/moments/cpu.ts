/** Masked moments on tfjs' `cpu` backend: tiles of the arrays that hold the tensors, copied to a memory of our own. */
import type { DataId } from '@tensorflow/tfjs-core';
import { ownWorkspace } from '../simd/workspace.js';
import { hostKernel } from './host-loop.js';
import type { HostArray } from './host-views.js';

/** The parts of the backend that this kernel uses. */
interface CpuBackend {
  readonly data: { get(dataId: DataId): { readonly values: unknown } };
  readSync(dataId: DataId): HostArray;
}

export const cpuMoments = hostKernel({
  workspace: ownWorkspace,
  holdsTensors: false,
  // A cast from int32 or bool to float32 only renames the dtype: the elements stay what they were.
  storesFloat32: (backend, { dataId }) =>
    (backend as unknown as CpuBackend).data.get(dataId).values instanceof Float32Array,
  array: (backend, { dataId, dtype }) => {
    const cpu = backend as unknown as CpuBackend;
    const { values } = cpu.data.get(dataId);
    // `readSync` hands out the array itself too, but not of a bool tensor: that one it copies, element by element.
    return dtype === 'bool' && values instanceof Uint8Array ? values : cpu.readSync(dataId);
  },
});
