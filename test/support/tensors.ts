/**
 * Builds the tensors of test cases and puts them where the device has to work on them.
 *
 * TensorFlow.js leaves new tensors in host memory until an op wants them, so without `onDevice` a test of small
 * tensors may never exercise the path that a trainer's tensors take.
 */

import * as tf from '@tensorflow/tfjs-core';

import type { GoldenTensor } from './golden.js';

/** What backends offer, under names that differ, for moving a tensor's data to the device. */
interface Uploading {
  /** webgpu */
  readonly uploadToGPU?: (dataId: object) => void;
  /** tensorflow */
  readonly getInputTensorIds?: (tensors: tf.TensorInfo[]) => number[];
}

/** Makes the active backend hold the data of `tensor` on its device, if it has one. Returns the tensor. */
export function onDevice<T extends tf.Tensor>(tensor: T): T {
  if (tensor.size === 0) return tensor;
  const backend = tf.backend() as unknown as Uploading;
  if (backend.uploadToGPU !== undefined) backend.uploadToGPU(tensor.dataId);
  else if (backend.getInputTensorIds !== undefined) backend.getInputTensorIds([tensor]);
  return tensor;
}

export type TensorDtype = 'float32' | 'int32' | 'bool';

/** Values and shape of a tensor that a case wants; float32 unless it says otherwise. */
export interface TensorLike {
  readonly shape: readonly number[];
  readonly dtype?: TensorDtype;
  readonly values: ArrayLike<number>;
}

/** What a tensor's numbers are kept in, by dtype. */
export const STORAGE = { float32: Float32Array, int32: Int32Array, bool: Uint8Array } as const;

/** A tensor in host memory, with a copy of the values: the backend may alias what it is given. */
export function hostTensor({ shape, dtype = 'float32', values }: TensorLike): tf.Tensor {
  return tf.tensor(STORAGE[dtype].from(values), [...shape], dtype);
}

/** A tensor on the device. */
export function deviceTensor(like: TensorLike): tf.Tensor {
  return onDevice(hostTensor(like));
}

/** `tf.tidy` around a body that returns something other than tensors. */
export function tidied<T>(body: () => T): T {
  const held: { result?: T } = {};
  tf.tidy(() => {
    held.result = body();
  });
  return held.result as T;
}

/** All tensors of a golden case, on the device. */
export function goldenTensors(tensors: Readonly<Record<string, GoldenTensor>>): Record<string, tf.Tensor> {
  return Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, deviceTensor(tensor)]));
}
