/** Device memory of our own, which tfjs' leak checks do not see: what a call takes, the next one takes again. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test, vi } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { channelMoments, expression as e, maskedMoments, momentsTables } from '../../src/kernels/index.js';
import { passTables } from '../../src/kernels/moments/pass.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const { device } = tf.backend() as unknown as { device: { createBuffer: (descriptor: unknown) => unknown } };

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

test('equal windows at other places of a tensor are other bindings', async () => {
  const x = deviceTensor({ shape: [4, 64], values: Array.from({ length: 256 }, (_, i) => i) });
  // As large, read by the same shader with the same uniforms: only where the binding begins tells them apart.
  const sumFrom = async (offset: number): Promise<number> => {
    const { sum } = await passTables({
      where: 'test',
      rows: 1,
      cols: 64,
      inputs: { x: { tensor: x, stride: 64, offset, step: 1 } },
      channels: { sum: e.input('x') },
    });
    return sum.total().sum;
  };
  const sums = [await sumFrom(0), await sumFrom(64), await sumFrom(192), await sumFrom(64)];
  expect(sums).toEqual([0, 64, 192, 64].map((offset) => 64 * offset + (64 * 63) / 2));
  x.dispose();
});

test('a buffer that could not be made is not lent to the next call', async () => {
  // Records of a size that nothing else here asks for.
  const rows = 5000;
  const x = deviceTensor({ shape: [rows, 1], values: Array.from({ length: rows }, (_, i) => i) });
  const launch = () => momentsTables({ x }, undefined, { axis: -1 });
  const { createBuffer } = device;
  const broken = vi
    .spyOn(device, 'createBuffer')
    .mockImplementation((descriptor) => createBuffer.call(device, { ...(descriptor as object), usage: 0 }));
  const pending = launch();
  broken.mockRestore();
  await expect(pending).rejects.toThrow(BackendError);
  expect((await launch()).x.total().sum).toBe((rows * (rows - 1)) / 2);
  x.dispose();
});
