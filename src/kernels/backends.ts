/**
 * The four backends: which can run here, which one to choose, what is running.
 *
 * The only file that knows what a backend's name means. Kernels are looked up by the backend that holds their inputs
 * and never switch the active one; `initBackend` does, because choosing is what it is for.
 */
import { createRequire } from 'node:module';
import * as tf from '@tensorflow/tfjs-core';
import { BackendError } from '../errors.js';
import { kindOf, messageOf } from './arguments.js';
import { type BackendName, backendNames } from './backend-names.js';
import { histogramKernels } from './histogram/index.js';
import { logitsKernels } from './logits/index.js';
import { momentsKernels } from './moments/pass.js';
import { runningBackend } from './residency.js';
import { mayHaveGpuDriver } from './vulkan-drivers.js';
import { inspectTensorFlowBinding, loadTensorFlowBackend } from './tensorflow-binding.js';
import {
  assertWebGpuPackages,
  describeWebGpu,
  findAdapter,
  importPackage,
  noAdapter,
  registerWebGpu,
  webGpuPackageVersion,
} from './webgpu-boot.js';
import { webGpuDevice } from './webgpu-device.js';

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

/** What is running, and on what. */
export interface BackendReport {
  readonly backend: BackendName;
  /** The processor, for people. */
  readonly device: string;
  readonly driver?: string;
  /** Whether tensors live on a hardware GPU. */
  readonly isGpu: boolean;
  /** Whether a GPU is played by the CPU: right, but slow. */
  readonly isSoftware: boolean;
  /** How each operation runs here; `native` is a kernel made for this backend. */
  readonly kernels: Readonly<Record<'moments' | 'logits' | 'histograms', 'native' | 'none'>>;
  readonly versions: Readonly<Record<string, string>>;
  /** What `initBackend('auto')` saw, best first; empty when a backend was named. */
  readonly considered: readonly BackendChoice[];
}

const WHERE = 'initBackend';

/** What the last `auto` saw, for `backendReport`. */
let considered: readonly BackendChoice[] = [];

/**
 * Makes a backend active and says what it runs on.
 *
 * `'auto'` keeps a backend that the caller already made active. Otherwise it takes, in this order, tensorflow with a
 * CUDA GPU, webgpu on a hardware GPU, tensorflow on the CPU, wasm, cpu. A software GPU is never chosen unasked.
 * Tensors that exist stay where they are.
 *
 * @param name a backend, or `'auto'` (default)
 * @throws BackendError with the remedy if the named backend cannot run here
 * @example  const { backend, device } = await initBackend();
 */
export function initBackend(name: 'auto' | BackendName = 'auto'): Promise<BackendReport> {
  // One after the other: tfjs starts one backend at a time, and two that start together refuse each other or crash.
  const started = starting.then(() => startBackend(name));
  starting = started.catch(() => undefined);
  return started;
}

/** The last call of `initBackend`, done or not. */
let starting: Promise<unknown> = Promise.resolve();

async function startBackend(name: 'auto' | BackendName): Promise<BackendReport> {
  if (name !== 'auto' && !backendNames.includes(name)) {
    throw new BackendError({
      where: WHERE,
      input: 'name',
      expected: `one of auto, ${backendNames.join(', ')}`,
      received: kindOf(name),
      remedy: "leave it out for 'auto'",
    });
  }
  if (name === 'auto') {
    const choice = await chooseBackend();
    considered = choice.considered;
    await activate(choice.backend);
  } else {
    considered = [];
    await activate(name);
  }
  return backendReport();
}

/**
 * Describes the active backend, whoever made it active.
 *
 * @throws BackendError if none is active, or one that has no kernels here
 */
export function backendReport(): BackendReport {
  const active = activeBackend();
  if (active === undefined) {
    throw new BackendError({
      where: 'backendReport',
      expected: `an active backend, one of ${backendNames.join(', ')}`,
      received: activeName() === undefined ? 'none' : `"${activeName()!}"`,
      remedy: 'call await initBackend() first',
    });
  }
  const { name, backend } = active;
  return {
    backend: name,
    ...describeDevice(name, backend),
    kernels: kernelsOf(name),
    versions: versionsOf(name, backend),
    considered,
  };
}

/**
 * Tells for every backend whether it can run here.
 *
 * Loads what it has to load for that. Where no backend was active, TensorFlow's package makes itself active.
 */
export async function probeBackends(): Promise<BackendChoice[]> {
  return Promise.all(backendNames.map(probe));
}

async function chooseBackend(): Promise<{ backend: BackendName; considered: BackendChoice[] }> {
  const active = activeBackend();
  if (active !== undefined) {
    return {
      backend: active.name,
      considered: [
        {
          backend: active.name,
          available: true,
          isGpu: describeDevice(active.name, active.backend).isGpu,
          reason: 'already active; kept',
        },
      ],
    };
  }
  const seen: BackendChoice[] = [];
  const best = await bestBackend(async (name) => {
    const choice = await probe(name);
    seen.push(choice);
    return choice;
  });
  return { backend: best.backend, considered: seen };
}

