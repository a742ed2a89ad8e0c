/** Masked moments on tfjs' `wasm` backend: float64 loops over views of the backend's heap, without a copy. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { type HostArray, hostKernel } from './host-loop.js';

/** The part of the backend that this kernel uses. A view is valid until the heap grows: until the next allocation. */
interface WasmBackend {
  typedArrayFromHeap(info: TensorInfo): HostArray;
}

export const wasmMoments = hostKernel((backend, info) =>
  (backend as unknown as WasmBackend).typedArrayFromHeap(info),
);
