/** Links the node package to a Python TensorFlow, or undoes it: the steps in order, each of which is a file beside this. */
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { BackendError } from '../../errors.js';
import {
  bindingPath,
  findNodePackages,
  readLinkRecord,
  type LinkRecord,
} from '../../kernels/tensorflow/binding.js';
import {
  installBinding,
  makeWorkshop,
  removeLink,
  wasLinked,
  withWriteAccess,
  type Removal,
} from './binding-files.js';
import { compileBinding, compilerCommand } from './compile-binding.js';
import { fetchNodePackage, ownNodeModules } from './fetch-package.js';
import { findPythonTensorFlow, type PythonTensorFlow } from './python-tensorflow.js';
import { Interruption, runCommand, type RunCommand } from './run-command.js';
import { runOperation, type OperationOutcome } from './run-operation.js';

/** What linking needs from outside; tests put stand-ins here. */
export interface LinkSurroundings {
  readonly run: RunCommand;
  /** As `process.platform` and `process.arch`. */
  readonly platform: string;
  readonly arch: string;
  /** The compiler, possibly with arguments, as in $CXX; empty for g++. */
  readonly compiler: string;
  /** Files to resolve the node package from; undefined: as the engine does. */
  readonly origins?: readonly string[];
  /** Where the package goes if it has to be fetched. */
  readonly nodeModules: string;
  /** Tells the person what happens. */
  readonly say: (line: string) => void;
}

/** The surroundings of a real run. */
export function hostSurroundings(say: (line: string) => void): LinkSurroundings {
  return {
    run: runCommand,
    platform: process.platform,
    arch: process.arch,
    compiler: process.env.CXX ?? '',
    nodeModules: ownNodeModules(),
    say,
  };
}

/** The end of a successful link. */
export interface LinkOutcome {
  /** False if the binding was linked to this very TensorFlow before, and still works. */
  readonly built: boolean;
  readonly directory: string;
  readonly tensorflow: PythonTensorFlow;
  readonly operation: OperationOutcome;
}

/**
 * Links the node package to the TensorFlow of `python`, fetching the package if it is absent.
 *
 * Doing it again verifies the link, and renews it if that TensorFlow was replaced since.
 *
 * @throws BackendError naming what is missing (platform, interpreter, wheel, compiler, package, write access) or what
 *   does not fit; the state from before is kept
 */
export async function linkTensorFlow(python: string, surroundings: LinkSurroundings): Promise<LinkOutcome> {
  const { run, say, origins, nodeModules } = surroundings;
  checkPlatform(surroundings);
  const tensorflow = await findPythonTensorFlow(run, python);
  say(describe(tensorflow));
  const installed = findNodePackages(origins)[0]?.directory;
  if (installed !== undefined) {
    const operation = await verifyExisting(installed, tensorflow, surroundings);
    if (operation !== undefined) return { built: false, directory: installed, tensorflow, operation };
    return await build(installed, tensorflow, surroundings);
  }
  say(`Fetching the node package into ${nodeModules}, without its install script.`);
  const fetched = await withWriteAccess(nodeModules, () => fetchNodePackage(run, nodeModules));
  try {
    return await build(fetched.directory, tensorflow, surroundings);
  } catch (error) {
    if (fetched.isOurs) await rm(fetched.directory, { recursive: true, force: true });
    throw error;
  }
}

/** What undoing did to one package. */
export interface Unlinked {
  readonly directory: string;
  readonly removal: Removal;
}

/**
 * Undoes every link: an official binding that was replaced comes back, a package that was fetched goes.
 *
 * @throws BackendError if the files cannot be removed
 */
export async function unlinkTensorFlow(surroundings: LinkSurroundings): Promise<Unlinked[]> {
  const removals: Unlinked[] = [];
  for (const { directory } of findNodePackages(surroundings.origins)) {
    const isRemovable = await isOurs(directory, surroundings.run);
    const removal = await withWriteAccess(directory, () => removeLink(directory, isRemovable));
    removals.push({ directory, removal });
  }
  return removals;
}

function checkPlatform({ platform, arch }: LinkSurroundings): void {
  if (platform === 'linux' && ['x64', 'arm64'].includes(arch)) return;
  throw new BackendError({
    where: 'link-tensorflow',
    expected: 'Linux on x64 or arm64, whose TensorFlow wheels carry the libraries to link to',
    received: `${platform} on ${arch}`,
    remedy: 'use the webgpu backend, or the binding that `npm install @tensorflow/tfjs-node` downloads',
  });
}