/**
 * The order of `'auto'`: a hardware GPU first, TensorFlow before webgpu; then TensorFlow on the CPU, wasm, cpu.
 *
 * @param look probes one backend; asked one after the other, since what comes first may make the rest unnecessary
 */
export async function bestBackend(
  look: (name: BackendName) => Promise<BackendChoice>,
): Promise<BackendChoice> {
  const tensorflow = await look('tensorflow');
  if (tensorflow.isGpu) return tensorflow;
  const webgpu = await look('webgpu');
  if (webgpu.isGpu) return webgpu;
  if (tensorflow.available) return tensorflow;
  const wasm = await look('wasm');
  return wasm.available ? wasm : look('cpu');
}

/** Whether a backend can run here. Loads what it has to load, but activates nothing. */
async function probe(name: BackendName): Promise<BackendChoice> {
  try {
    return { backend: name, available: true, ...(await probes[name]()) };
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    return {
      backend: name,
      available: false,
      isGpu: false,
      reason: `expected ${error.expected}, got ${error.received}`,
      remedy: error.remedy,
    };
  }
}

const probes: Readonly<Record<BackendName, () => Promise<{ reason: string; isGpu: boolean }>>> = {
  tensorflow: async () => {
    const { tensorflowVersion, usesGpu } = await loadTensorFlowBackend();
    const where = usesGpu ? 'with a CUDA GPU' : 'on the CPU: it found no CUDA GPU';
    return { isGpu: usesGpu, reason: `TensorFlow ${tensorflowVersion} ${where}` };
  },
  webgpu: async () => {
    assertWebGpuPackages();
    if (!mayHaveGpuDriver()) throw noAdapter('none: no Vulkan driver is installed');
    const { description } = await findAdapter();
    const kind = description.isSoftware ? 'software adapter, chosen only by name' : 'hardware adapter';
    return { isGpu: !description.isSoftware, reason: `${kind}: ${description.device}` };
  },
  wasm: async () => {
    await importPackage(
      () => import('@tensorflow/tfjs-backend-wasm'),
      '@tensorflow/tfjs-backend-wasm@4.22.0',
    );
    return { isGpu: false, reason: 'WebAssembly on one CPU core' };
  },
  cpu: async () => {
    await import('@tensorflow/tfjs-backend-cpu');
    return { isGpu: false, reason: 'JavaScript on one CPU core' };
  },
};

async function activate(name: BackendName): Promise<void> {
  if (name === 'tensorflow') await loadTensorFlowBackend();
  else if (name === 'webgpu') await registerWebGpu();
  else await probes[name]();
  let cause: Error | undefined;
  const activated = await tf.setBackend(name).catch((error: unknown) => {
    cause = error instanceof Error ? error : new Error(messageOf(error), { cause: error });
    return false;
  });
  if (activated && activeName() === name) {
    // On first use tfjs' cpu backend prints an advertisement for its node package; the report says it better.
    if (name === 'cpu') (tf.backend() as unknown as { firstUse: boolean }).firstUse = false;
    // Listens for faults from here on, also for those that come before the first kernel of ours.
    if (name === 'webgpu') webGpuDevice(tf.backend());
    return;
  }
  throw new BackendError(
    {
      where: WHERE,
      input: 'name',
      expected: `tfjs to start its backend "${name}"`,
      received: cause === undefined ? 'a refusal (tfjs has printed why)' : cause.message,
      remedy: '`tensortally doctor` shows which backends run here and why the others do not',
    },
    { cause },
  );
}

/** Every operation has a kernel of its own on every backend; the tables of the operations are complete by type. */
function kernelsOf(name: BackendName): BackendReport['kernels'] {
  const kindIn = (kernels: object): 'native' | 'none' => (name in kernels ? 'native' : 'none');
  return {
    moments: kindIn(momentsKernels),
    logits: kindIn(logitsKernels),
    histograms: kindIn(histogramKernels),
  };
}

function describeDevice(
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
  const own = createRequire(import.meta.url);
  const versions: Record<string, string> = {
    node: process.versions.node,
    tfjs: tf.version_core,
    tensortally: (own(packageJson(own)) as { version: string }).version,
  };
  if (name === 'webgpu') versions.webgpu = webGpuPackageVersion() ?? 'unknown';
  if (name === 'tensorflow') {
    versions.tensorflow = (backend as unknown as { binding: { TF_Version: string } }).binding.TF_Version;
    const { package: node } = inspectTensorFlowBinding();
    if (node !== undefined) versions.binding = node;
  }
  return versions;
}

/** This package's manifest, from the sources as well as from the build. */
function packageJson(own: NodeJS.Require): string {
  try {
    return own.resolve('../../package.json');
  } catch {
    return own.resolve('../../../package.json');
  }
}

function activeName(): string | undefined {
  return (tf.engine() as unknown as { backendName?: string }).backendName;
}

/** The active backend if it is one of ours and running; asking never starts one. */
function activeBackend(): { name: BackendName; backend: tf.KernelBackend } | undefined {
  const name = backendNames.find((candidate) => candidate === activeName());
  if (name === undefined) return undefined;
  const backend = runningBackend(name);
  return backend === undefined ? undefined : { name, backend };
}
