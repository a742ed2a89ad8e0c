/**
 * Bad input to `maskedMoments` on every backend: a typed error that names the input, by rejection, leaving nothing.
 */

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
import { collect, maskedMoments, momentsTables } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { failureOf } from '../support/failures.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor, hostTensor } from '../support/tensors.js';

const backend = await testBackend();

/** Calls that TypeScript would refuse, too. */
const untyped = maskedMoments as unknown as (...args: readonly unknown[]) => PromiseLike<unknown>;

function ones(...shape: number[]): tf.Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return hostTensor({ shape, values: new Float32Array(size).fill(1) });
}

interface Refusal {
  readonly name: string;
  readonly args: () => readonly unknown[];
  readonly error: new (...args: never[]) => TensortallyError;
  /** What the message must say. */
  readonly says: RegExp;
}

const disposed = (): tf.Tensor => {
  const x = ones(2, 3);
  x.dispose();
  return x;
};

const SHAPE: Refusal[] = [
  { name: 'rank 0 values', args: () => [ones()], error: ShapeError, says: /values.*rank/ },
  { name: 'rank 5 values', args: () => [ones(1, 1, 1, 1, 2)], error: ShapeError, says: /values.*rank/ },
  {
    name: 'a mask of another length',
    args: () => [ones(4, 16), ones(4, 8)],
    error: ShapeError,
    says: /mask.*\[4, 16\].*\[4, 8\]/,
  },
  {
    name: 'a mask of another rank with as many elements',
    args: () => [ones(4, 16), ones(64)],
    error: ShapeError,
    says: /mask/,
  },
  { name: 'a transposed mask', args: () => [ones(4, 16), ones(16, 4)], error: ShapeError, says: /mask/ },
  {
    name: 'values of different shapes under one mask',
    args: () => [{ a: ones(2, 3), b: ones(3, 2) }, ones(2, 3)],
    error: ShapeError,
    says: /\bb\b/,
  },
];

const DTYPE: Refusal[] = [
  { name: 'string values', args: () => [tf.tensor(['a', 'b'])], error: DtypeError, says: /values.*string/ },
  {
    name: 'a string mask',
    args: () => [ones(2), tf.tensor(['a', 'b'])],
    error: DtypeError,
    says: /mask.*string/,
  },
  { name: 'a plain array', args: () => [[1, 2, 3]], error: DtypeError, says: /values.*array/ },
  { name: 'a typed array', args: () => [new Float32Array(3)], error: DtypeError, says: /values/ },
  { name: 'a number', args: () => [3], error: DtypeError, says: /values/ },
  { name: 'a plain array as mask', args: () => [ones(3), [1, 0, 1]], error: DtypeError, says: /mask.*array/ },
  {
    name: 'a plain array among tensors',
    args: () => [{ a: ones(3), b: [1, 2, 3] }],
    error: DtypeError,
    says: /\bb\b.*array/,
  },
];

const MISSING: Refusal[] = [
  { name: 'undefined values', args: () => [undefined], error: MissingInputError, says: /values/ },
  { name: 'null values', args: () => [null], error: MissingInputError, says: /values/ },
  { name: 'no values at all', args: () => [{}], error: MissingInputError, says: /values/ },
  {
    name: 'an undefined value among tensors',
    args: () => [{ a: ones(3), b: undefined }],
    error: MissingInputError,
    says: /\bb\b/,
  },
  { name: 'a null mask', args: () => [ones(3), null], error: MissingInputError, says: /mask/ },
  { name: 'disposed values', args: () => [disposed()], error: DisposedTensorError, says: /values.*disposed/ },
  {
    name: 'a disposed mask',
    args: () => [ones(2, 3), disposed()],
    error: DisposedTensorError,
    says: /mask.*disposed/,
  },
  {
    name: 'a disposed value among live ones',
    args: () => [{ a: ones(2, 3), b: disposed() }],
    error: DisposedTensorError,
    says: /\bb\b.*disposed/,
  },
];

