/** Bad input to `logitsStatistics` on every backend: a typed error that names the input, and nothing left behind. */

import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import type { TensortallyError } from '../../src/errors.js';
import {
  BackendError,
  DisposedTensorError,
  DtypeError,
  MissingInputError,
  ShapeError,
  ValueError,
} from '../../src/errors.js';
import { logitsStatistics } from '../../src/kernels/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { numbersOf } from '../support/logits-cases.js';
import { deviceTensor, hostTensor } from '../support/tensors.js';

const backend = await testBackend();

/** Calls that TypeScript would refuse, too. */
const untyped = logitsStatistics as unknown as (...args: readonly unknown[]) => Record<string, tf.Tensor>;

function zeros(...shape: number[]): tf.Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return hostTensor({ shape, values: new Float32Array(size) });
}

function labels(shape: number[], ...values: number[]): tf.Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return hostTensor({ shape, values: values.length > 0 ? values : new Int32Array(size), dtype: 'int32' });
}

function disposed(x: tf.Tensor): tf.Tensor {
  x.dispose();
  return x;
}

function failureOf(body: () => unknown): unknown {
  try {
    body();
  } catch (error) {
    return error;
  }
  return undefined;
}

interface Refusal {
  readonly name: string;
  readonly args: () => readonly unknown[];
  readonly error: new (...args: never[]) => TensortallyError;
  /** What the message must say. */
  readonly says: RegExp;
}

const SHAPE: Refusal[] = [
  {
    name: 'scalar logits',
    args: () => [zeros(), labels([])],
    error: ShapeError,
    says: /logits.*rank 1 to 4/,
  },
  {
    name: 'rank 5',
    args: () => [zeros(1, 1, 1, 1, 2), labels([1, 1, 1, 1])],
    error: ShapeError,
    says: /logits.*rank/,
  },
  {
    name: 'no vocabulary',
    args: () => [zeros(3, 0), labels([3])],
    error: ShapeError,
    says: /at least one column.*\[3, 0\]/,
  },
  {
    name: 'neither rows nor vocabulary',
    args: () => [zeros(0, 0), labels([0])],
    error: ShapeError,
    says: /column/,
  },
  {
    name: 'fewer labels',
    args: () => [zeros(3, 5), labels([2])],
    error: ShapeError,
    says: /labels.*\[3\].*\[2\]/,
  },
  {
    name: 'labels with an axis of 1',
    args: () => [zeros(3, 5), labels([3, 1])],
    error: ShapeError,
    says: /labels.*\[3\].*\[3, 1\]/,
  },
  {
    name: 'as many labels in another shape',
    args: () => [zeros(2, 3, 5), labels([3, 2])],
    error: ShapeError,
    says: /labels/,
  },
  {
    name: 'labels like logits',
    args: () => [zeros(3, 5), labels([3, 5])],
    error: ShapeError,
    says: /labels/,
  },
];

const DTYPE: Refusal[] = [
  {
    name: 'int32 logits',
    args: () => [labels([3, 5]), labels([3])],
    error: DtypeError,
    says: /logits.*float32.*int32/,
  },
  {
    name: 'bool logits',
    args: () => [hostTensor({ shape: [1, 1], values: [1], dtype: 'bool' }), labels([1])],
    error: DtypeError,
    says: /logits.*bool/,
  },
  {
    name: 'bool labels',
    args: () => [zeros(1, 2), hostTensor({ shape: [1], values: [1], dtype: 'bool' })],
    error: DtypeError,
    says: /labels.*bool/,
  },
  {
    name: 'string labels',
    args: () => [zeros(1, 2), tf.tensor(['a'])],
    error: DtypeError,
    says: /labels.*string/,
  },
  { name: 'an array of labels', args: () => [zeros(1, 2), [1]], error: DtypeError, says: /labels.*array/ },
  {
    name: 'an array of logits',
    args: () => [[[1, 2]], labels([1])],
    error: DtypeError,
    says: /logits.*array/,
  },
];

const MISSING: Refusal[] = [
  { name: 'no logits', args: () => [undefined, labels([1])], error: MissingInputError, says: /logits/ },
  { name: 'no labels', args: () => [zeros(1, 2)], error: MissingInputError, says: /labels/ },
  { name: 'null labels', args: () => [zeros(1, 2), null], error: MissingInputError, says: /labels/ },
  {
    name: 'disposed logits',
    args: () => [disposed(zeros(1, 2)), labels([1])],
    error: DisposedTensorError,
    says: /logits.*disposed/,
  },
  {
    name: 'disposed labels',
    args: () => [zeros(1, 2), disposed(labels([1]))],
    error: DisposedTensorError,
    says: /labels.*disposed/,
  },
];

