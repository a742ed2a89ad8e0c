/** Reproducible input data: the same seed gives the same numbers on every backend and for every peer. */
import * as tf from '@tensorflow/tfjs-core';

/** Uniform numbers in [0, 1). */
export type Random = () => number;

/** @source Tommy Ettinger's Mulberry32 (public domain). */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** `size` float32 of a bell-shaped distribution with this mean and standard deviation, within ±3.5 of them. */
export function bell(random: Random, size: number, mean = 0, std = 1): Float32Array {
  // Four uniforms have variance 1/3; a logarithm and a cosine per element would take longer than the measurement.
  const scale = std * Math.sqrt(3);
  const values = new Float32Array(size);
  for (let i = 0; i < size; i++) values[i] = mean + scale * (random() + random() + random() + random() - 2);
  return values;
}

/** What backends do with the values of a tensor only when it is first used. */
interface LazyBackend {
  /** webgpu */
  uploadToGPU?(dataId: object): void;
  /** tensorflow */
  getInputTensorIds?(tensors: readonly tf.Tensor[]): number[];
}

/** A tensor on the active backend, in the memory of its device, as the tensors of a trainer are. */
export function onDevice(
  values: Float32Array | Int32Array | Uint8Array,
  shape: readonly number[],
): tf.Tensor {
  const dtype = values instanceof Uint8Array ? 'bool' : values instanceof Int32Array ? 'int32' : 'float32';
  const tensor = tf.tensor(values, [...shape], dtype);
  const backend = tf.backend() as LazyBackend;
  backend.uploadToGPU?.(tensor.dataId);
  backend.getInputTensorIds?.([tensor]);
  return tensor;
}

/** Bytes that a tensor takes in the memory of the active backend: webgpu holds a bool in four. */
export function deviceBytes(tensors: Iterable<tf.Tensor>): number {
  const boolBytes = tf.getBackend() === 'webgpu' ? 4 : 1;
  let bytes = 0;
  for (const { size, dtype } of tensors) bytes += size * (dtype === 'bool' ? boolBytes : 4);
  return bytes;
}
