/** What compact masks refuse on every backend, when they are made and when they are used: each by its name. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import {
  BackendError,
  DisposedTensorError,
  DtypeError,
  MissingInputError,
  ReleasedError,
  ShapeError,
} from '../../src/errors.js';
import { channelTables, compactMask, maskedMoments, momentsTables } from '../../src/kernels/index.js';
import { rowWindow } from '../../src/kernels/moments/pass.js';
import { elsewhere, testBackend } from '../support/backend.js';
import { deviceTensor, hostTensor } from '../support/tensors.js';

await testBackend();

test.each([
  ['nothing', undefined, MissingInputError],
  ['a plain array', [1, 0], DtypeError],
  ['text', tf.tensor(['a']), DtypeError],
  ['a scalar', tf.scalar(1), ShapeError],
  ['rank 5', tf.ones([1, 1, 1, 1, 2]), ShapeError],
] as const)('%s', (_name, mask, error) => {
  expect(() => compactMask(mask as unknown as tf.Tensor)).toThrow(error);
  expect(() => compactMask(mask as unknown as tf.Tensor)).toThrow(/compactMask: mask/);
});

test('a disposed tensor', () => {
  const tensor = deviceTensor({ shape: [3], dtype: 'bool', values: [1, 1, 1] });
  tensor.dispose();
  expect(() => compactMask(tensor)).toThrow(DisposedTensorError);
});

test('a mask of another shape, by its name', async () => {
  const x = deviceTensor({ shape: [2, 2050], values: new Float32Array(4100) });
  const tensor = deviceTensor({ shape: [4100], dtype: 'bool', values: new Uint8Array(4100).fill(1) });
  const mask = compactMask(tensor);
  await expect(momentsTables({ x }, mask)).rejects.toThrow(ShapeError);
  await expect(momentsTables({ x }, mask)).rejects.toThrow(/mask: .*\[2, 2050\].*got \[4100\]/);
  await expect(channelTables({ x: { of: 'x', mask: 'm' } }, { x }, { m: mask })).rejects.toThrow(ShapeError);
  mask.release();
  tf.dispose([x, tensor]);
});

test('a released mask, by its name', async () => {
  const x = deviceTensor({ shape: [3], values: [1, 2, 3] });
  const mask = compactMask(x);
  mask.release();
  await expect(maskedMoments(x, mask)).rejects.toThrow(ReleasedError);
  const named = channelTables({ x: { of: 'x', mask: 'some' } }, { x }, { some: mask });
  await expect(named).rejects.toThrow(/some: expected a mask that is still held/);
  expect(() => rowWindow(mask)).toThrow(ReleasedError);
  x.dispose();
});

test('a mask on another backend than the values', async () => {
  const x = deviceTensor({ shape: [3], values: [1, 2, 3] });
  const stranger = await elsewhere(() => compactMask(hostTensor({ shape: [3], values: [1, 0, 1] })));
  await expect(maskedMoments(x, stranger)).rejects.toThrow(BackendError);
  await expect(maskedMoments(x, stranger)).rejects.toThrow(/mask: expected a tensor on the backend/);
  stranger.release();
  x.dispose();
});