const OPTION: Refusal[] = [
  ...['toString', 'constructor', '__proto__', 'hasOwnProperty', 'temprature'].map((name) => ({
    name: `an option called ${name}`,
    args: (): [tf.Tensor, tf.Tensor, object] => [
      zeros(1, 5),
      hostTensor({ shape: [1], dtype: 'int32', values: [0] }),
      JSON.parse(`{ "${name}": 0.1 }`) as object,
    ],
    error: ValueError,
    says:
      name === 'temprature'
        ? /options.temprature.*did you mean temperature/
        : new RegExp(`options.${name}.*temperature`),
  })),
  ...[0, -1, NaN, Infinity, 1e-31, 1e31, '1', null].map((temperature) => ({
    name: `temperature ${String(temperature)}`,
    args: () => [zeros(1, 2), labels([1]), { temperature }],
    error: ValueError,
    says: /options\.temperature.*1e-30/,
  })),
  ...[null, 0.7, 'cold', [1]].map((options) => ({
    name: `options ${JSON.stringify(options)}`,
    args: () => [zeros(1, 2), labels([1]), options],
    error: ValueError,
    says: /options.*temperature: 0\.7/,
  })),
];

const LABEL: Refusal[] = [
  {
    name: 'the size of the vocabulary',
    args: () => [zeros(3, 5), labels([3], 0, 5, 4)],
    error: ValueError,
    says: /labels.*0 to 4.*got 5 at \[1\];/,
  },
  {
    name: 'negative',
    args: () => [zeros(2, 2, 5), labels([2, 2], 0, 1, -100, -100)],
    error: ValueError,
    says: /-100 at \[1, 0\] \(2 such labels\).*mask/,
  },
  {
    name: 'a fraction',
    args: () => [zeros(1, 5), hostTensor({ shape: [1], values: [1.5] })],
    error: ValueError,
    says: /got 1\.5/,
  },
  {
    name: 'NaN',
    args: () => [zeros(1, 5), hostTensor({ shape: [1], values: [NaN] })],
    error: ValueError,
    says: /got NaN/,
  },
  {
    name: 'infinite',
    args: () => [zeros(1, 5), hostTensor({ shape: [1], values: [Infinity] })],
    error: ValueError,
    says: /got Infinity/,
  },
  {
    name: 'for a single row',
    args: () => [zeros(5), labels([], 7)],
    error: ValueError,
    says: /got 7 at \[\]/,
  },
];

describe.each([
  ['shapes', SHAPE],
  ['dtypes', DTYPE],
  ['missing inputs', MISSING],
  ['options', OPTION],
  ['labels that the host knows', LABEL],
])('refuses %s', (_topic, refusals) => {
  test.each(refusals)('$name', async ({ args, error, says }) => {
    await expectNoLeaks(() => {
      const given = args();
      const failure = failureOf(() => untyped(...given));
      expect(failure).toBeInstanceOf(error);
      const refusal = failure as TensortallyError;
      expect(refusal.where).toBe('logitsStatistics');
      expect(refusal.message).toMatch(says);
      expect(refusal.remedy).not.toBe('');
      for (const arg of given) if (arg instanceof tf.Tensor) arg.dispose();
      return Promise.resolve();
    });
  });
});

describe('labels that only a device has', () => {
  const cases = [
    { dtype: 'int32', values: [1, 5, -1, 2, 2 ** 31 - 1, -(2 ** 31)], bad: [1, 2, 4, 5] },
    { dtype: 'float32', values: [1, 5, -1, 2, 1.5, NaN, Infinity, 1e20, 4], bad: [1, 2, 4, 5, 6, 7] },
  ] as const;

  test.each(cases)(
    '$dtype: refused, or NaN in the log-probability of their rows alone',
    async ({ dtype, values, bad }) => {
      const logits = deviceTensor({ shape: [values.length, 5], values: new Float32Array(5 * values.length) });
      const names = deviceTensor({ shape: [values.length], values, dtype });
      await expectNoLeaks(async () => {
        // A GPU is not waited for; the memory of all other backends is the host's.
        if (!hasDevice()) {
          expect(failureOf(() => untyped(logits, names))).toBeInstanceOf(ValueError);
          return;
        }
        const { logProbs, entropy, sumPiSquared, maxProb } = await numbersOf(
          { ...logitsStatistics(logits, names) },
          [values.length],
        );
        const isBad = (i: number): boolean => (bad as readonly number[]).includes(i);
        expect([...logProbs].map(Number.isNaN)).toEqual(values.map((_, i) => isBad(i)));
        for (const numbers of [entropy, sumPiSquared, maxProb])
          expect(numbers.some(Number.isNaN)).toBe(false);
      });
      tf.dispose([logits, names]);
    },
  );
});

test('refuses tensors of two backends, naming both', async () => {
  const otherName = backend === 'cpu' ? 'wasm' : 'cpu';
  await import(`@tensorflow/tfjs-backend-${otherName}`);
  const here = deviceTensor({ shape: [1, 3], values: [1, 2, 3] });
  await tf.setBackend(otherName);
  const there = labels([1], 2);
  await tf.setBackend(backend);
  const failure = failureOf(() => untyped(here, there));
  expect(failure).toBeInstanceOf(BackendError);
  expect((failure as Error).message).toMatch(new RegExp(`labels.*"${backend}".*"${otherName}"`));
  expect(tf.getBackend()).toBe(backend);
  tf.dispose([here, there]);
});
