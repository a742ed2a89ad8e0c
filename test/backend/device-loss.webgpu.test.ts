/** The loss of the webgpu device: a typed error, and a remedy that works. Its other faults are in faults.webgpu. */

import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { initBackend, maskedMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const input = (): tf.Tensor => deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });

test('a lost device is named as such, and initBackend() brings a new one', async () => {
  const x = input();
  expect((await maskedMoments(x)).mean).toBe(3.5);
  (tf.backend() as unknown as { device: { destroy(): void } }).device.destroy();

  const failure: unknown = await maskedMoments(x).then(undefined, (reason: unknown) => reason);
  expect(failure).toBeInstanceOf(BackendError);
  expect((failure as BackendError).received).toMatch(/lost/);
  expect((failure as BackendError).remedy).toMatch(/initBackend/);

  await initBackend('webgpu');
  const again = input();
  expect((await maskedMoments(again)).mean).toBe(3.5);
  again.dispose();
});
