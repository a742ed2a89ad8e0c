/** tfjs' `wasm` backend: the SIMD module reads the tensors where they are, on the heap of the backend. */
import type { Backend } from '../backends/backend.js';
import { heapArray } from './arrays.js';
import { hostHistograms } from './histogram.js';
import { wasmHost } from './hosts.js';
import { wasmLogits } from './logits.js';
import { hostMask } from './masks.js';
import { hostMoments } from './moments/loop.js';

export const wasmBackend: Backend = {
  moments: hostMoments(wasmHost),
  logits: wasmLogits,
  histograms: hostHistograms(heapArray),
  masks: hostMask(wasmHost),
};
