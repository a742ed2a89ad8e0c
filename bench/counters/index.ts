/**
 * What a device would feel of one run: launches, read-backs, temporaries. Exact counts, the same on every machine.
 *
 * Counted from outside, by wrapping what the kernels call: the GPU device, TensorFlow's binding, the heap of the wasm
 * backend. The library has no counters of its own.
 */
import * as tf from '@tensorflow/tfjs-core';
import type { BackendName } from '../../src/kernels/index.js';
import type { Counts } from './counts.js';
import { countHost } from './host.js';
import { countTensorFlow } from './tensorflow.js';
import { countWebGpu } from './webgpu.js';

export type { Counts } from './counts.js';

/** Runs `body` on the active backend and counts. The device must be idle, and `body` must end with its work done. */
export async function countDeviceWork(body: () => Promise<unknown>): Promise<Counts> {
  const backend = tf.backend();
  switch (tf.getBackend() as BackendName) {
    case 'webgpu':
      return countWebGpu(backend, body);
    case 'tensorflow':
      return countTensorFlow(backend, body);
    case 'wasm':
    case 'cpu':
      return countHost(backend, body);
  }
}
