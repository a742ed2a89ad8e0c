/** The short way of hosts for plain passes gives the bits of the long one, which every other test is about. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { channelTables, expression, momentsTables } from '../../src/kernels/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';
import { runsOf } from '../support/long.js';

await testBackend();

const values = fc.array(
  fc.oneof(
    { weight: 20, arbitrary: fc.float({ noNaN: true, noDefaultInfinity: true }) },
    { weight: 1, arbitrary: fc.constantFrom(NaN, Infinity, -Infinity, -0) },
  ),
  { minLength: 1, maxLength: 300 },
);

/** Rows are filled with a drawn pattern: some end in the middle of a tile, a block or a vector. */
const lengths = fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 4090, max: 12_300 }));

const masks = fc.constantFrom('all', 'none', 'scattered', 'run', 'tail');

function selects(kind: string, i: number, length: number): number {
  if (kind === 'scattered') return (i * 2654435761) % 7 < 4 ? 1 : 0;
  if (kind === 'run') return i < length * 0.6 ? 1 : 0;
  if (kind === 'tail') return i >= length - 3 ? 1 : 0;
  return kind === 'all' ? 1 : 0;
}

test.runIf(!hasDevice())('plain passes have the same bits', async () => {
  const dtypes = fc.constantFrom('float32', 'int32', 'bool' as const);
  await fc.assert(
    fc.asyncProperty(
      values,
      lengths,
      masks,
      dtypes,
      dtypes,
      async (pattern, length, kind, dtype, maskDtype) => {
        const numbers = Array.from({ length }, (_, i) => pattern[i % pattern.length]!);
        const stored =
          dtype === 'float32'
            ? numbers
            : numbers.map((x) => (dtype === 'bool' ? Number(x > 0) : Math.trunc(x) | 0));
        const x = deviceTensor({ shape: [length], values: stored, dtype });
        const selected = Array.from({ length }, (_, i) => selects(kind, i, length));
        const mask = deviceTensor({ shape: [length], values: selected, dtype: maskDtype });
        const other = tf.onesLike(mask);
        const { x: short } = await momentsTables({ x }, mask);
        const { count } = await channelTables({ count: expression.constant(1) }, {}, mask);
        const both = {
          a: { of: expression.input('x'), mask: 'mask' },
          b: { of: expression.input('x'), mask: 'other' },
          c: { of: expression.constant(1), mask: 'mask' },
        } as const;
        const long = await channelTables(both, { x }, { mask, other });
        expect(short.cells).toEqual(long.a.cells);
        expect(count.cells).toEqual(long.c.cells);
        const { x: everything } = await momentsTables({ x });
        expect(everything.cells).toEqual(long.b.cells);
        tf.dispose([x, mask, other]);
      },
    ),
    { numRuns: runsOf(150) },
  );
});
