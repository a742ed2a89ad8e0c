/**
 * Where the native TensorFlow binding is, what it links to, and how it is loaded.
 *
 * The binding is the `tfjs_binding.node` of @tensorflow/tfjs-node-gpu (or tfjs-node). npm often leaves it out: its
 * install script downloads libtensorflow, and where that fails the package is skipped or stays without binding.
 * `inspectTensorFlowBinding` tells these cases apart without running native code; `loadTensorFlowBackend` runs it.
 * This file neither builds a binding (the command `tensortally link-tensorflow` does) nor chooses a backend.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as tf from '@tensorflow/tfjs-core';
import { messageOf } from '../../arguments.js';
import { BackendError } from '../../errors.js';
import { processWide } from '../../process-wide.js';
import { activeBackendName, assureRegistered, quietly } from '../backends/registry.js';

/** The packages that can hold the binding, the preferred one first. */
export const nodePackages = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'] as const;
export type NodePackage = (typeof nodePackages)[number];

/** The release that this engine is made for: the last one of TensorFlow.js. */
export const nodePackageVersion = '4.22.0';

/**
 * `absent`: neither package is installed. `without-binding`: a package is there, its native part is not.
 * `linked`: native part and libtensorflow are there. `broken`: the native part cannot load.
 */
export type TensorFlowBindingState = 'absent' | 'without-binding' | 'linked' | 'broken';

/** The libtensorflow that a binding was linked to. */
export interface TensorFlowLink {
  /** `python`: the libraries of a Python wheel; `official`: those that the package's own installer downloads. */
  readonly kind: 'python' | 'official';
  readonly libtensorflow: string;
  readonly version?: string;
}

/** What is known about the binding without loading it. */
export interface TensorFlowBinding {
  readonly state: TensorFlowBindingState;
  readonly package?: NodePackage;
  /** The package's directory. */
  readonly directory?: string;
  /** The file that the package loads; present only if it exists. */
  readonly binding?: string;
  readonly links?: TensorFlowLink;
  /** A sentence for people. */
  readonly detail: string;
  /** What makes it run; for `linked` what to do if it does not. */
  readonly remedy: string;
}

/** What `tensortally link-tensorflow` notes about a binding that it built. */
export interface LinkRecord {
  readonly format: 1;
  readonly tensorflow: {
    readonly version: string;
    readonly build: 'cpu' | 'cuda';
    readonly python: string;
    readonly libtensorflow: string;
    readonly framework: string;
    /** Identify the library file: another size or time means that TensorFlow was replaced. */
    readonly size: number;
    readonly modified: number;
  };
}

/** The folder inside the node package that `link-tensorflow` keeps to itself. */
export const linkFolder = 'tensortally-link';

/**
 * The file that describes one particular binding. Its name is the binding's digest: whoever replaces the binding
 * (an `npm rebuild`, say) thereby detaches the record, and swapping the one file `tfjs_binding.node` swaps all.
 */
export function linkRecordPath(directory: string, binding: string): string {
  const digest = createHash('sha256').update(readFileSync(binding)).digest('hex');
  return path.join(directory, linkFolder, `${digest.slice(0, 32)}.json`);
}

