/** What a running backend is: its device, how each operation runs on it, what it lacks, and which versions are at work. */
import * as tf from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';
import { ownPackage } from '../../own-package.js';
import { processWide } from '../../process-wide.js';
import type { ModuleObstacle } from '../simd/instance.js';
import { heapWorkspace, ownWorkspace } from '../simd/workspace.js';
import { inspectTensorFlowBinding } from '../tensorflow/binding.js';
import { describeWebGpu, webGpuPackageVersion } from '../webgpu/boot.js';
import { type BackendName, backendNames } from './names.js';
import { activeBackend, activeBackendName } from './registry.js';
import { missingTrainingKernels } from './training-kernels.js';

/** Why a backend was or was not chosen. */
export interface BackendChoice {
  readonly backend: BackendName;
  readonly available: boolean;
  /** Whether it would run on a hardware GPU. */
  readonly isGpu: boolean;
  /** A sentence: what it would run on, or why it cannot run. */
  readonly reason: string;
  /** What makes it available; only where it is not. */
  readonly remedy?: string;
}

/**
 * How an operation runs: `native` by a kernel made for the backend, `plain` by loops of float64 in JavaScript, as right
 * and several times as slow, where WebAssembly lacks memory or SIMD.
 */
export type KernelKind = 'native' | 'plain' | 'none';

/** What is running, and on what. */
export interface BackendReport {
  readonly backend: BackendName;
  /** The processor, for people. */
  readonly device: string;
  readonly driver?: string;
  /** Whether tensors live on a hardware GPU. */
  readonly isGpu: boolean;
  /** Whether the GPU is a software adapter, which runs on the CPU: right, but slow. */
  readonly isSoftware: boolean;
  readonly kernels: Readonly<Record<'moments' | 'logits' | 'histograms', KernelKind>>;
  /** Why kernels are `plain`, and what makes them native; absent where none is. */
  readonly plain?: { readonly reason: string; readonly remedy: string };
  /**
   * Kernels of tfjs that gradients need and this backend lacks, sorted: a model whose layers need one of them cannot be
   * trained on it (`UnsortedSegmentSum` is the gradient of an embedding). Statistics need none of them.
   */
  readonly missingTrainingKernels: readonly string[];
  readonly versions: Readonly<Record<string, string>>;
  /** What `initBackend('auto')` saw, best first; empty when a backend was named. */
  readonly considered: readonly BackendChoice[];
}

/** What the last `auto` saw. */
export const lastChoice = processWide('backend-choice', 1, () => ({
  considered: [] as readonly BackendChoice[],
}));

/**
 * Describes the active backend, whoever made it active.
 *
 * @throws BackendError if none is active, or one that has no kernels here
 */
export function backendReport(): BackendReport {
  const active = activeBackend();
  if (active === undefined) {
    const other = activeBackendName();
    throw new BackendError({
      where: 'backendReport',
      expected: `an active backend, one of ${backendNames.join(', ')}`,
      received: other === undefined ? 'none' : `"${other}"`,
      remedy: 'call await initBackend() first',
    });
  }
  const { name, backend } = active;
  const device = describeDevice(name, backend);
  const obstacle = device.isGpu ? undefined : obstacleOf(name, backend);
  return {
    backend: name,
    ...device,
    kernels: kernelsOf(name, obstacle !== undefined),
    ...(obstacle === undefined ? {} : { plain: plainBecause(obstacle) }),
    missingTrainingKernels: missingTrainingKernels(name),
    versions: versionsOf(name, backend),
    considered: lastChoice.considered,
  };
}

/** Why the kernels of a backend in host memory are plain loops; undefined where they are not, and on other backends. */
function obstacleOf(name: BackendName, backend: tf.KernelBackend): ModuleObstacle | undefined {
  switch (name) {
    case 'webgpu':
      return undefined;
    case 'wasm':
      return heapWorkspace(backend).obstacle;
    case 'tensorflow':
    case 'cpu':
      return ownWorkspace().obstacle;
  }
}

function plainBecause({ expected, received, remedy }: ModuleObstacle): { reason: string; remedy: string } {
  return { reason: `expected ${expected}, got ${received}`, remedy };
}

/** Every operation has a kernel on every backend, see `Backend`. */
function kernelsOf(name: BackendName, isPlain: boolean): BackendReport['kernels'] {
  const module: KernelKind = isPlain ? 'plain' : 'native';
  // TensorFlow has ops for logits; histograms are counted without the SIMD module everywhere.
  return { moments: module, logits: name === 'tensorflow' ? 'native' : module, histograms: 'native' };
}

/** The processor behind a running backend. */
export function describeDevice(
  name: BackendName,
  backend: tf.KernelBackend,
): Pick<BackendReport, 'device' | 'driver' | 'isGpu' | 'isSoftware'> {
  switch (name) {
    case 'tensorflow': {
      const { isUsingGpuDevice } = backend as unknown as { isUsingGpuDevice: boolean };
      return {
        device: isUsingGpuDevice
          ? 'CUDA GPU (the last one that CUDA_VISIBLE_DEVICES allows)'
          : 'CPU, TensorFlow kernels',
        isGpu: isUsingGpuDevice,
        isSoftware: false,
      };
    }
    case 'webgpu': {
      const { device, driver, isSoftware } = describeWebGpu(backend);
      return { device, ...(driver === undefined ? {} : { driver }), isGpu: !isSoftware, isSoftware };
    }
    case 'wasm':
      return { device: 'CPU, WebAssembly', isGpu: false, isSoftware: false };
    case 'cpu':
      return { device: 'CPU, JavaScript', isGpu: false, isSoftware: false };
  }
}

function versionsOf(name: BackendName, backend: tf.KernelBackend): Record<string, string> {
  const versions: Record<string, string> = {
    node: process.versions.node,
    tfjs: tf.version_core,
    tensortally: ownPackage().version,
  };
  if (name === 'webgpu') versions.webgpu = webGpuPackageVersion() ?? 'unknown';
  if (name === 'tensorflow') {
    versions.tensorflow = (backend as unknown as { binding: { TF_Version: string } }).binding.TF_Version;
    const { package: node } = inspectTensorFlowBinding();
    if (node !== undefined) versions.binding = node;
  }
  return versions;
}