/** Whether the package is linked to this very TensorFlow and works. */
async function verifyExisting(
  directory: string,
  tensorflow: PythonTensorFlow,
  { run, say }: LinkSurroundings,
): Promise<OperationOutcome | undefined> {
  const binding = bindingPath(directory);
  const record = existsSync(binding) ? readLinkRecord(directory, binding) : undefined;
  if (record === undefined) return undefined;
  const { version, libtensorflow, size, modified } = record.tensorflow;
  const isSame =
    libtensorflow === tensorflow.libtensorflow &&
    version === tensorflow.version &&
    size === tensorflow.size &&
    modified === tensorflow.modified;
  if (!isSame) {
    say(`It was linked to TensorFlow ${version} in ${path.dirname(libtensorflow)}; linking anew.`);
    return undefined;
  }
  try {
    return await runOperation(run, directory);
  } catch (error) {
    if (error instanceof Interruption) throw error;
    say(`It is linked already, but does not work (${(error as Error).message}); building again.`);
    return undefined;
  }
}

async function build(
  directory: string,
  tensorflow: PythonTensorFlow,
  { run, say, compiler }: LinkSurroundings,
): Promise<LinkOutcome> {
  checkSources(directory);
  const workshop = await withWriteAccess(directory, () => makeWorkshop(directory));
  try {
    const built = path.join(workshop, 'tfjs_binding.node');
    const napiVersion = Number(/napi-v(\d+)/.exec(path.basename(path.dirname(bindingPath(directory))))?.[1]);
    say(`Building the binding with ${compilerCommand(compiler).join(' ')} (some 20 seconds).`);
    await compileBinding(run, { directory, tensorflow, napiVersion, output: built, compiler });
    const trial = await runOperation(run, directory, built);
    checkVersion(tensorflow, trial);
    const isReplaceable = await isOurs(directory, run);
    await withWriteAccess(directory, () =>
      installBinding(directory, built, recordOf(tensorflow), isReplaceable),
    );
  } finally {
    await rm(workshop, { recursive: true, force: true });
  }
  return { built: true, directory, tensorflow, operation: await runOperation(run, directory) };
}

/**
 * Whether the binding in place is one that this command built, or what damage has left of one: after the first link, a
 * binding that we did not build is someone else's only if it works. Before it, all are.
 */
async function isOurs(directory: string, run: RunCommand): Promise<boolean> {
  const binding = bindingPath(directory);
  if (!existsSync(binding)) return false;
  if (readLinkRecord(directory, binding) !== undefined) return true;
  if (!(await wasLinked(directory))) return false;
  return runOperation(run, directory).then(
    () => false,
    (error: unknown) => {
      // Nothing is known of it then, and what is not ours must not be replaced.
      if (error instanceof Interruption) throw error;
      return true;
    },
  );
}

function checkSources(directory: string): void {
  const source = path.join(directory, 'binding', 'tfjs_binding.cc');
  if (existsSync(source)) return;
  const { name } = JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')) as { name: string };
  throw new BackendError({
    where: 'link-tensorflow',
    input: 'package',
    expected: `the sources that ${name} ships`,
    received: `no ${source}`,
    remedy: `delete ${directory} and run this command again`,
  });
}

/** The wheel's version and the library's own word must agree, or another library was loaded. */
function checkVersion(tensorflow: PythonTensorFlow, { tensorflowVersion }: OperationOutcome): void {
  const release = (version: string): string => /^\d+\.\d+\.\d+/.exec(version)?.[0] ?? version;
  if (release(tensorflow.version) === release(tensorflowVersion)) return;
  throw new BackendError({
    where: 'link-tensorflow',
    input: 'check',
    expected: `TensorFlow ${tensorflow.version} to be loaded from ${tensorflow.directory}`,
    received: `TensorFlow ${tensorflowVersion}`,
    remedy: 'remove the other libtensorflow from LD_LIBRARY_PATH or LD_PRELOAD, or reinstall the wheel',
  });
}

function recordOf(tensorflow: PythonTensorFlow): LinkRecord {
  const { version, build, python, libtensorflow, framework, size, modified } = tensorflow;
  return { format: 1, tensorflow: { version, build, python, libtensorflow, framework, size, modified } };
}

function describe({ version, build, cudaVersion, pythonVersion, directory }: PythonTensorFlow): string {
  const flavour = build === 'cuda' ? `CUDA ${cudaVersion ?? ''}`.trim() : 'CPU';
  return `TensorFlow ${version} (${flavour} build) of Python ${pythonVersion} in ${directory}.`;
}