/** The record of `binding`, or undefined if `link-tensorflow` did not build that file. */
export function readLinkRecord(directory: string, binding: string): LinkRecord | undefined {
  try {
    const record = JSON.parse(readFileSync(linkRecordPath(directory, binding), 'utf8')) as {
      format?: unknown;
    };
    return record.format === 1 ? (record as LinkRecord) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the library files of `record` are still the ones that the binding was built against. */
export function isLinkCurrent(record: LinkRecord): boolean {
  const stats = statSync(record.tensorflow.libtensorflow, { throwIfNoEntry: false });
  return stats?.size === record.tensorflow.size && Math.trunc(stats.mtimeMs) === record.tensorflow.modified;
}

/** The path from which the package loads its binding on this Node, whether or not the file exists. */
export function bindingPath(directory: string): string {
  const manifest = readManifest(directory);
  const supported = Number(process.versions.napi);
  // As @mapbox/node-pre-gyp chooses: the newest Node-API that both the package and this Node know.
  const napi = Math.max(
    3,
    ...(manifest.binary?.napi_versions ?? [8]).filter((version) => version <= supported),
  );
  return path.join(directory, 'lib', `napi-v${napi}`, 'tfjs_binding.node');
}

/**
 * Finds the node package as Node resolves it and tells in which state its native part is. Reads files only.
 *
 * @param from files to resolve from, by default this package alone: what lies in the working directory is not run. The
 *   environment variable TENSORTALLY_TFJS_NODE names another package directory, which then is the only candidate
 * @returns of the candidates the one that is furthest along: linked, else broken, else without binding, else absent
 */
export function inspectTensorFlowBinding(from: readonly string[] = defaultOrigins()): TensorFlowBinding {
  const order: readonly TensorFlowBindingState[] = ['linked', 'broken', 'without-binding'];
  const found = findNodePackages(from).map(inspectPackage);
  for (const state of order) {
    const match = found.find((candidate) => candidate.state === state);
    if (match !== undefined) return match;
  }
  return {
    state: 'absent',
    detail: `${nodePackages[0]} is not installed (npm skips it where its download of libtensorflow fails).`,
    remedy:
      'run `npx tensortally link-tensorflow` to fetch it and link it to the TensorFlow of a Python environment',
  };
}

/** The directories of the installed node packages, each once, in order of preference. */
export function findNodePackages(
  from: readonly string[] = defaultOrigins(),
): { readonly name: NodePackage; readonly directory: string }[] {
  const named = namedPackage();
  if (named !== undefined) return [named];
  const found = new Map<string, NodePackage>();
  for (const name of nodePackages) {
    for (const origin of from) {
      try {
        const manifest = createRequire(origin).resolve(`${name}/package.json`);
        // Node remembers what it resolved, also after the package was removed.
        if (existsSync(manifest)) found.set(path.dirname(manifest), name);
      } catch {
        // Not installed as seen from here; the next origin may see it.
      }
    }
  }
  return [...found].map(([directory, name]) => ({ name, directory }));
}

/** What `loadTensorFlowBackend` brought up. */
export interface LoadedTensorFlow {
  readonly package: NodePackage;
  readonly packageVersion: string;
  readonly directory: string;
  /** Of libtensorflow, e.g. `2.21.0`. */
  readonly tensorflowVersion: string;
  /** Whether TensorFlow found a GPU and places its tensors there. */
  readonly usesGpu: boolean;
}

/**
 * Loads the node package, which registers the tfjs backend `tensorflow`. Loading it twice is free.
 *
 * The package makes itself the active backend as it loads; the backend that was active before is restored, because
 * choosing is not this function's business. If none was active, `tensorflow` stays active.
 * Sets TF_CPP_MIN_LOG_LEVEL=2 and TF_FORCE_GPU_ALLOW_GROWTH=true unless they are set.
 *
 * @param from as for `inspectTensorFlowBinding`
 * @throws BackendError if there is no binding, or if it cannot be loaded; the remedy is in the message
 */
export async function loadTensorFlowBackend(
  from: readonly string[] = defaultOrigins(),
): Promise<LoadedTensorFlow> {
  const found = inspectTensorFlowBinding(from);
  const { package: name, directory, binding } = found;
  if (found.state !== 'linked' || name === undefined || directory === undefined || binding === undefined) {
    const kind = found.state === 'broken' ? 'one that cannot be loaded' : 'none';
    throw bindingError(`${kind}: ${found.detail}`, found.remedy);
  }
  process.env.TF_CPP_MIN_LOG_LEVEL ??= '2'; // read by the native code when it is loaded
  process.env.TF_FORCE_GPU_ALLOW_GROWTH ??= 'true'; // otherwise TensorFlow takes all memory of the GPU at once
  const require = createRequire(path.join(directory, 'package.json'));
  restoreRemovedUtil(require('node:util') as Record<string, unknown>);

  const previous = activeBackendName();
  try {
    const backend = quietly(() => {
      require(directory);
      // False only for a package that registers nothing; to start it then fails with the reason of tfjs.
      assureRegistered('tensorflow', () => require.resolve(directory));
      return startBackend();
    });
    return {
      package: name,
      packageVersion: readManifest(directory).version ?? 'unknown',
      directory,
      tensorflowVersion: backend.binding.TF_Version,
      usesGpu: backend.isUsingGpuDevice,
    };
  } catch (error) {
    const reason = firstLine(error);
    failedLoads.set(loadKey(binding), reason);
    throw bindingError(`a binding that cannot be loaded: ${reason}`, brokenRemedy(found.links), error);
  } finally {
    if (previous !== undefined && activeBackendName() !== previous) await tf.setBackend(previous);
  }
}

/** The node backend, as far as it is used here. */
interface NodeBackend {
  readonly binding: { readonly TF_Version: string };
  readonly isUsingGpuDevice: boolean;
}

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly binary?: { readonly napi_versions?: readonly number[] };
}

/** Loads that failed in this process, so that inspecting afterwards does not call the binding healthy. */
const failedLoads = processWide('failed-loads', 1, () => new Map<string, string>());

function loadKey(binding: string): string {
  return `${binding}@${statSync(binding).mtimeMs}`;
}

/**
 * This package, and nothing that depends on the working directory: code that lies there is not to be run because
 * somebody started a program in it.
 */
function defaultOrigins(): string[] {
  return [fileURLToPath(import.meta.url)];
}

/** The environment variable that names the directory of a node package elsewhere. */
const DIRECTORY_VARIABLE = 'TENSORTALLY_TFJS_NODE';

/** The node package that the environment names. */
function namedPackage(): { readonly name: NodePackage; readonly directory: string } | undefined {
  const directory = process.env[DIRECTORY_VARIABLE];
  if (directory === undefined || directory === '') return undefined;
  const manifest = path.join(directory, 'package.json');
  const name = path.isAbsolute(directory) && existsSync(manifest) ? readManifest(directory).name : undefined;
  const known = nodePackages.find((candidate) => candidate === name);
  if (known !== undefined) return { name: known, directory };
  throw new BackendError({
    where: 'tensorflow',
    input: DIRECTORY_VARIABLE,
    expected: `the absolute path of an installed ${nodePackages.join(' or ')}`,
    received: `"${directory.slice(0, 200)}"`,
    remedy: 'name the folder that holds its package.json, or unset the variable',
  });
}

function readManifest(directory: string): Manifest {
  return JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')) as Manifest;
}

function inspectPackage(found: {
  readonly name: NodePackage;
  readonly directory: string;
}): TensorFlowBinding {
  const { name, directory } = found;
  const binding = bindingPath(directory);
  const place = { package: name, directory };
  if (!existsSync(binding)) {
    return {
      ...place,
      state: 'without-binding',
      detail: `${name} is installed in ${directory} without its native binding.`,
      remedy:
        'run `npx tensortally link-tensorflow` to build it against the TensorFlow of a Python environment',
    };
  }
  const record = readLinkRecord(directory, binding);
  const { links, missing } = record === undefined ? officialLink(directory) : pythonLink(record);
  const linked = {
    ...place,
    binding,
    ...(links === undefined ? {} : { links }),
    remedy: brokenRemedy(links),
  };
  if (missing !== undefined) {
    return { ...linked, state: 'broken', detail: `${binding} needs ${missing}, which is not there.` };
  }
  const failure = failedLoads.get(loadKey(binding));
  if (failure !== undefined)
    return { ...linked, state: 'broken', detail: `${binding} failed to load: ${failure}` };
  const stale = record !== undefined && !isLinkCurrent(record);
  const version = links?.version === undefined ? '' : ` ${links.version}`;
  return {
    ...linked,
    state: 'linked',
    detail: stale
      ? `${name} was built against TensorFlow${version}, which was replaced since in ${record.tensorflow.libtensorflow}.`
      : `${name} is linked to TensorFlow${version} in ${links?.libtensorflow ?? directory}.`,
  };
}

function pythonLink(record: LinkRecord): { links: TensorFlowLink; missing: string | undefined } {
  const { libtensorflow, framework, version } = record.tensorflow;
  return {
    links: { kind: 'python', libtensorflow, version },
    missing: [libtensorflow, framework].find((file) => !existsSync(file)),
  };
}

/** The libraries beside an official binding: deps/lib/libtensorflow.so.2, …framework.so.2; tensorflow.dll on Windows. */
function officialLink(directory: string): { links: TensorFlowLink | undefined; missing: string | undefined } {
  const folder = path.join(directory, 'deps', 'lib');
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const existing = (pattern: RegExp): string | undefined =>
    names
      .filter((name) => pattern.test(name))
      .map((name) => path.join(folder, name))
      .find((file) => existsSync(file)); // follows links: a dangling one does not count
  const library = existing(/^(libtensorflow(_cc)?\.(so|\d*\.?dylib)|tensorflow\.dll)/);
  if (library === undefined) return { links: undefined, missing: path.join(folder, 'libtensorflow') };
  const real = realpathSync(library);
  const version = /\.(\d+\.\d+\.\d+)(\.dylib)?$/.exec(real)?.[1];
  const links = {
    kind: 'official' as const,
    libtensorflow: real,
    ...(version === undefined ? {} : { version }),
  };
  const complete = real.endsWith('.dll') || existing(/^libtensorflow_framework\./) !== undefined;
  return { links, missing: complete ? undefined : path.join(folder, 'libtensorflow_framework') };
}

function brokenRemedy(links: TensorFlowLink | undefined): string {
  return links?.kind === 'python'
    ? 'check that the Python environment is still there, then run `npx tensortally link-tensorflow --python <its python>`'
    : 'run `npx tensortally link-tensorflow` to build the binding against the TensorFlow of a Python environment';
}

function bindingError(detail: string, remedy: string, cause?: unknown): BackendError {
  const received = detail.replace(/\.$/, ''); // a sentence of its own becomes part of one
  return new BackendError(
    { where: 'tensorflow', input: 'binding', expected: 'a native TensorFlow binding', received, remedy },
    { cause },
  );
}

/** tfjs-node 4.22 calls two functions on every op that Node 23 removed from `util`. */
function restoreRemovedUtil(util: Record<string, unknown>): void {
  util.isNullOrUndefined ??= (value: unknown) => value === null || value === undefined;
  util.isArray ??= Array.isArray;
}

function firstLine(error: unknown): string {
  return messageOf(error).split('\n', 1)[0]!;
}

/** The backend instance. The package does not notice a failed start, so the factory is asked for the reason. */
function startBackend(): NodeBackend {
  const engine = tf.engine();
  const started = engine.findBackend('tensorflow') as unknown as NodeBackend | null | undefined;
  return started ?? (engine.findBackendFactory('tensorflow')() as unknown as NodeBackend);
}
