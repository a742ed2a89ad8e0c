/** What `maskedHistograms` refuses on every backend: by rejection, with a typed error that names the input. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  BackendError,
  DisposedTensorError,
  DtypeError,
  MissingInputError,
  ReleasedError,
  ShapeError,
  type TensortallyError,
  ValueError,
} from '../../src/errors.js';
import { Histogram, collect, compactMask, maskedHistograms } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { failureOf } from '../support/failures.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor, hostTensor } from '../support/tensors.js';

const backend = await testBackend();

/** Calls that TypeScript would refuse, too. */
const untyped = maskedHistograms as unknown as (...args: readonly unknown[]) => PromiseLike<unknown>;

const ones = (...shape: number[]): tf.Tensor =>
  hostTensor({ shape, values: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(1) });

const disposed = (): tf.Tensor => {
  const x = ones(2, 3);
  x.dispose();
  return x;
};

const released = () => {
  const x = ones(2, 3);
  const mask = compactMask(x);
  mask.release();
  x.dispose();
  return mask;
};

const CASES: readonly {
  readonly name: string;
  readonly args: () => readonly unknown[];
  readonly error: new (...args: never[]) => TensortallyError;
  readonly says: RegExp;
}[] = [
  ...[undefined, null, 5, 'x', [1], () => 1].map((values) => ({
    name: `values that are ${String(values)}`,
    args: () => [values],
    error: ValueError,
    says: /values: expected a record of tensors/,
  })),
  { name: 'no tensors', args: () => [{}], error: MissingInputError, says: /values/ },
  { name: 'an undefined tensor', args: () => [{ b: undefined }], error: MissingInputError, says: /\bb\b/ },
  { name: 'a null mask', args: () => [{ a: ones(3) }, null], error: MissingInputError, says: /mask/ },
  { name: 'a plain array', args: () => [{ a: [1, 2] }], error: DtypeError, says: /\ba\b.*array/ },
  { name: 'text', args: () => [{ a: tf.tensor(['x']) }], error: DtypeError, says: /\ba\b.*string/ },
  { name: 'an array as mask', args: () => [{ a: ones(2) }, [1, 0]], error: DtypeError, says: /mask/ },
  { name: 'a disposed tensor', args: () => [{ a: disposed() }], error: DisposedTensorError, says: /\ba\b/ },
  {
    name: 'a disposed mask',
    args: () => [{ a: ones(2, 3) }, disposed()],
    error: DisposedTensorError,
    says: /mask/,
  },
  {
    name: 'a released mask',
    args: () => [{ a: ones(2, 3) }, released()],
    error: ReleasedError,
    says: /mask/,
  },
  { name: 'rank 0', args: () => [{ a: ones() }], error: ShapeError, says: /\ba\b.*rank/ },
  { name: 'rank 5', args: () => [{ a: ones(1, 1, 1, 1, 2) }], error: ShapeError, says: /\ba\b.*rank/ },
  {
    name: 'tensors of two shapes',
    args: () => [{ a: ones(2, 3), b: ones(3, 2) }],
    error: ShapeError,
    says: /\bb\b.*\[2, 3\].*\[3, 2\]/,
  },
  {
    name: 'a mask of another shape',
    args: () => [{ a: ones(2, 3) }, ones(6)],
    error: ShapeError,
    says: /mask/,
  },
];

test.each(CASES)('refuses $name', async ({ args, error, says }) => {
  await expectNoLeaks(async () => {
    const given = args();
    // A rejection, not a throw: one way to fail, whatever is wrong.
    const failure = await failureOf(untyped(...given));
    expect(failure).toBeInstanceOf(error);
    expect((failure as TensortallyError).where).toBe('maskedHistograms');
    expect((failure as Error).message).toMatch(says);
    tf.dispose(given.filter((arg) => typeof arg === 'object') as tf.TensorContainer);
  });
});

test('nothing is an empty histogram, not an error', async () => {
  await expectNoLeaks(async () => {
    const [x, mask] = [ones(0, 5), ones(0, 5)];
    const [{ a }, { b }] = await collect(maskedHistograms({ a: x }, mask), maskedHistograms({ b: x }));
    for (const histogram of [a, b]) expect(histogram.toJSON()).toEqual(Histogram.empty.toJSON());
    tf.dispose([x, mask]);
  });
});

describe('tensors of two backends', () => {
  test('are refused, naming both; a histogram runs where its inputs are', async () => {
    const other = backend === 'cpu' ? 'wasm' : 'cpu';
    await import(`@tensorflow/tfjs-backend-${other}`);
    const here = deviceTensor({ shape: [3], values: [1, 2, 2] });
    await tf.setBackend(other);
    const there = hostTensor({ shape: [3], values: [1, 0, 1], dtype: 'bool' });
    const pending = maskedHistograms({ here });
    await tf.setBackend(backend);
    const failure = await untyped({ here }, there).then(undefined, (reason: unknown) => reason);
    expect(failure).toBeInstanceOf(BackendError);
    expect((failure as Error).message).toMatch(new RegExp(`mask.*"${backend}".*"${other}"`));
    expect((await pending).here.quantile(0.5)).toBe(2);
    tf.dispose([here, there]);
  });
});
