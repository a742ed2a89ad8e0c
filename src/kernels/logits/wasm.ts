/** Logits on tfjs' `wasm` backend: the SIMD module sums rows where they are, on the backend's heap. */
import { heapArray } from '../host-arrays.js';
import { heapWorkspace } from '../simd/workspace.js';
import { STATE_BYTES, hostStatistics } from './host.js';
import type { LogitsKernel } from './request.js';

export const wasmLogits: LogitsKernel = (request) => {
  const { backend } = request;
  const workspace = heapWorkspace(backend);
  const { simd } = workspace;
  const state = workspace.scratch(STATE_BYTES);
  const logits = heapArray(backend, request.logits);
  const labels = heapArray(backend, request.labels);
  const rowBytes = request.cols * logits.BYTES_PER_ELEMENT;
  return hostStatistics(request, {
    logits,
    labels,
    workspace,
    state,
    fold: (row, factor) => {
      simd.foldLogits(logits.byteOffset + row * rowBytes, request.cols, factor, state);
    },
  });
};
