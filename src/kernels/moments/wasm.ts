/** Masked moments on tfjs' `wasm` backend: float64 loops over views of the backend's heap, without a copy. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { Pending } from '../collect.js';
import { type HostArray, hostMoments } from './host-loop.js';
import type { MomentsKernel } from './request.js';

/** The part of the backend that this kernel uses. A view is valid until the heap grows: until the next allocation. */
interface WasmBackend {
  typedArrayFromHeap(info: TensorInfo): HostArray;
}

export const wasmMoments: MomentsKernel = (request) => {
  const backend = request.backend as unknown as WasmBackend;
  const { rows, cols, channels, mask } = request;
  const inputs = new Map(
    [...request.inputs].map(([name, info]) => [name, backend.typedArrayFromHeap(info)] as const),
  );
  return Pending.of(
    hostMoments({
      rows,
      cols,
      channels,
      inputs,
      mask: mask && {
        values: backend.typedArrayFromHeap(mask.tensor),
        stride: mask.stride,
        offset: mask.offset,
      },
    }),
  );
};
