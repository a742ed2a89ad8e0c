/** The backends by name, and which of them is meant by tensors. */
import type * as tf from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';
import { cpuBackend } from '../host/cpu.js';
import { wasmBackend } from '../host/wasm.js';
import { type NamedTensor, commonBackend } from '../residency.js';
import { tensorflowBackend } from '../tensorflow/backend.js';
import { webgpuBackend } from '../webgpu/backend.js';
import type { Backend } from './backend.js';
import { type BackendName, backendNames } from './names.js';

const backends: Readonly<Record<BackendName, Backend>> = {
  cpu: cpuBackend,
  wasm: wasmBackend,
  webgpu: webgpuBackend,
  tensorflow: tensorflowBackend,
};

/**
 * The backend that all of `tensors` live on, and its kernels.
 *
 * @throws BackendError for tensors on two backends, or on one without kernels
 */
export function residentBackend(
  where: string,
  tensors: readonly NamedTensor[],
): { readonly kernels: Backend; readonly backend: tf.KernelBackend } {
  const { name, backend } = commonBackend(where, tensors);
  if (Object.hasOwn(backends, name)) return { kernels: backends[name as BackendName], backend };
  throw new BackendError({
    where,
    input: tensors[0]!.name,
    expected: `a tensor on one of the backends ${backendNames.toReversed().join(', ')}`,
    received: `one on "${name}"`,
    remedy: 'choose a supported backend with initBackend() before the tensors are made',
  });
}
