/** Compact masks in the memory of the host: one byte per element, the bytes of the tensor itself where it has them. */
import { type KernelBackend, type Tensor, type TensorInfo, engine } from '@tensorflow/tfjs-core';
import { type HostArray, cpuArray, heapArray, readArray } from '../host-arrays.js';
import { type RetainedTensor, holdTensor, retainTensor } from '../residency.js';
import type { MaskKernel } from './request.js';

type ReadArray = (backend: KernelBackend, info: TensorInfo) => HostArray;

/** On tfjs' `cpu` backend. */
export const cpuMask: MaskKernel = (backend, mask) =>
  stored(isBytes(mask, cpuArray(backend, mask)) ? retainTensor(mask) : copied(backend, mask, cpuArray));

/** On tfjs' `wasm` backend. */
export const wasmMask: MaskKernel = (backend, mask) =>
  stored(mask.dtype === 'bool' ? retainTensor(mask) : copied(backend, mask, heapArray));

/**
 * On the `tensorflow` backend without a GPU. Every look at what an op has made or used is a copy: here it is taken once
 * and kept where the host can see it.
 */
export const tensorflowHostMask: MaskKernel = (backend, mask) => stored(copied(backend, mask, readArray));

function isBytes({ dtype }: Tensor, array: HostArray): array is Uint8Array {
  return dtype === 'bool' && array instanceof Uint8Array;
}

/** A bool tensor of what the mask selects. Bytes that the host was given to keep are taken as they are. */
function copied(backend: KernelBackend, mask: Tensor, read: ReadArray): RetainedTensor {
  const array = read(backend, mask);
  const bytes = isBytes(mask, array) ? array : selections(array);
  return holdTensor(engine().makeTensor(bytes, mask.shape, 'bool', backend));
}

function selections(array: HostArray): Uint8Array {
  const bytes = new Uint8Array(array.length);
  // NaN selects, as in a pass: it is not zero.
  for (let i = 0; i < bytes.length; i++) bytes[i] = array[i] === 0 ? 0 : 1;
  return bytes;
}

function stored(held: RetainedTensor): ReturnType<MaskKernel> {
  return { held, isPacked: false, bytes: held.tensor.size };
}
