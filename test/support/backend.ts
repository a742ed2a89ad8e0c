/**
 * Starts the backend that the running test project is about, in the mode that tests need.
 *
 * One project exists per backend (see vitest.config.ts) and names it in `TENSORTALLY_TEST_BACKEND`. There is no
 * fallback: a backend that cannot start fails the file that asks for it.
 */

import * as tf from '@tensorflow/tfjs-core';

import { backendNames, initBackend, type BackendName } from '../../src/kernels/index.js';
import { tidied } from './tensors.js';

/** The backend of this project. */
export function testedBackend(): BackendName {
  const name = process.env.TENSORTALLY_TEST_BACKEND;
  const known = backendNames.find((candidate) => candidate === name);
  if (known === undefined) {
    throw new Error(
      `TENSORTALLY_TEST_BACKEND is ${name ?? 'unset'}: run this file in a project named backend:<name>`,
    );
  }
  return known;
}

/**
 * Boots the backend of this project and makes it strict: every kernel call is checked for leaked data, and small
 * tensors stay on the device instead of being computed by the CPU code path of the webgpu backend.
 *
 * @throws BackendError if it cannot run here
 */
export async function testBackend(): Promise<BackendName> {
  const name = testedBackend();
  await initBackend(name);
  if (tf.getBackend() !== name) throw new Error(`asked for ${name}, got ${tf.getBackend()}`);
  tf.env().set('IS_TEST', true);
  if (name === 'webgpu') tf.env().set('WEBGPU_CPU_FORWARD', false);
  if (process.env.TENSORTALLY_TEST_DEVICE === 'gpu') pretendGpu();
  return name;
}

/** Whether kernels run on a device here, or a pretended one, and results have to be read back from it. */
export function hasDevice(): boolean {
  const name = testedBackend();
  return name === 'webgpu' || (name === 'tensorflow' && process.env.TENSORTALLY_TEST_DEVICE === 'gpu');
}

/**
 * Lets the tensorflow backend say that it uses a GPU, so that our kernels take the path that a GPU takes: the very ops,
 * run by TensorFlow on the CPU.
 */
export function pretendGpu(): void {
  if (tf.getBackend() !== 'tensorflow')
    throw new Error('only the tensorflow backend has a path for GPUs alone');
  (tf.backend() as unknown as { isUsingGpuDevice: boolean }).isUsingGpuDevice = true;
}

/** Runs `body` in a `tf.tidy` while another backend is active. */
export async function elsewhere<T>(body: () => T): Promise<T> {
  const name = testedBackend();
  const other = name === 'cpu' ? 'wasm' : 'cpu';
  await import(`@tensorflow/tfjs-backend-${other}`);
  await tf.setBackend(other);
  try {
    return tidied(body);
  } finally {
    await tf.setBackend(name);
  }
}
