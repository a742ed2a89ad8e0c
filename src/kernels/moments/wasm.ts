/** Masked moments on tfjs' `wasm` backend: the tensors are reduced where they are, on the heap of the backend. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { heapWorkspace } from '../simd/workspace.js';
import { hostKernel } from './host-loop.js';
import type { HostArray } from './host-views.js';

/** The part of the backend that this kernel uses. A view is valid until the heap grows: until the next allocation. */
interface WasmBackend {
  typedArrayFromHeap(info: TensorInfo): HostArray;
}

export const wasmMoments = hostKernel({
  workspace: heapWorkspace,
  holdsTensors: true,
  array: (backend, info) => (backend as unknown as WasmBackend).typedArrayFromHeap(info),
});
