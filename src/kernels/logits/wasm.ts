/** Logits on tfjs' `wasm` backend: the SIMD module sums rows where they are, on the backend's heap. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { heapWorkspace } from '../simd/workspace.js';
import { type HostArray, STATE_BYTES, hostStatistics } from './host.js';
import type { LogitsKernel } from './request.js';

/** The part of the backend that this kernel uses. A view is valid until the heap grows: until the next allocation. */
interface WasmBackend {
  typedArrayFromHeap(info: TensorInfo): HostArray;
}

export const wasmLogits: LogitsKernel = (request) => {
  const backend = request.backend as unknown as WasmBackend;
  const workspace = heapWorkspace(request.backend);
  const { simd } = workspace;
  const state = workspace.scratch(STATE_BYTES);
  const logits = backend.typedArrayFromHeap(request.logits);
  const labels = backend.typedArrayFromHeap(request.labels);
  const rowBytes = request.cols * logits.BYTES_PER_ELEMENT;
  return hostStatistics(request, {
    logits,
    labels,
    workspace,
    state,
    fold: (row, inverseTemperature) => {
      simd.foldLogits(logits.byteOffset + row * rowBytes, request.cols, inverseTemperature, state);
    },
  });
};
