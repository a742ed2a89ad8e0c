/**
 * A process may hold two copies of tfjs-core, e.g. one of the trainer and one of this package. They share one engine,
 * so tensors of either copy are the same to the kernels.
 */

import { createRequire } from 'node:module';

import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { ShapeError } from '../../src/errors.js';
import { collect, maskedMoments, retainTensor } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';

const backend = await testBackend();

/** A second, freshly evaluated copy of the package. */
function secondCopy(): typeof tf {
  const load = createRequire(import.meta.url);
  const entry = load.resolve('@tensorflow/tfjs-core');
  const first = load.cache[entry];
  Reflect.deleteProperty(load.cache, entry);
  const copy = load(entry) as typeof tf;
  if (first !== undefined) load.cache[entry] = first;
  return copy;
}

const other = secondCopy();

test('the second copy is another module on the same engine', () => {
  expect(other.Tensor).not.toBe(tf.Tensor);
  expect(other.engine()).toBe(tf.engine());
  expect(other.getBackend()).toBe(backend);
});

test('tensors of the other copy are reduced like our own', async () => {
  await expectNoLeaks(async () => {
    const values = other.tensor2d([1, 2, 3, 100], [2, 2]);
    const mask = tf.tensor2d([1, 1, 1, 0], [2, 2], 'bool');
    const plusOne = other.add(values, 1);
    const [all, rows] = await collect(
      maskedMoments(values, mask),
      maskedMoments(plusOne, mask, { axis: -1 }),
    );
    expect(all.mean).toBe(2);
    expect(Array.from(rows.count)).toEqual([2, 1]);
    expect(Array.from(rows.max)).toEqual([3, 4]);
    tf.dispose([values, mask, plusOne]);
  });
});

test('refusals and retained tensors work across copies', async () => {
  const values = other.tensor1d([1, 2, 3]);
  const mask = other.tensor1d([1, 0], 'bool');
  await expect(maskedMoments(values, mask)).rejects.toThrow(ShapeError);
  const retained = retainTensor(values);
  tf.dispose([values, mask]);
  expect((await maskedMoments(retained.tensor)).mean).toBe(2);
  retained.release();
});
