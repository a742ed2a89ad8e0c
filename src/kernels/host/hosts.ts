/**
 * The backends whose tensors the host can read without a round trip: how each shows them, and the memory in which the
 * SIMD module works on them.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { type Workspace, heapWorkspace, ownWorkspace } from '../simd/workspace.js';
import { type HostArray, cpuArray, heapArray, readArray } from './arrays.js';

/** How elements are stored, in the words of the functions of the module. */
export type Storage = 'Float32' | 'Int32' | 'Bool';

/** Such a backend. */
export interface Host {
  /** The memory that the module works in. */
  workspace(backend: KernelBackend): Workspace;
  /** Whether that memory is where the tensors are; if not, what the module is to read is copied there. */
  readonly holdsTensors: boolean;
  /** Whether a tensor is stored as float32, where its dtype does not tell. */
  storesFloat32?(backend: KernelBackend, info: TensorInfo): boolean;
  /** The elements of a tensor, valid until something is allocated. */
  array(backend: KernelBackend, info: TensorInfo): HostArray;
}

/** tfjs' `cpu` backend: arrays of JavaScript. */
export const cpuHost: Host = {
  workspace: ownWorkspace,
  holdsTensors: false,
  // A cast from int32 or bool to float32 only renames the dtype: the elements stay what they were.
  storesFloat32: (backend, info) => cpuArray(backend, info) instanceof Float32Array,
  array: cpuArray,
};

/** tfjs' `wasm` backend: tensors are on the heap of the backend, where the module reads them. */
export const wasmHost: Host = { workspace: heapWorkspace, holdsTensors: true, array: heapArray };

/** The `tensorflow` backend without a GPU. */
export const tensorflowHost: Host = { workspace: ownWorkspace, holdsTensors: false, array: readArray };

/** How the elements of an array are stored, whatever the dtype of its tensor. */
export function storageOf(array: HostArray): Storage {
  return array instanceof Float32Array ? 'Float32' : array instanceof Int32Array ? 'Int32' : 'Bool';
}

/** So many elements at an address of a memory. */
export function viewOf(storage: Storage, buffer: ArrayBuffer, address: number, elements: number): HostArray {
  switch (storage) {
    case 'Float32':
      return new Float32Array(buffer, address, elements);
    case 'Int32':
      return new Int32Array(buffer, address, elements);
    case 'Bool':
      return new Uint8Array(buffer, address, elements);
  }
}
