/** A backend that was taken out of tfjs' registry: `initBackend` brings it back, and it computes. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { compactMask, initBackend, logitsStatistics, maskedMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';

const name = await testBackend();

async function expectRuns(): Promise<void> {
  expect(tf.getBackend()).toBe(name);
  const x = tf.tensor1d([1, 2, 4]);
  const mask = compactMask(tf.tensor1d([1, 0, 1], 'bool'));
  expect((await maskedMoments(x, mask)).sum).toBe(5);
  expect((await maskedMoments(tf.add(x, 1))).sum).toBe(10);
  const { logProbs } = logitsStatistics(tf.tensor2d([[0, 0]]), tf.tensor1d([1], 'int32'));
  expect((await logProbs.data())[0]).toBeCloseTo(-Math.LN2, 5);
  mask.release();
}

test('comes back by name, as often as it is removed', async () => {
  await expectRuns();
  for (let times = 0; times < 2; times++) {
    tf.removeBackend(name);
    expect((await initBackend(name)).backend).toBe(name);
    await expectRuns();
  }
});

test('comes back for auto where nothing else is active, if it is what auto would choose', async () => {
  tf.removeBackend(name);
  const { backend } = await initBackend();
  expect(tf.getBackend()).toBe(backend);
  expect((await maskedMoments(tf.tensor1d([1, 2, 4]))).sum).toBe(7);
  await initBackend(name);
  await expectRuns();
});

test('comes back where it was removed while another was active', async () => {
  await initBackend(name === 'cpu' ? 'wasm' : 'cpu');
  tf.removeBackend(name);
  await initBackend(name);
  await expectRuns();
});
