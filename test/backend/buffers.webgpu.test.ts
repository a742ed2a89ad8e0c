/** Device memory of our own, which tfjs' leak checks do not see: what a call takes, the next one takes again. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test, vi } from 'vitest';

import { channelMoments, expression as e, maskedMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const { device } = tf.backend() as unknown as { device: { createBuffer(descriptor: unknown): unknown } };

/** Buffers that are made while `body` runs. */
async function buffersMade(body: () => Promise<unknown>): Promise<number> {
  const made = vi.spyOn(device, 'createBuffer');
  try {
    await body();
    return made.mock.calls.length;
  } finally {
    made.mockRestore();
  }
}

test('calls that repeat make no buffers', async () => {
  const x = deviceTensor({ shape: [40, 30], values: Array.from({ length: 1200 }, (_, i) => i % 7) });
  const mask = deviceTensor({ shape: [40, 30], values: Array.from({ length: 1200 }, (_, i) => i % 3) });
  const calls = [
    () => maskedMoments(x, mask).then(),
    () => maskedMoments({ a: x, b: mask }, mask, { axis: -1 }).then(),
    () => channelMoments({ y: e.exp(e.negate('x')) }, { x }, mask).then(),
    () => {
      maskedMoments(x, mask).release();
      return Promise.resolve();
    },
  ];
  for (const call of calls) {
    await call();
    await call();
    const made = await buffersMade(async () => {
      for (let i = 0; i < 8; i++) await call();
    });
    expect(made, String(call)).toBe(0);
  }
  tf.dispose([x, mask]);
});
