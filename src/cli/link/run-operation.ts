/**
 * Runs one real operation through a binding, in a fresh Node process: nothing else shows that the library loads, and a
 * crash in native code must not take the command down.
 */
import { BackendError } from '../../errors.js';
import { lastLine, lastWords, type RunCommand } from './run-command.js';

/** What the operation showed. */
export interface OperationOutcome {
  /** Of the libtensorflow that was loaded. */
  readonly tensorflowVersion: string;
  readonly usesGpu: boolean;
  /** Of 1.5 − 2 + 4. */
  readonly sum: number;
}

// CommonJS for `node -e`. With a binding as second argument the package loads that file instead of its own.
const program = `
const [directory, binding] = process.argv.slice(1);
const packageRequire = require('node:module').createRequire(directory + '/package.json');
const util = packageRequire('node:util'); // Node 23 removed what tfjs-node 4.22 calls
util.isNullOrUndefined ??= (value) => value === null || value === undefined;
util.isArray ??= Array.isArray;
if (binding) packageRequire('@mapbox/node-pre-gyp/lib/pre-binding').find = () => binding;
const tf = packageRequire(directory);
// The package ignores a backend that failed to start; its factory tells the reason.
const backend = tf.engine().findBackend('tensorflow') ?? tf.engine().findBackendFactory('tensorflow')();
const sum = tf.sum(tf.tensor1d([1.5, -2, 4])).dataSync()[0];
console.log(JSON.stringify({ tensorflowVersion: backend.binding.TF_Version, usesGpu: backend.isUsingGpuDevice, sum }));
`;

/**
 * @param directory of the node package
 * @param binding the file to load, by default the package's own
 * @throws BackendError if the binding does not load (a function that TensorFlow lacks is named), or if the sum is wrong
 */
export async function runOperation(
  run: RunCommand,
  directory: string,
  binding?: string,
): Promise<OperationOutcome> {
  const words = binding === undefined ? [directory] : [directory, binding];
  const { status, signal, stdout, stderr } = await run(process.execPath, ['-e', program, ...words], {
    cwd: directory,
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: process.env.TF_CPP_MIN_LOG_LEVEL ?? '2' },
  });
  if (status !== 0) {
    const symbol = /undefined symbol: (\S+)/.exec(stderr)?.[1];
    if (symbol !== undefined) {
      throw refusal(
        `a TensorFlow with the C function ${symbol}`,
        'one that lacks it',
        'use another TensorFlow (`pip install tensorflow==2.21.0`)',
        stderr,
      );
    }
    const reason = /^.*Error: .*$/m.exec(stderr)?.[0].trim() ?? lastWords(stderr);
    const end = signal ?? `exit status ${status}`;
    throw refusal(
      'an operation to run through the binding',
      `${end}${reason === '' ? '' : ` (${reason})`}`,
      'see all that the process said with --verbose; try another TensorFlow (`pip install tensorflow==2.21.0`)',
      stderr,
    );
  }
  const outcome = JSON.parse(lastLine(stdout)) as OperationOutcome;
  if (outcome.sum !== 3.5) {
    throw refusal(
      '1.5 − 2 + 4 = 3.5',
      String(outcome.sum),
      'do not use this TensorFlow: it computes wrong results',
      stderr,
    );
  }
  return outcome;
}

function refusal(expected: string, received: string, remedy: string, output: string): BackendError {
  return new BackendError(
    { where: 'link-tensorflow', input: 'check', expected, received, remedy },
    { cause: new Error(output) },
  );
}
