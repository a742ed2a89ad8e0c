/**
 * The four backends: which can run here, which one to choose, and how each is made active.
 *
 * Kernels are looked up by the backend that holds their inputs and never switch the active one; `initBackend` does,
 * because choosing is what it is for.
 */
import { createRequire } from 'node:module';
import * as tf from '@tensorflow/tfjs-core';
import { kindOf, messageOf } from '../../arguments.js';
import { BackendError } from '../../errors.js';
import { processWide } from '../../process-wide.js';
import { runningBackend } from '../residency.js';
import { engineObstacle, memoryObstacle, newMemory, type ModuleObstacle } from '../simd/instance.js';
import { loadTensorFlowBackend } from '../tensorflow/binding.js';
import {
  assertWebGpuPackages,
  findAdapter,
  importPackage,
  noAdapter,
  registerWebGpu,
} from '../webgpu/boot.js';
import { webGpuDevice } from '../webgpu/device.js';
import { mayHaveGpuDriver } from '../webgpu/vulkan-drivers.js';
import { type BackendName, backendNames } from './names.js';
import { activeBackend, activeBackendName, assureRegistered, fullestBackend, tensorsOn } from './registry.js';
import {
  type BackendChoice,
  type BackendReport,
  backendReport,
  describeDevice,
  lastChoice,
} from './report.js';

export { backendReport, type BackendChoice, type BackendReport, type KernelKind } from './report.js';

const WHERE = 'initBackend';

/** What all copies of the package in a process share: tfjs starts one backend at a time, whoever asks. */
const starts = processWide('backend-starts', 1, () => ({
  /** The last call of `initBackend`, done or not. */
  last: Promise.resolve<unknown>(undefined),
  /** What is active because it was looked at, not because anybody chose it. */
  unchosen: undefined as tf.KernelBackend | undefined,
}));

/**
 * Makes a backend active and says what it runs on.
 *
 * `'auto'` keeps a backend that the caller already made active or, where none is active, the one that holds the caller's
 * tensors. Otherwise it takes, in this order, tensorflow with a CUDA GPU, webgpu on a hardware GPU, tensorflow on the CPU,
 * wasm, cpu. A software GPU is never chosen unasked. Tensors that exist stay where they are.
 *
 * A trainer looks at `missingTrainingKernels` of the report: on a machine without a GPU `'auto'` may take `wasm`, where
 * tfjs has no gradient of an embedding or a convolution. `initBackend('cpu')` trains everything.
 *
 * Where WebAssembly lacks memory or SIMD, `cpu` and `tensorflow` compute by plain loops, which the report says, and
 * `wasm` is refused. A backend that was taken out by `tf.removeBackend` is registered again.
 *
 * @param name a backend, or `'auto'` (default)
 * @throws BackendError with the remedy if the named backend cannot run here
 * @example  const { backend, device } = await initBackend();
 */
export function initBackend(name: 'auto' | BackendName = 'auto'): Promise<BackendReport> {
  // One after the other: two that start together refuse each other or crash.
  const started = starts.last.then(() => startBackend(name));
  starts.last = started.catch(() => undefined);
  return started;
}

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
    lastChoice.considered = choice.considered;
    await activate(choice.backend);
  } else {
    lastChoice.considered = [];
    await activate(name);
  }
  starts.unchosen = undefined;
  return backendReport();
}

/**
 * Tells for every backend whether it can run here.
 *
 * Loads what it has to load for that. Where no backend was active, TensorFlow's package makes itself active, which
 * `initBackend('auto')` does not take for a choice.
 */
export async function probeBackends(): Promise<BackendChoice[]> {
  return Promise.all(backendNames.map(probe));
}

async function chooseBackend(): Promise<{ backend: BackendName; considered: BackendChoice[] }> {
  const active = activeBackend();
  const isChosen =
    active !== undefined && (active.backend !== starts.unchosen || tensorsOn(active.backend) > 0);
  const kept = isChosen ? active : fullestBackend();
  if (kept !== undefined) {
    const reason = isChosen ? 'already active; kept' : 'holds tensors; kept';
    const { isGpu } = describeDevice(kept.name, kept.backend);
    return { backend: kept.name, considered: [{ backend: kept.name, available: true, isGpu, reason }] };
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
    const { tensorflowVersion, usesGpu } = await loadTensorFlow();
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
    assertWasmRuns();
    await importPackage(
      () => import('@tensorflow/tfjs-backend-wasm'),
      '@tensorflow/tfjs-backend-wasm@4.22.0',
    );
    assertRegistered('wasm', '@tensorflow/tfjs-backend-wasm');
    return { isGpu: false, reason: 'WebAssembly on one CPU core' };
  },
  cpu: async () => {
    await import('@tensorflow/tfjs-backend-cpu');
    assertRegistered('cpu', '@tensorflow/tfjs-backend-cpu');
    return { isGpu: false, reason: 'JavaScript on one CPU core' };
  },
};

/** Loads TensorFlow, and notes if that alone made it the active backend. */
async function loadTensorFlow(): ReturnType<typeof loadTensorFlowBackend> {
  const before = activeBackendName();
  const loaded = await loadTensorFlowBackend();
  if (before === undefined) starts.unchosen = activeBackend()?.backend;
  return loaded;
}

/**
 * Refuses `wasm` before tfjs tries: its own errors name no cause, and a start that failed makes the next one hang.
 *
 * A running backend has the memory that it needs.
 */
function assertWasmRuns(): void {
  const obstacle = engineObstacle() ?? (runningBackend('wasm') === undefined ? lackOfMemory() : undefined);
  if (obstacle !== undefined) throw refusedBy(obstacle);
}

/** What the heap of tfjs' wasm backend has from the start, in pages of 64 KiB. */
const HEAP_PAGES = 256;

function lackOfMemory(): ModuleObstacle | undefined {
  try {
    newMemory(HEAP_PAGES);
    return undefined;
  } catch (error) {
    return memoryObstacle(error);
  }
}

function refusedBy({ expected, received, remedy, cause }: ModuleObstacle): BackendError {
  const alternative = `${remedy}; or use initBackend('cpu'), which runs without`;
  return new BackendError(
    { where: WHERE, input: 'wasm', expected, received, remedy: alternative },
    { cause },
  );
}

/** @throws BackendError where a backend was removed and its package does not register it again */
function assertRegistered(name: BackendName, packageName: string): void {
  if (assureRegistered(name, () => createRequire(import.meta.url).resolve(packageName))) return;
  throw new BackendError({
    where: WHERE,
    input: 'name',
    expected: `${packageName} to register the backend "${name}"`,
    received: 'none in the registry of tfjs',
    remedy: 'call tf.registerBackend again after tf.removeBackend, or restart the process',
  });
}

async function activate(name: BackendName): Promise<void> {
  if (name === 'tensorflow') await loadTensorFlow();
  else if (name === 'webgpu') await registerWebGpu();
  else await probes[name]();
  let cause: Error | undefined;
  const activated = await tf.setBackend(name).catch((error: unknown) => {
    cause = error instanceof Error ? error : new Error(messageOf(error), { cause: error });
    return false;
  });
  if (activated && activeBackendName() === name) {
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
