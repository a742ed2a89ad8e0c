/**
 * What a device would feel of one run: launches, read-backs, temporaries. Exact counts, the same on every machine.
 *
 * Counted from outside, by wrapping what the kernels call: the GPU device, TensorFlow's binding, the heap of the wasm
 * backend. The library has no counters of its own.
 */
import * as tf from '@tensorflow/tfjs-core';
import type { BackendName } from '../../src/kernels/index.js';
import { countHost } from './host.js';
import { countTensorFlow } from './tensorflow.js';
import { countWebGpu } from './webgpu.js';

export interface Counts {
  /** GPU dispatches (webgpu) or TensorFlow ops (tensorflow); undefined where there is no device to launch on. */
  readonly launches: number | undefined;
  /** Transfers from the device to the host; undefined where memory is the host's own. */
  readonly readBacks: number | undefined;
  readonly readBackBytes: number | undefined;
  /** Most memory held at a time beyond what was held before. */
  readonly peakBytes: number;
}

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

/** Bytes held now and at the worst moment. */
export class Peak {
  #held = 0;
  #peak = 0;

  add(bytes: number): void {
    this.#held += bytes;
    this.#peak = Math.max(this.#peak, this.#held);
  }

  get bytes(): number {
    return this.#peak;
  }
}
