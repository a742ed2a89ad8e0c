/** Calls of initBackend that overlap: one after the other, each with its own answer. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { initBackend } from '../../../src/kernels/index.js';

test('overlapping calls all succeed, and the last one decides', async () => {
  const reports = await Promise.all([initBackend('wasm'), initBackend('wasm'), initBackend('cpu')]);
  expect(reports.map(({ backend }) => backend)).toEqual(['wasm', 'wasm', 'cpu']);
  expect(tf.getBackend()).toBe('cpu');
});

test('a refusal does not hold up the next call', async () => {
  const refused = initBackend('cuda' as 'cpu');
  const next = initBackend('cpu');
  await expect(refused).rejects.toThrow(/cuda/);
  expect((await next).backend).toBe('cpu');
});
