/** Masked moments on tfjs' `cpu` backend: float64 loops over the arrays that hold the tensors. */
import type { DataId } from '@tensorflow/tfjs-core';
import { Pending } from '../collect.js';
import { type HostArray, hostMoments } from './host-loop.js';
import type { MomentsKernel } from './request.js';

/** The part of the backend that this kernel uses: values of a tensor without a copy. */
interface CpuBackend {
  readSync(dataId: DataId): HostArray;
}

export const cpuMoments: MomentsKernel = (request) => {
  const backend = request.backend as unknown as CpuBackend;
  const { rows, cols, channels, mask } = request;
  const inputs = new Map(
    [...request.inputs].map(([name, info]) => [name, backend.readSync(info.dataId)] as const),
  );
  return Pending.of(
    hostMoments({
      rows,
      cols,
      channels,
      inputs,
      mask: mask && {
        values: backend.readSync(mask.tensor.dataId),
        stride: mask.stride,
        offset: mask.offset,
      },
    }),
  );
};
