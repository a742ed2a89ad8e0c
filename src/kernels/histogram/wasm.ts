/** Histograms on tfjs' `wasm` backend: the tensors are counted where they are, on the heap of the backend. */
import { heapArray } from '../host-arrays.js';
import { hostKernel } from './host-loop.js';

export const wasmHistograms = hostKernel(heapArray);
