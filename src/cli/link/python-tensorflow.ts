/** Finds the TensorFlow that a Python environment holds, without importing it: that would take seconds. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { messageOf } from '../../arguments.js';
import { BackendError } from '../../errors.js';
import { type CommandOutcome, isNotFound, lastLine, lastWords, type RunCommand } from './run-command.js';

/** A TensorFlow wheel, as far as linking needs it. */
export interface PythonTensorFlow {
  readonly version: string;
  /** A `cuda` build still runs on the CPU where it finds no GPU. */
  readonly build: 'cpu' | 'cuda';
  /** CUDA release of a `cuda` build, e.g. `12.5.1`. */
  readonly cudaVersion?: string;
  /** The interpreter that was asked, and its version. */
  readonly python: string;
  readonly pythonVersion: string;
  /** The package directory, which holds both libraries. */
  readonly directory: string;
  readonly include: string;
  readonly libtensorflow: string;
  readonly framework: string;
  /** Of libtensorflow: they tell later whether it was replaced. */
  readonly size: number;
  readonly modified: number;
}

/** The oldest release whose wheels are known to carry the C API that the binding calls. */
export const oldestTensorFlow = '2.16';

// find_spec and the distribution's metadata are read without running TensorFlow's own code. Before anything is imported
// that a file could stand for, the working directory goes, which `-c` puts first as an empty entry.
const question = `
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import importlib.metadata, importlib.util, json
spec = importlib.util.find_spec("tensorflow")
names = ("tensorflow", "tensorflow-cpu", "tensorflow-cpu-aws", "tensorflow-gpu", "tf-nightly", "tf-nightly-cpu")
version = None
for name in names:
    try:
        version = importlib.metadata.version(name)
        break
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps({
    "python": sys.executable,
    "pythonVersion": "%d.%d.%d" % sys.version_info[:3],
    "origin": spec.origin if spec else None,
    "version": version,
}))
`;

interface Answer {
  readonly python: string;
  readonly pythonVersion: string;
  readonly origin: string | null;
  readonly version: string | null;
}

/**
 * Asks `python` which TensorFlow it has.
 *
 * @param python interpreter, by name or path
 * @throws BackendError if there is no such interpreter, if it has no TensorFlow of 2.16 or later, or if that
 *   installation lacks the C headers or the libraries
 */
export async function findPythonTensorFlow(run: RunCommand, python: string): Promise<PythonTensorFlow> {
  const answer = await ask(run, python);
  if (answer.origin === null || answer.version === null) {
    throw refusal(
      'a Python with TensorFlow',
      `${answer.python} (Python ${answer.pythonVersion}) without it`,
      `install it there (\`${answer.python} -m pip install tensorflow\`, or tensorflow-cpu) or name another with --python`,
    );
  }
  if (!isAtLeast(answer.version, oldestTensorFlow)) {
    throw refusal(
      `TensorFlow ${oldestTensorFlow} or later`,
      `TensorFlow ${answer.version} in ${answer.python}`,
      `upgrade it (\`${answer.python} -m pip install --upgrade tensorflow\`) or name another Python with --python`,
    );
  }
  // It becomes the binding's RPATH, where a relative path would mean one from wherever the process runs.
  const directory = path.dirname(path.resolve(answer.origin));
  const files = {
    include: path.join(directory, 'include'),
    libtensorflow: path.join(directory, 'libtensorflow_cc.so.2'),
    framework: path.join(directory, 'libtensorflow_framework.so.2'),
  };
  const header = path.join(files.include, 'tensorflow', 'c', 'eager', 'c_api.h');
  const missing = [header, files.libtensorflow, files.framework].find((file) => !existsSync(file));
  if (missing !== undefined) {
    throw refusal(
      'the C headers and libraries of a TensorFlow wheel',
      `TensorFlow ${answer.version} in ${directory} without ${path.relative(directory, missing)}`,
      'use the wheel from PyPI (`pip install --force-reinstall tensorflow`, or tensorflow-cpu)',
    );
  }
  const { size, mtimeMs } = statSync(files.libtensorflow);
  return {
    version: answer.version,
    ...buildOf(directory),
    python: answer.python,
    pythonVersion: answer.pythonVersion,
    directory,
    ...files,
    size,
    modified: Math.trunc(mtimeMs),
  };
}

async function ask(run: RunCommand, python: string): Promise<Answer> {
  const { status, signal, stdout, stderr } = await start(run, python);
  const said = lastLine(stdout);
  if (status === 0 && said.startsWith('{')) return JSON.parse(said) as Answer;
  const end = status === 0 ? 'it did not answer as a Python does' : (signal ?? `exit status ${status}`);
  throw refusal(
    'a Python of 3.9 or later',
    `${python}, which failed: ${lastWords(stderr) || end}`,
    'name a working interpreter with --python',
  );
}

/** Runs the question; a program that cannot be started at all is refused in a sentence. */
async function start(run: RunCommand, python: string): Promise<CommandOutcome> {
  try {
    return await run(python, ['-c', question]);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw refusal(
      'a Python interpreter',
      isNotFound(error)
        ? `no program ${python}`
        : `"${python}", which cannot be started (${code ?? messageOf(error)})`,
      'name one with --python, e.g. --python .venv/bin/python3',
    );
  }
}

function isAtLeast(version: string, oldest: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = oldest.split('.').map(Number);
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
}

/** What the wheel says of its own build; wheels without CUDA carry only `False` there. */
function buildOf(directory: string): Pick<PythonTensorFlow, 'build' | 'cudaVersion'> {
  const file = path.join(directory, 'python', 'platform', 'build_info.py');
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  if (!text.includes("'is_cuda_build', True")) return { build: 'cpu' };
  const cudaVersion = /'cuda_version', '([^']+)'/.exec(text)?.[1];
  return { build: 'cuda', ...(cudaVersion === undefined ? {} : { cudaVersion }) };
}

function refusal(expected: string, received: string, remedy: string): BackendError {
  return new BackendError({ where: 'link-tensorflow', input: 'python', expected, received, remedy });
}
