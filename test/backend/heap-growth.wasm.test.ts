/** The heap of the wasm backend, in which our kernels have their scratch: it may move, and nothing else is touched. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { exp, input, subtract } from '../../src/kernels/expression.js';
import { maskedMoments } from '../../src/kernels/index.js';
import { denseWindow, passTables } from '../../src/kernels/moments/pass.js';
import type { WasmBackend } from '../../src/kernels/simd/workspace.js';
import { testBackend } from '../support/backend.js';
import { fieldsOf } from '../support/contract.js';
import { normal, seeded } from '../support/random.js';

await testBackend();

const { wasm } = tf.backend() as unknown as WasmBackend;
const random = seeded(9);

test('tfjs still has the heap and the allocator that we use', () => {
  expect(wasm.asm.memory.buffer).toBeInstanceOf(ArrayBuffer);
  expect([wasm._malloc, wasm._free].map((f) => typeof f)).toEqual(['function', 'function']);
});

test('results are the same bits before and after the heap grew', async () => {
  const values = Float32Array.from({ length: 10_001 }, () => normal(random, 3, 2));
  const x = tf.tensor(values);
  const mask = tf.tensor(
    values.map((v) => Number(v > 2)),
    [values.length],
    'bool',
  );
  const before = fieldsOf(await maskedMoments(x, mask));
  const { buffer } = wasm.asm.memory;
  const large = tf.zeros([Math.ceil(buffer.byteLength / 4)]);
  expect(wasm.asm.memory.buffer, 'another buffer').not.toBe(buffer);
  expect(fieldsOf(await maskedMoments(x, mask))).toEqual(before);
  // A tensor behind the old end of the heap, at addresses that the module has never seen.
  const far = tf.add(x, 0);
  expect(fieldsOf(await maskedMoments(far, mask))).toEqual(before);
  tf.dispose([x, mask, large, far]);
});

test('tensors around the scratch keep every bit', async () => {
  const make = (k: number): tf.Tensor =>
    tf.tensor(
      Float32Array.from({ length: 3000 }, (_, i) => i + k / 8),
      [3, 1000],
    );
  const tensors = Array.from({ length: 40 }, (_, k) => make(k));
  const [a, b] = tensors as [tf.Tensor, tf.Tensor];
  // Enough channels for the scratch to be moved.
  const channels = Object.fromEntries(
    Array.from({ length: 60 }, (_, k) => [`c${k}`, exp(subtract(input('a'), subtract(input('b'), k)))]),
  );
  await passTables({
    where: 'test',
    rows: 3,
    cols: 1000,
    inputs: { a, b },
    channels,
    mask: denseWindow(b, 1000),
  });
  tensors.push(...Array.from({ length: 40 }, (_, k) => make(40 + k)));
  await maskedMoments(a, b);
  tensors.forEach((tensor, k) => {
    expect(tensor.dataSync(), `tensor ${k}`).toEqual(
      Float32Array.from({ length: 3000 }, (_, i) => i + k / 8),
    );
  });
  tf.dispose(tensors);
});

test('a second call allocates nothing', async () => {
  const x = tf.tensor(Float32Array.from({ length: 5000 }, () => normal(random)));
  await maskedMoments(x, x);
  const { _malloc: malloc } = wasm;
  const asked: number[] = [];
  wasm._malloc = (bytes) => {
    asked.push(bytes);
    return malloc(bytes);
  };
  try {
    await maskedMoments(x, x);
  } finally {
    wasm._malloc = malloc;
  }
  expect(asked).toEqual([]);
  x.dispose();
});
