/**
 * Where a tensor lives, and how to keep it alive.
 *
 * TensorFlow.js has one *active* backend per process, but every tensor stays on the backend that made it. Kernels run
 * where their inputs are and never switch the active backend, so this file asks the engine about each tensor instead.
 */
import * as tf from '@tensorflow/tfjs-core';
import { kindOf } from '../arguments.js';
import { BackendError, DisposedTensorError, DtypeError, MissingInputError } from '../errors.js';
import { assertSound } from './webgpu/faults.js';

/** A named input of a public function: the name is what error messages call it. */
export interface NamedTensor {
  readonly name: string;
  readonly tensor: tf.Tensor;
}

/** A backend that holds tensors, under the name it was registered with. */
export interface ResidentBackend {
  readonly name: string;
  readonly backend: tf.KernelBackend;
}

/** The parts of tfjs' engine that say where data is; present and unchanged in 4.x, asserted by a test. */
interface EngineInternals {
  readonly registry: Record<string, tf.KernelBackend>;
  readonly state: { readonly tensorInfo: WeakMap<object, { backend: tf.KernelBackend }> };
}

function engineInternals(): EngineInternals {
  return tf.engine();
}

/** The backend that runs under `name`; asking starts none. */
export function runningBackend(name: string): tf.KernelBackend | undefined {
  return engineInternals().registry[name];
}

/** The name under which the engine knows `backend`. */
function registeredName(backend: tf.KernelBackend): string {
  const { registry } = engineInternals();
  return Object.keys(registry).find((name) => registry[name] === backend) ?? 'unregistered';
}

/**
 * Refuses everything that is not a live numeric tensor.
 *
 * @param where the public function, for the message
 * @throws MissingInputError for null and undefined, DtypeError for anything else that is no tensor and for string and
 *   complex64 tensors, DisposedTensorError for a tensor whose data is gone
 */
export function assertNumericTensor(where: string, name: string, value: unknown): asserts value is tf.Tensor {
  if (value === undefined || value === null) {
    throw new MissingInputError({
      where,
      input: name,
      expected: 'a tensor',
      received: String(value),
      remedy: `pass ${name} as a tf.Tensor`,
    });
  }
  if (!(value instanceof tf.Tensor)) {
    throw new DtypeError({
      where,
      input: name,
      expected: 'a tf.Tensor',
      received: kindOf(value),
      remedy: 'wrap the numbers with tf.tensor(...)',
    });
  }
  if (value.dtype === 'string' || value.dtype === 'complex64') {
    throw new DtypeError({
      where,
      input: name,
      expected: 'a float32, int32 or bool tensor',
      received: `dtype ${value.dtype}`,
      remedy: value.dtype === 'string' ? 'encode the text as numbers first' : 'pass tf.real(x) or tf.imag(x)',
    });
  }
  if (value.isDisposed || !engineInternals().state.tensorInfo.has(value.dataId)) {
    throw new DisposedTensorError({
      where,
      input: name,
      expected: 'a live tensor',
      received: 'a disposed one',
      remedy: `call ${where} before the tensor is disposed (tf.tidy disposes what it does not return)`,
    });
  }
}

/**
 * The one backend that holds all of `tensors`.
 *
 * @throws BackendError naming two inputs and their backends if they live apart, or the input that a fault of a GPU spoilt
 */
export function commonBackend(where: string, tensors: readonly NamedTensor[]): ResidentBackend {
  const { tensorInfo } = engineInternals().state;
  const first = tensors[0]!;
  const { backend } = tensorInfo.get(first.tensor.dataId)!;
  const stranger = tensors.find(({ tensor }) => tensorInfo.get(tensor.dataId)!.backend !== backend);
  if (stranger !== undefined) {
    const home = registeredName(backend);
    throw new BackendError({
      where,
      input: stranger.name,
      expected: `a tensor on the backend that holds ${first.name} ("${home}")`,
      received: `one on "${registeredName(tensorInfo.get(stranger.tensor.dataId)!.backend)}"`,
      remedy: `create both on one backend, or copy one: tf.tensor(await ${stranger.name}.data(), ${stranger.name}.shape, ${stranger.name}.dtype) while "${home}" is active`,
    });
  }
  for (const { name, tensor } of tensors) assertSound(where, name, tensor.dataId);
  return { name: registeredName(backend), backend };
}

/** A second handle on a tensor's data: no copy, independent of the caller's `dispose()` and of `tf.tidy`. */
export interface RetainedTensor {
  readonly tensor: tf.Tensor;
  /** Lets the data go. Idempotent. */
  release(): void;
}

/**
 * Keeps the data of `tensor` alive until `release()`, whatever the caller does with its own handle.
 *
 * @throws MissingInputError, DtypeError or DisposedTensorError for what is no live numeric tensor
 */
export function retainTensor(tensor: tf.Tensor): RetainedTensor {
  assertNumericTensor('retainTensor', 'tensor', tensor);
  const engine = tf.engine();
  const { backend } = engineInternals().state.tensorInfo.get(tensor.dataId)!;
  backend.incRef(tensor.dataId);
  const { dataId, shape, dtype } = tensor;
  return holdTensor(engine.makeTensorFromTensorInfo({ dataId, shape, dtype }, backend));
}

/** Keeps a tensor of our own until `release()`, whatever `tf.tidy` it was made in. */
export function holdTensor(tensor: tf.Tensor): RetainedTensor {
  tf.keep(tensor);
  return {
    tensor,
    release: () => {
      try {
        tensor.dispose();
      } catch (error) {
        // The memory of a backend that was removed went with it, and some then fail to free a part of it.
        if (hasBackend(tensor)) throw error;
      }
    },
  };
}

/** Whether the backend that holds a tensor is still there: one that was removed holds nothing. */
export function hasBackend(tensor: tf.Tensor): boolean {
  const { registry, state } = engineInternals();
  const backend = state.tensorInfo.get(tensor.dataId)?.backend;
  return backend !== undefined && Object.values(registry).includes(backend);
}
