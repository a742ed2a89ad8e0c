/**
 * tfjs' registry of backends: who is active, who holds tensors, and how one comes back that was removed.
 *
 * A package registers its backend when it is loaded, and only then. After `tf.removeBackend` loading it again does
 * nothing, so what it registered is remembered; where nobody saw it, the file of the package is run once more.
 */
import { createRequire } from 'node:module';
import * as tf from '@tensorflow/tfjs-core';
import { processWide } from '../../process-wide.js';
import { runningBackend } from '../residency.js';
import { type BackendName, backendNames } from './names.js';

/** What tfjs keeps of a backend that it can start; unchanged in 4.x. */
interface Registered {
  readonly factory: () => tf.KernelBackend | Promise<tf.KernelBackend>;
  readonly priority: number;
}

interface EngineRegistry {
  readonly backendName?: string | null;
  readonly registryFactory: Readonly<Record<string, Registered>>;
}

const registered = processWide('registered-backends', 1, () => new Map<string, Registered>());

function engineRegistry(): EngineRegistry {
  return tf.engine();
}

/** The name of tfjs' active backend. `tf.getBackend()` would choose and start one where none is active. */
export function activeBackendName(): string | undefined {
  return engineRegistry().backendName ?? undefined;
}

/** The active backend if it is one of ours and running. */
export function activeBackend(): { name: BackendName; backend: tf.KernelBackend } | undefined {
  const name = backendNames.find((candidate) => candidate === activeBackendName());
  if (name === undefined) return undefined;
  const backend = runningBackend(name);
  return backend === undefined ? undefined : { name, backend };
}

/** The backend of ours that holds most tensors; undefined where none holds any. */
export function fullestBackend(): { name: BackendName; backend: tf.KernelBackend } | undefined {
  const holders = backendNames.flatMap((name) => {
    const backend = runningBackend(name);
    const tensors = backend === undefined ? 0 : tensorsOn(backend);
    return backend === undefined || tensors === 0 ? [] : [{ name, backend, tensors }];
  });
  return holders.sort((a, b) => b.tensors - a.tensors)[0];
}

/** How many tensors a backend holds the data of. */
export function tensorsOn(backend: tf.KernelBackend): number {
  return backend.numDataIds();
}

/**
 * Makes sure that `name` is registered, after its package was loaded.
 *
 * @param entry the file that registers the backend when it is run
 * @returns false if that file does not register it either
 */
export function assureRegistered(name: string, entry: () => string): boolean {
  if (remember(name)) return true;
  const known = registered.get(name);
  if (known !== undefined) tf.registerBackend(name, known.factory, known.priority);
  else runAgain(entry());
  return remember(name);
}

/** Whether tfjs can start `name`; if so, keeps how. */
function remember(name: string): boolean {
  const { registryFactory } = engineRegistry();
  if (!Object.hasOwn(registryFactory, name)) return false;
  registered.set(name, registryFactory[name]!);
  return true;
}

/** Runs a CommonJS file that was run before. What the process imported from it stays what it was. */
function runAgain(entry: string): void {
  const require = createRequire(entry);
  const first = require.cache[entry];
  Reflect.deleteProperty(require.cache, entry);
  try {
    quietly(() => require(entry) as unknown);
  } finally {
    if (first !== undefined) require.cache[entry] = first;
  }
}

/**
 * Runs `load` without the warnings of tfjs: it complains of every kernel that is registered already, and of a failed
 * start, which is told by the error that follows.
 */
export function quietly<T>(load: () => T): T {
  const production = tf.env().getBool('PROD');
  tf.env().set('PROD', true);
  try {
    return load();
  } finally {
    tf.env().set('PROD', production);
  }
}
