/** Folders and programs that look, to the code under test, like a project with the node package, a wheel and a compiler. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { LinkSurroundings } from '../../../src/cli/link/link.js';
import type { CommandOutcome, RunCommand } from '../../../src/cli/link/run-command.js';

/** A new empty folder that goes when the test ends. */
export function temporaryFolder(): string {
  refuseSharedPackages();
  const folder = mkdtempSync(path.join(tmpdir(), 'tensortally-test-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/**
 * Code under test changes the node package that Node finds from a folder of these. Where a `node_modules` lies above the
 * temporary folders, that would be a real one.
 */
function refuseSharedPackages(): void {
  const seen = createRequire(path.join(tmpdir(), 'any', 'file.js')).resolve.paths('any') ?? [];
  const real = seen.filter((folder) => existsSync(path.join(folder, '@tensorflow')));
  if (real.length === 0) return;
  throw new Error(
    `these tests would change ${real.join(', ')}; set TMPDIR to a folder without packages above it`,
  );
}

/** Writes `files` (path below `root` → text). */
export function writeFiles(root: string, files: Readonly<Record<string, string>>): void {
  for (const [file, text] of Object.entries(files)) {
    const target = path.join(root, file);
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
}

/** Installs what looks like a node package below `project`, without a binding unless `files` has one. */
export function installNodePackage(
  project: string,
  files: Readonly<Record<string, string>> = {},
  name = '@tensorflow/tfjs-node-gpu',
): string {
  const directory = path.join(project, 'node_modules', name);
  const manifest = {
    name,
    version: '4.22.0',
    main: 'dist/index.js',
    binary: { napi_versions: [3, 4, 5, 6, 7, 8] },
  };
  writeFiles(directory, {
    'package.json': JSON.stringify(manifest),
    'dist/index.js': '',
    'binding/tfjs_binding.cc': '// source',
    ...files,
  });
  return directory;
}

/** Where the package looks for its binding on every Node that this project supports. */
export const bindingFile = 'lib/napi-v8/tfjs_binding.node';

export const officialBinding = {
  [bindingFile]: 'official',
  'deps/lib/libtensorflow.so.2.9.1': 'library',
  'deps/lib/libtensorflow_framework.so.2.9.1': 'library',
} as const;

/** Writes what a TensorFlow wheel has, and returns its folder. */
export function installWheel(site: string, build: 'cpu' | 'cuda' = 'cpu'): string {
  const info =
    build === 'cuda'
      ? "build_info = OrderedDict([('cuda_version', '12.5.1'), ('is_cuda_build', True)])"
      : "build_info = OrderedDict([('is_cuda_build', False)])";
  writeFiles(path.join(site, 'tensorflow'), {
    '__init__.py': '',
    'include/tensorflow/c/eager/c_api.h': '',
    'libtensorflow_cc.so.2': 'library',
    'libtensorflow_framework.so.2': 'library',
    'python/platform/build_info.py': info,
  });
  return path.join(site, 'tensorflow');
}

export function outcome(part: Partial<CommandOutcome>): CommandOutcome {
  return { status: 0, signal: null, stdout: '', stderr: '', ...part };
}

/** What a shell would say of a program that does not exist. */
export function notFound(command: string): Error {
  return Object.assign(new Error(`spawn ${command} ENOENT`), { code: 'ENOENT' });
}

/** Programs that the code under test may run; each can be replaced. */
export interface FakePrograms {
  python: RunCommand;
  compiler: RunCommand;
  node: RunCommand;
  npm: RunCommand;
}

/** A working machine: a Python with the given wheel, a compiler that writes a binding, a node on which it runs. */
export interface FakeMachine extends LinkSurroundings {
  readonly programs: FakePrograms;
  /** All that was run, as `program argument …`. */
  readonly ran: string[];
  readonly said: string[];
}

export function fakeMachine(project: string, wheel: string, version = '2.21.0'): FakeMachine {
  const ran: string[] = [];
  const said: string[] = [];
  let builds = 0;
  const programs: FakePrograms = {
    python: () => Promise.resolve(outcome({ stdout: pythonAnswer({ version, wheel }) })),
    compiler: (_, words) => {
      builds += 1;
      writeFileSync(words[words.indexOf('-o') + 1]!, `binding ${builds} for ${version}`);
      return Promise.resolve(outcome({}));
    },
    node: () => Promise.resolve(outcome({ stdout: operationAnswer({ tensorflowVersion: version }) })),
    npm: (_, words) => {
      const workshop = words[words.indexOf('--prefix') + 1]!;
      installNodePackage(workshop);
      return Promise.resolve(outcome({}));
    },
  };
  const run: RunCommand = (command, words, options) => {
    ran.push([path.basename(command), ...words].join(' '));
    if (command === 'python3') return programs.python(command, words, options);
    if (command === 'g++') return programs.compiler(command, words, options);
    if (command === 'npm') return programs.npm(command, words, options);
    return programs.node(command, words, options);
  };
  return {
    programs,
    ran,
    said,
    run,
    platform: 'linux',
    arch: 'x64',
    compiler: 'g++',
    origins: [path.join(project, 'package.json')],
    nodeModules: path.join(project, 'node_modules'),
    say: (line) => said.push(line),
  };
}

/** What the question to Python prints. */
export function pythonAnswer(answer: { version: string | null; wheel: string | null }): string {
  const origin = answer.wheel === null ? null : path.join(answer.wheel, '__init__.py');
  return JSON.stringify({
    python: '/env/bin/python3',
    pythonVersion: '3.11.7',
    origin,
    version: answer.version,
  });
}

/** What the operation prints. */
export function operationAnswer(part: {
  tensorflowVersion?: string;
  usesGpu?: boolean;
  sum?: number;
}): string {
  return JSON.stringify({ tensorflowVersion: '2.21.0', usesGpu: false, sum: 3.5, ...part });
}

/** The text of a file, or undefined if there is none. */
export function textOf(file: string): string | undefined {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}
