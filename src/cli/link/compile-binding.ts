/**
 * Compiles the binding whose sources the node package ships, against the headers and libraries of a Python wheel.
 *
 * One call of the compiler does it; node-gyp would want Node's own headers from the network. The path of the wheel is
 * written into the binding as it is, without links in between: a CUDA wheel finds its NVIDIA libraries relative to
 * the place that it was loaded from.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { BackendError } from '../../errors.js';
import type { PythonTensorFlow } from './python-tensorflow.js';
import { isNotFound, lastWords, type RunCommand } from './run-command.js';

export interface Compilation {
  /** The node package's directory, which holds binding/*.cc. */
  readonly directory: string;
  readonly tensorflow: PythonTensorFlow;
  /** Node-API version to compile for. */
  readonly napiVersion: number;
  /** The file to write. */
  readonly output: string;
  /** The compiler, see `compilerCommand`. */
  readonly compiler: string;
}

/**
 * Writes the binding to `output`.
 *
 * @throws BackendError if there is no compiler, or if the sources do not compile against this TensorFlow
 */
export async function compileBinding(run: RunCommand, compilation: Compilation): Promise<void> {
  const { tensorflow, compiler } = compilation;
  if (tensorflow.directory.includes(':')) {
    throw refusal(
      'a TensorFlow in a path without `:`, which separates library paths',
      tensorflow.directory,
      'move the Python environment',
    );
  }
  const [program, ...given] = compilerCommand(compiler);
  try {
    const outcome = await run(program, [...given, ...compilerArguments(compilation)]);
    if (outcome.status === 0) return;
    const reason = /^.*error:.*$/m.exec(outcome.stderr)?.[0] ?? lastWords(outcome.stderr);
    throw refusal(
      `binding sources that compile against TensorFlow ${tensorflow.version}`,
      `an error of ${program}: ${reason}`,
      'use another TensorFlow (`pip install tensorflow==2.21.0`); --verbose shows all that the compiler said',
      new Error(outcome.stderr),
    );
  } catch (error) {
    if (!isNotFound(error)) throw error;
    throw refusal(
      'a C++ compiler',
      `no program ${program}`,
      'install g++ (Debian: apt-get install g++) or set CXX',
    );
  }
}

/**
 * The program and arguments that $CXX names: `g++` for none, a path as it is where there is a file, spaces and all, else
 * words as a shell has them: separated by spaces, which quotes and backslashes keep.
 *
 * @throws BackendError for a quote that does not end
 */
export function compilerCommand(compiler: string): [program: string, ...args: string[]] {
  const given = compiler.trim();
  if (given === '') return ['g++'];
  if (given.includes('/') && existsSync(given)) return [given];
  const words: string[] = [];
  // A word is a run of plain characters, escaped ones and quoted parts.
  const word = /(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/gs;
  const rest = given.replace(word, (text) => {
    const parts = text.matchAll(/\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\\"']+)/gs);
    words.push(
      [...parts]
        .map(
          ([, escaped, double, single, plain]) =>
            escaped ?? double?.replace(/\\(.)/gs, '$1') ?? single ?? plain,
        )
        .join(''),
    );
    return '';
  });
  const [program, ...args] = words;
  if (rest.trim() === '' && program !== undefined) return [program, ...args];
  throw refusal(
    'a compiler, possibly with arguments, in CXX',
    `"${given}", in which a quote does not end`,
    'quote a path with spaces whole, or unset CXX',
  );
}

function compilerArguments({ directory, tensorflow, napiVersion, output }: Compilation): string[] {
  const require = createRequire(import.meta.url);
  const { include_dir: nodeApi } = require('node-api-headers') as { readonly include_dir: string };
  const linker = (...words: string[]): string[] => words.flatMap((word) => ['-Xlinker', word]);
  return [
    ...['-std=c++17', '-O2', '-fPIC', '-shared', `-DNAPI_VERSION=${napiVersion}`, '-o', output],
    ...[nodeApi, tensorflow.include, directory].flatMap((include) => ['-I', include]),
    ...['tfjs_backend.cc', 'tfjs_binding.cc'].map((source) => path.join(directory, 'binding', source)),
    tensorflow.libtensorflow,
    tensorflow.framework,
    // RPATH rather than RUNPATH, so that another libtensorflow in LD_LIBRARY_PATH does not take precedence.
    ...linker('--disable-new-dtags', '-rpath', tensorflow.directory),
    // A function that this TensorFlow lacks shall fail the load, which is checked, not some later call.
    ...linker('-z', 'now'),
  ];
}

function refusal(expected: string, received: string, remedy: string, cause?: unknown): BackendError {
  return new BackendError(
    { where: 'link-tensorflow', input: 'compiler', expected, received, remedy },
    { cause },
  );
}
