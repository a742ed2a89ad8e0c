/**
 * TensorFlow.js' own ops on the backend that holds the inputs, whichever is active.
 *
 * Ops run on the active backend and move their inputs there, which a tensor on a GPU does not survive. Where the two
 * differ, the engine is therefore shown the other backend for as long as the ops are called: no code of anyone else
 * runs in between, and nothing is set up or told about it, as `tf.setBackend` would do.
 */
import * as tf from '@tensorflow/tfjs-core';
import { type NamedTensor, commonBackend } from './residency.js';

/** What tfjs' engine calls the active backend; present and unchanged in 4.x. */
interface ActiveBackend {
  backendName: string;
  backendInstance: tf.KernelBackend;
}

/**
 * Runs `body`, whose ops run where `tensors` are, in a `tf.tidy` of its own.
 *
 * @param body synchronous
 * @returns the tensors that `body` returns
 * @throws BackendError for tensors on two backends
 */
export function tidyWhere<T extends tf.TensorContainer>(
  where: string,
  tensors: readonly NamedTensor[],
  body: () => T,
): T {
  const { name, backend } = commonBackend(where, tensors);
  const engine = tf.engine() as unknown as ActiveBackend;
  const { backendName, backendInstance } = engine;
  if (backendInstance === backend) return tf.tidy(body);
  try {
    Object.assign(engine, { backendName: name, backendInstance: backend } satisfies ActiveBackend);
    return tf.tidy(body);
  } finally {
    Object.assign(engine, { backendName, backendInstance } satisfies ActiveBackend);
  }
}

/** What a mask selects, as bool. To be called where ops run on its backend, as in `tidyWhere`. */
export function selectionOf(mask: tf.Tensor): tf.Tensor {
  return mask.dtype === 'bool' ? mask : tf.notEqual(mask, tf.scalar(0, mask.dtype));
}
