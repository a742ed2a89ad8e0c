/** Channels of a pass on every backend: each expression is what its float64 meaning says. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { type Expression, constant, evaluate, input, subtract } from '../../src/kernels/expression.js';
import { Moments } from '../../src/kernels/index.js';
import { passTables } from '../../src/kernels/moments/pass.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

const backend = await testBackend();

const ROWS = 3;
const COLS = 70;
const SIZE = ROWS * COLS;
const random = seeded(11);
const numbers = {
  a: Float32Array.from({ length: SIZE }, () => normal(random, 5, 2)),
  b: Float32Array.from({ length: SIZE }, () => normal(random, -1, 3)),
  c: Float32Array.from({ length: SIZE }, () => normal(random, 0, 1)),
};
const chosen = Uint8Array.from({ length: SIZE }, () => (random() < 0.6 ? 1 : 0));

/** Expressions over the same three buffers, so that a shader or graph that is reused by mistake shows. */
const PASSES: readonly Readonly<Record<string, Expression>>[] = [
  { x: input('a'), y: input('b'), z: input('c') },
  { x: subtract(input('a'), input('b')), y: subtract(input('b'), input('a')), z: input('c') },
  { x: input('c'), y: subtract(subtract(input('a'), input('b')), input('c')), z: constant(1) },
  { x: subtract(constant(2), input('a')), y: subtract(input('b'), constant(0.5)), z: input('c') },
];

test.each(PASSES.map((channels, index) => ({ index, channels })))('pass $index', async ({ channels }) => {
  await expectNoLeaks(async () => {
    const tensors = Object.fromEntries(
      Object.entries(numbers).map(([name, values]) => [name, deviceTensor({ shape: [ROWS, COLS], values })]),
    );
    const mask = deviceTensor({ shape: [ROWS, COLS], dtype: 'bool', values: chosen });
    const pending = passTables({
      where: 'test',
      rows: ROWS,
      cols: COLS,
      inputs: tensors,
      channels,
      mask: { tensor: mask, stride: COLS, offset: 0 },
    });
    tf.dispose([tensors, mask]);
    const tables = await pending;
    for (const [name, expression] of Object.entries(channels)) {
      const values = Array.from({ length: SIZE }, (_, i) =>
        evaluate(expression, (which) => numbers[which as keyof typeof numbers][i]!),
      );
      const reference = referenceMoments(values, chosen, ROWS, COLS);
      // The devices round every difference to float32; no intermediate here exceeds 32.
      const rounded = expression.kind === 'subtract' && (backend === 'webgpu' || backend === 'tensorflow');
      expectContract(
        new Moments(tables[name]!.total()),
        new Moments(reference.total()),
        name,
        rounded ? 2 * 2 ** -24 * 32 : 0,
      );
    }
  });
});

test('the same expression twice is counted once for each', async () => {
  const a = deviceTensor({ shape: [1, 3], values: [1, 2, 4] });
  const same = input('a');
  const { x, y } = await passTables({
    where: 'test',
    rows: 1,
    cols: 3,
    inputs: { a },
    channels: { x: same, y: same },
  });
  expect([x.row(0), y.row(0)].map(({ count, sum }) => [count, sum])).toEqual([
    [3, 7],
    [3, 7],
  ]);
  a.dispose();
});

test('a window of a wider mask selects by its own columns', async () => {
  const wide = deviceTensor({ shape: [2, 5], dtype: 'int32', values: [1, 0, 1, 0, 1, 0, 0, 0, 1, 1] });
  const a = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
  const window = { tensor: wide, stride: 5, offset: 2 };
  const { x, n } = await passTables({
    where: 'test',
    rows: 2,
    cols: 3,
    inputs: { a },
    channels: { x: input('a'), n: constant(1) },
    mask: window,
  });
  expect(Array.from(x, ({ count, sum }) => [count, sum])).toEqual([
    [2, 4],
    [2, 11],
  ]);
  expect(Array.from(n, ({ count }) => count)).toEqual([2, 2]);
  tf.dispose([wide, a]);
});