const OPTION: Refusal[] = [
  { name: 'axis 0', args: () => [ones(2, 3), undefined, { axis: 0 }], error: ValueError, says: /axis.*-1/ },
  { name: 'axis 1', args: () => [ones(2, 3), undefined, { axis: 1 }], error: ValueError, says: /axis/ },
  {
    name: 'an unknown policy for non-finite values',
    args: () => [ones(2, 3), undefined, { nonFinite: 'drop' }],
    error: ValueError,
    says: /nonFinite.*propagate.*ignore.*drop/,
  },
  ...[null, 5, 'rows', [-1]].map((options) => ({
    name: `options that are ${JSON.stringify(options)}`,
    args: () => [ones(2, 3), undefined, options],
    error: ValueError,
    says: /options: expected an object with axis, nonFinite/,
  })),
];

/** Disposes every tensor among arguments, nested or not. */
function disposeAll(args: readonly unknown[]): void {
  for (const arg of args) tf.dispose(arg as tf.TensorContainer);
}

describe.each([
  ['shapes', SHAPE],
  ['dtypes', DTYPE],
  ['missing inputs', MISSING],
  ['options', OPTION],
])('refuses %s', (_topic, refusals) => {
  test.each(refusals)('$name', async ({ args, error, says }) => {
    await expectNoLeaks(async () => {
      const given = args();
      // A rejection, not a throw: one way to fail, whatever is wrong.
      const failure = await failureOf(untyped(...given));
      expect(failure).toBeInstanceOf(error);
      const refusal = failure as TensortallyError;
      expect(refusal.where).toBe('maskedMoments');
      expect(refusal.message).toMatch(says);
      expect(refusal.remedy).not.toBe('');
      disposeAll(given);
    });
  });
});

test('refuses complex values', async () => {
  if (!tf.getKernelsForBackend(backend).some(({ kernelName }) => kernelName === 'Complex')) {
    // This backend has no complex tensors to refuse.
    expect(backend).toBe('wasm');
    return;
  }
  const [re, im] = [ones(2), ones(2)];
  const z = tf.complex(re, im);
  await expect(untyped(z)).rejects.toThrow(DtypeError);
  await expect(untyped(re, z)).rejects.toThrow(/mask.*complex64/);
  tf.dispose([re, im, z]);
});

describe('tensors of two backends', () => {
  test('are refused, naming both', async () => {
    const otherName = backend === 'cpu' ? 'wasm' : 'cpu';
    await import(`@tensorflow/tfjs-backend-${otherName}`);
    const here = deviceTensor({ shape: [3], values: [1, 2, 3] });
    await tf.setBackend(otherName);
    const there = hostTensor({ shape: [3], values: [1, 0, 1], dtype: 'bool' });
    await tf.setBackend(backend);

    const failure = await untyped(here, there).then(undefined, (reason: unknown) => reason);
    expect(failure).toBeInstanceOf(BackendError);
    expect((failure as Error).message).toMatch(new RegExp(`mask.*"${backend}".*"${otherName}"`));
    expect(tf.getBackend()).toBe(backend);
    here.dispose();
    there.dispose();
  });

  test('a statistic runs where its inputs are, whatever backend is active', async () => {
    const otherName = backend === 'cpu' ? 'wasm' : 'cpu';
    await import(`@tensorflow/tfjs-backend-${otherName}`);
    const x = deviceTensor({ shape: [3], values: [1, 2, 6] });
    await tf.setBackend(otherName);
    const pending = maskedMoments(x);
    expect(tf.getBackend()).toBe(otherName);
    const { mean } = await pending;
    await tf.setBackend(backend);
    expect(mean).toBe(3);
    x.dispose();
  });
});

test('a refusal inside collect() refuses the whole and frees the rest', async () => {
  const x = deviceTensor({ shape: [2, 3], values: new Float32Array(6) });
  const short = ones(2, 2);
  await expectNoLeaks(async () => {
    await expect(collect(maskedMoments(x), maskedMoments(x, short))).rejects.toThrow(ShapeError);
  });
  tf.dispose([x, short]);
});

test('momentsTables refuses as maskedMoments does', async () => {
  const x = ones(2, 3);
  const short = ones(2, 2);
  await expect(momentsTables({ x }, short)).rejects.toThrow(ShapeError);
  const anything = momentsTables as unknown as typeof untyped;
  await expect(anything({ x }, undefined, null)).rejects.toThrow(/options/);
  for (const values of [x, null, undefined, 5, [x], 'x']) {
    await expect(anything(values)).rejects.toThrow(/values: expected a record of tensors/);
  }
  tf.dispose([x, short]);
});
