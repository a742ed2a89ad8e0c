/** Masked moments on tfjs' `cpu` backend: float64 loops over the arrays that hold the tensors. */
import type { DataId } from '@tensorflow/tfjs-core';
import { type HostArray, hostKernel } from './host-loop.js';

/** The part of the backend that this kernel uses: values of a tensor without a copy. */
interface CpuBackend {
  readSync(dataId: DataId): HostArray;
}

export const cpuMoments = hostKernel((backend, { dataId }) =>
  (backend as unknown as CpuBackend).readSync(dataId),
);
