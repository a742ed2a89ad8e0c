/**
 * Boots tfjs' `webgpu` backend in Node: Dawn through the `webgpu` package, a device of our own, its own factory.
 *
 * tfjs' stock factory asks for too little (no subgroups, the default limits) and falls back to the CPU in silence
 * when no adapter is found, so it is replaced. A webgpu backend that the caller already runs is used as it is.
 */
import { createRequire } from 'node:module';
import * as tf from '@tensorflow/tfjs-core';
import { messageOf } from '../../arguments.js';
import { BackendError } from '../../errors.js';
import { runningBackend } from '../residency.js';
import { isSoftwareAdapter } from './internals.js';

/** What the driver says about the processor behind a WebGPU device. */
export interface AdapterDescription {
  /** For people, e.g. `nvidia ada (NVIDIA GeForce RTX 4090)`. */
  readonly device: string;
  readonly driver?: string;
  /** Whether the adapter is software. */
  readonly isSoftware: boolean;
  /** Optional features that the device was made with. */
  readonly features: readonly string[];
}

interface AdapterInfo {
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
  readonly isFallbackAdapter?: boolean;
}

interface Features {
  has(name: string): boolean;
}

interface Adapter {
  readonly features: Features;
  readonly limits: Record<string, number>;
  readonly info: AdapterInfo;
  requestDevice(descriptor: {
    requiredFeatures: string[];
    requiredLimits: Record<string, number>;
  }): Promise<Device>;
}

interface Device {
  readonly lost: Promise<unknown>;
  readonly features: Iterable<string>;
  readonly adapterInfo?: AdapterInfo;
}

interface Gpu {
  requestAdapter(options: { powerPreference: string }): Promise<Adapter | null>;
}

/** Features that make kernels faster or measurable; none is needed. */
const WANTED_FEATURES = ['subgroups', 'timestamp-query'];

/** Limits of the adapter that kernels profit from; a device gets the small defaults unless it asks. */
const WANTED_LIMITS = [
  'maxStorageBufferBindingSize',
  'maxBufferSize',
  'maxStorageBuffersPerShaderStage',
  'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX',
  'maxComputeWorkgroupsPerDimension',
];

/** Dawn ends its devices when its instance is collected, so the instance lives as long as the process. */
let gpu: Gpu | undefined;

/**
 * Looks for an adapter without making a device.
 *
 * @throws BackendError if there is none, or a package is missing
 */
export async function findAdapter(): Promise<{ adapter: Adapter; description: AdapterDescription }> {
  assertWebGpuPackages();
  gpu ??= await startDawn();
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (adapter === null) throw noAdapter('none');
  return {
    adapter,
    description: describe(
      adapter.info,
      WANTED_FEATURES.filter((f) => adapter.features.has(f)),
    ),
  };
}

/**
 * Checks that both packages are installed, before anything is said about drivers.
 *
 * @throws BackendError naming what is missing and one command that installs it
 */
export function assertWebGpuPackages(): void {
  const own = createRequire(import.meta.url);
  const missing = ['webgpu', '@tensorflow/tfjs-backend-webgpu'].filter((name) => {
    try {
      own.resolve(`${name}/package.json`);
      return false;
    } catch {
      return true;
    }
  });
  if (missing.length === 0) return;
  throw new BackendError({
    where: 'initBackend',
    expected: 'the packages webgpu and @tensorflow/tfjs-backend-webgpu',
    received: `no ${missing.join(', no ')}`,
    remedy: 'run `npm install webgpu @tensorflow/tfjs-backend-webgpu@4.22.0`',
  });
}

/** The refusal where there is no adapter, with what can be done about it. */
export function noAdapter(received: string): BackendError {
  return new BackendError({
    where: 'webgpu',
    expected: 'a Vulkan, Metal or Direct3D 12 adapter',
    received,
    remedy:
      'install the GPU driver with its Vulkan part; on a machine without a GPU install a software Vulkan driver ' +
      '(Debian: chromium and libvulkan1) and start node with VK_ICD_FILENAMES naming its vk_swiftshader_icd.json',
  });
}

