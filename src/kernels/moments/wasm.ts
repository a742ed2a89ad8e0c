/** Masked moments on tfjs' `wasm` backend: the tensors are reduced where they are, on the heap of the backend. */
import { wasmHost } from '../hosts.js';
import { hostKernel } from './host-loop.js';

export const wasmMoments = hostKernel(wasmHost);
