/** Tensors that are in the memory of the host, as arrays: how each backend that keeps them there shows them. */
import type { DataId, KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';

/** What tensors of the supported dtypes are made of on the host. */
export type HostArray = Float32Array | Int32Array | Uint8Array;

/** On tfjs' `cpu` backend: the array that holds the tensor, which after a cast may not be of its dtype. */
export function cpuArray(backend: KernelBackend, { dataId, dtype }: TensorInfo): HostArray {
  // `readSync` hands out the array itself too, but not of a bool tensor: that one it copies, element by element.
  const { values } = (backend as unknown as CpuBackend).data.get(dataId);
  return dtype === 'bool' && values instanceof Uint8Array ? values : readArray(backend, { dataId });
}

/** On tfjs' `wasm` backend: a view of its heap, valid until the heap grows, which is until the next allocation. */
export function heapArray(backend: KernelBackend, info: TensorInfo): HostArray {
  return (backend as unknown as WasmBackend).typedArrayFromHeap(info);
}

/** On the `tensorflow` backend without a GPU: a copy, or what the tensor was made of as long as no op has used it. */
export function readArray(backend: KernelBackend, { dataId }: Pick<TensorInfo, 'dataId'>): HostArray {
  return backend.readSync(dataId) as HostArray;
}

/** The parts of the backends that are used here. */
interface CpuBackend {
  readonly data: { get(dataId: DataId): { readonly values: unknown } };
}
interface WasmBackend {
  typedArrayFromHeap(info: TensorInfo): HostArray;
}