/** Registers `webgpu` with a device of our own unless a webgpu backend is already running on a live device. */
export async function registerWebGpu(): Promise<void> {
  const running = runningBackend('webgpu');
  if (running !== undefined) {
    if (!(await isLost(running))) return;
    tf.removeBackend('webgpu'); // its tensors are lost with the device
  }
  const { adapter, description } = await findAdapter();
  const { WebGPUBackend } = await importBackend();
  const requiredLimits: Record<string, number> = {};
  for (const limit of WANTED_LIMITS) requiredLimits[limit] = adapter.limits[limit]!;
  const device = await adapter.requestDevice({ requiredFeatures: [...description.features], requiredLimits });
  const stock: unknown = tf.engine().findBackendFactory('webgpu'); // undefined where nobody registered one
  if (typeof stock === 'function') tf.removeBackend('webgpu');
  tf.registerBackend('webgpu', () => new WebGPUBackend(device, adapter.info), 3);
}

/** Describes the device of a running webgpu backend, ours or the caller's. */
export function describeWebGpu(backend: tf.KernelBackend): AdapterDescription {
  const { device } = backend as unknown as { device: Device };
  const unknown = { vendor: 'unknown', architecture: '', device: '', description: '' };
  return describe(
    device.adapterInfo ?? unknown,
    WANTED_FEATURES.filter((feature) => [...device.features].includes(feature)),
  );
}

/** Whether the device of a backend is gone. A lost device says so by a promise that has settled. */
function isLost(backend: tf.KernelBackend): Promise<boolean> {
  const { device } = backend as unknown as { device: Device };
  const alive = new Promise<false>((resolve) => {
    setImmediate(resolve, false);
  });
  return Promise.race([device.lost.then(() => true), alive]);
}

/** Version of the installed `webgpu` package. */
export function webGpuPackageVersion(): string | undefined {
  try {
    return (createRequire(import.meta.url)('webgpu/package.json') as { version: string }).version;
  } catch {
    return undefined;
  }
}

function describe(info: AdapterInfo, features: readonly string[]): AdapterDescription {
  const name = [info.vendor, info.architecture].filter((part) => part !== '').join(' ');
  const detail = info.device || info.description;
  return {
    device: detail === '' ? name : `${name} (${detail})`,
    ...(info.description === '' || info.description === detail ? {} : { driver: info.description }),
    isSoftware: isSoftwareAdapter(info),
    features,
  };
}

/** Makes Dawn's `navigator.gpu` and WebGPU globals visible, as tfjs' backend expects them. */
async function startDawn(): Promise<Gpu> {
  const existing = (globalThis as { navigator?: { gpu?: Gpu } }).navigator;
  if (existing?.gpu !== undefined) return existing.gpu;
  const { create, globals } = await importPackage(() => import('webgpu'), 'webgpu');
  Object.assign(globalThis, globals);
  const started = create([]) as unknown as Gpu;
  if (existing !== undefined) {
    Object.defineProperty(existing, 'gpu', { value: started, configurable: true });
  } else {
    // Node 20 has no navigator.
    const navigator = { gpu: started, userAgent: `Node.js/${process.versions.node.split('.')[0]!}` };
    Object.defineProperty(globalThis, 'navigator', { value: navigator, configurable: true, writable: true });
  }
  return started;
}

/** Only after `startDawn`: the package looks for navigator.gpu while it is imported. */
async function importBackend(): Promise<{
  WebGPUBackend: new (device: unknown, info: unknown) => tf.KernelBackend;
}> {
  const imported = await importPackage(
    () => import('@tensorflow/tfjs-backend-webgpu'),
    '@tensorflow/tfjs-backend-webgpu@4.22.0',
  );
  return imported as unknown as { WebGPUBackend: new (device: unknown, info: unknown) => tf.KernelBackend };
}

/** Imports an optional package; absence and failure become a BackendError with the remedy. */
export async function importPackage<T>(load: () => Promise<T>, name: string): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const absent = (cause as { code?: unknown } | null | undefined)?.code === 'ERR_MODULE_NOT_FOUND';
    throw new BackendError(
      {
        where: 'initBackend',
        expected: `the package ${name}`,
        received: absent ? 'nothing: it is not installed' : `an error from it: ${messageOf(cause)}`,
        remedy: `run \`npm install ${name}\``,
      },
      { cause },
    );
  }
}
