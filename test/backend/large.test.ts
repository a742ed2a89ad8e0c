/** Tensors that a backend may have to cut into parts: every row and every channel stays itself. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { constant, input } from '../../src/kernels/expression.js';
import { Moments, maskedMoments } from '../../src/kernels/index.js';
import { passTables } from '../../src/kernels/moments/pass.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
import { isLong } from '../support/long.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

/** Cheap numbers that differ from element to element and drift from row to row. */
const at = (i: number): number => Math.fround(Math.sin(i * 0.37) + i / 1e6);

test('rows of a tensor of three million elements, under a window of a wider mask', async () => {
  const [rows, cols, stride, offset] = [600, 5000, 5003, 2];
  const values = Float32Array.from({ length: rows * cols }, (_, i) => at(i));
  const wide = Uint8Array.from({ length: rows * stride }, (_, i) => ((i * 7919) % 10 < 7 ? 1 : 0));
  const chosen = Uint8Array.from(
    { length: rows * cols },
    (_, i) => wide[Math.floor(i / cols) * stride + offset + (i % cols)]!,
  );
  await expectNoLeaks(async () => {
    const x = deviceTensor({ shape: [rows, cols], values });
    const mask = deviceTensor({ shape: [rows, stride], dtype: 'bool', values: wide });
    const whole = deviceTensor({ shape: [rows, cols], dtype: 'bool', values: chosen });
    const windowed = passTables({
      where: 'test',
      rows,
      cols,
      inputs: { x },
      channels: { x: input('x'), n: constant(1) },
      mask: { tensor: mask, stride, offset, step: 1 },
    });
    const all = maskedMoments(x, whole);
    tf.dispose([x, mask, whole]);
    const reference = referenceMoments(values, chosen, rows, cols);
    const tables = await windowed;
    const finish = (table: Iterable<ConstructorParameters<typeof Moments>[0]>): Moments[] =>
      Array.from(table, (row) => new Moments(row));
    expectContract(finish(tables.x), finish(reference), 'per row');
    expect(Array.from(tables.n, ({ count }) => count)).toEqual(Array.from(reference, ({ count }) => count));
    expectContract(await all, new Moments(reference.total()), 'all');
  });
});

test('several long vectors, each under its own name', async () => {
  const length = (isLong ? 2 ** 21 : 2 ** 19) + 7;
  const scales = [1, -2, 3];
  await expectNoLeaks(async () => {
    const tensors = scales.map((scale) =>
      deviceTensor({ shape: [length], values: Float32Array.from({ length }, (_, i) => scale * at(i)) }),
    );
    const record = Object.fromEntries(tensors.map((x, k) => [`x${k}`, x]));
    const moments = await maskedMoments(record);
    tf.dispose(tensors);
    scales.forEach((scale, k) => {
      const values = Float32Array.from({ length }, (_, i) => scale * at(i));
      const reference = new Moments(referenceMoments(values, undefined, 1, length).row(0));
      expectContract(moments[`x${k}`]!, reference, `x${k}`);
    });
  });
});
