/** Masked moments on tfjs' `wasm` backend: the tensors are reduced where they are, on the heap of the backend. */
import { heapArray } from '../host-arrays.js';
import { heapWorkspace } from '../simd/workspace.js';
import { hostKernel } from './host-loop.js';

export const wasmMoments = hostKernel({ workspace: heapWorkspace, holdsTensors: true, array: heapArray });
