/** What `logitsStatistics` refuses, and in which words. */
import * as tf from '@tensorflow/tfjs-core';
import { assertOptions as assertKnownOptions } from '../../arguments.js';
import { DtypeError, ShapeError, ValueError } from '../../errors.js';
import { warn } from '../../warning.js';
import { assertNumericTensor } from '../residency.js';

/** The public function that all of these speak for. */
export const WHERE = 'logitsStatistics';

/** Temperatures that float32 kernels can divide by and multiply with, far beyond what anyone samples at. */
const TEMPERATURES = { lowest: 1e-30, highest: 1e30 } as const;

/**
 * Checks that logits and labels belong together.
 *
 * @throws MissingInputError, DtypeError, DisposedTensorError or ShapeError, naming the input
 */
export function assertTensors(logits: tf.Tensor, labels: tf.Tensor): void {
  assertNumericTensor(WHERE, 'logits', logits);
  assertNumericTensor(WHERE, 'labels', labels);
  if (logits.dtype !== 'float32') {
    throw new DtypeError({
      where: WHERE,
      input: 'logits',
      expected: 'a float32 tensor',
      received: `dtype ${logits.dtype}`,
      remedy: 'pass the unnormalised outputs of the model, or tf.cast(logits, "float32")',
    });
  }
  if (labels.dtype === 'bool') {
    throw new DtypeError({
      where: WHERE,
      input: 'labels',
      expected: 'an int32 tensor, or float32 with integers in it',
      received: 'dtype bool',
      remedy: 'pass the indices of the tokens, not a mask',
    });
  }
  assertShapes(logits.shape, labels.shape);
}

function assertShapes(logits: readonly number[], labels: readonly number[]): void {
  const refuse = (input: string, expected: string, shape: readonly number[], remedy: string): never => {
    throw new ShapeError({ where: WHERE, input, expected, received: `[${shape.join(', ')}]`, remedy });
  };
  if (logits.length < 1 || logits.length > 4) {
    refuse('logits', 'a tensor [..., V] of rank 1 to 4', logits, 'merge leading axes with tf.reshape');
  }
  if (logits.at(-1) === 0) {
    refuse('logits', 'at least one column', logits, 'pass logits over the vocabulary, its axis last');
  }
  const rows = logits.slice(0, -1);
  if (labels.length !== rows.length || labels.some((n, axis) => n !== rows[axis])) {
    refuse(
      'labels',
      `the shape of logits without its last axis, [${rows.join(', ')}]`,
      labels,
      'give one label for each row of logits; logits[..., t, :] predicts the token after t',
    );
  }
}

/** @throws ValueError for options that are no object or do not exist, and for a temperature that is no positive number in reach */
export function assertOptions(options: unknown): asserts options is { readonly temperature?: number } {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new ValueError({
      where: WHERE,
      input: 'options',
      expected: 'an object such as { temperature: 0.7 }, or nothing',
      received: Array.isArray(options) ? 'an array' : String(options),
      remedy: 'leave it out for temperature 1',
    });
  }
  assertKnownOptions<{ readonly temperature?: unknown }>(WHERE, options, { temperature: 'any' });
  const { temperature } = options as { readonly temperature?: unknown };
  if (temperature === undefined) return;
  const { lowest, highest } = TEMPERATURES;
  if (typeof temperature === 'number' && temperature >= lowest && temperature <= highest) return;
  throw new ValueError({
    where: WHERE,
    input: 'options.temperature',
    expected: `a number from ${lowest} to ${highest}`,
    received: typeof temperature === 'number' ? String(temperature) : typeof temperature,
    remedy: 'for the limit of temperature 0, the most likely token, use tf.argMax',
  });
}

let hasWarned = false;

/** Warns, once per process, that a gradient which is being recorded does not reach the logits. */
export function warnOfGradient(): void {
  // Present and unchanged in 4.x: how many gradient functions run, and those that keep tensors of no variable.
  const { state } = tf.engine() as unknown as { readonly state: { readonly gradientDepth: number } };
  if (hasWarned || !(state.gradientDepth > 0)) return;
  hasWarned = true;
  warn(
    'TENSORTALLY_NO_GRADIENT',
    'logitsStatistics was called while a gradient is recorded: its results carry none, so a loss made of them has gradient 0 or is refused by tf.grads; compute the loss with tf.logSoftmax, and call logitsStatistics outside for the metrics',
  );
}

/**
 * Checks labels that the host can see.
 *
 * @param shape of the labels, to say where the first bad one is
 * @throws ValueError unless every label is an integer from 0 to `cols` − 1
 */
export function assertLabels(labels: ArrayLike<number>, shape: readonly number[], cols: number): void {
  let first = -1;
  let bad = 0;
  for (let i = 0; i < labels.length; i++) {
    const label = labels[i]!;
    if (label >= 0 && label < cols && Number.isInteger(label)) continue;
    if (bad++ === 0) first = i;
  }
  if (bad === 0) return;
  throw new ValueError({
    where: WHERE,
    input: 'labels',
    expected: `integers from 0 to ${cols - 1}, columns of the logits`,
    received: `${labels[first]} at [${coordinates(first, shape).join(', ')}]${bad > 1 ? ` (${bad} such labels)` : ''}`,
    remedy: 'give ignored positions any column, such as 0, and leave their rows out with a mask',
  });
}

/** Index of each axis of the element at flat position `index`. */
function coordinates(index: number, shape: readonly number[]): number[] {
  const found: number[] = [];
  let rest = index;
  for (const n of shape.toReversed()) {
    found.unshift(rest % n);
    rest = Math.floor(rest / n);
  }
  return found;
}
