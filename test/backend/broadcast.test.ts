/** One value per row, as input and as mask, against rows that are shorter and longer than the tiles of any backend. */
import * as tf from '@tensorflow/tfjs-core';
import { test } from 'vitest';

import { type Expression, evaluate, input, multiply, subtract } from '../../src/kernels/expression.js';
import { Moments } from '../../src/kernels/index.js';
import { denseWindow, passTables, rowWindow } from '../../src/kernels/moments/pass.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
import { expectNoLeaks } from '../support/leaks.js';
import { seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const CHANNELS = {
  difference: { of: subtract(input('a'), input('row')), mask: 'some' },
  reversed: { of: subtract(input('row'), input('a')), mask: 'rows' },
  row: { of: input('row'), mask: 'some' },
  rowOfRows: { of: input('row'), mask: 'rows' },
  plain: { of: input('a'), mask: 'rows' },
  ofRow: { of: multiply(input('row'), input('row')), mask: 'some' },
} as const satisfies Record<string, { of: Expression; mask: string }>;

test.each([
  [300, 1],
  [300, 3],
  [7, 100],
  [9, 513],
  [5, 4097],
  [3, 9001],
])('%i × %i', async (rows, cols) => {
  const random = seeded(rows * cols);
  const quarters = (n: number): Float32Array =>
    // Differences and products of these are exact in float32, so every backend has the same elements.
    Float32Array.from({ length: n }, () => Math.round(random() * 64 - 32) / 4);
  const numbers = { a: quarters(rows * cols), row: quarters(rows) };
  const some = Uint8Array.from({ length: rows * cols }, () => Number(random() < 0.5));
  const chosen = Int32Array.from({ length: rows }, (_, r) => Number(r % 3 !== 1));
  await expectNoLeaks(async () => {
    const a = deviceTensor({ shape: [rows, cols], values: numbers.a });
    const row = deviceTensor({ shape: [rows], values: numbers.row });
    const masks = {
      some: deviceTensor({ shape: [rows, cols], dtype: 'bool', values: some }),
      rows: deviceTensor({ shape: [rows], dtype: 'int32', values: chosen }),
    };
    const tables = await passTables({
      where: 'test',
      rows,
      cols,
      inputs: { a, row: rowWindow(row) },
      channels: CHANNELS,
      masks: { some: denseWindow(masks.some, cols), rows: rowWindow(masks.rows) },
    });
    tf.dispose([a, row, masks.some, masks.rows]);
    for (const [name, { of, mask }] of Object.entries(CHANNELS)) {
      const values = Float64Array.from({ length: rows * cols }, (_, i) =>
        evaluate(of, (which) => (which === 'a' ? numbers.a[i]! : numbers.row[Math.floor(i / cols)]!)),
      );
      const selected = mask === 'some' ? some : values.map((_, i) => chosen[Math.floor(i / cols)]!);
      const reference = referenceMoments(values, selected, rows, cols);
      const finish = (table: Iterable<ConstructorParameters<typeof Moments>[0]>): Moments[] =>
        Array.from(table, (record) => new Moments(record));
      expectContract(finish(tables[name as keyof typeof CHANNELS]), finish(reference), name);
    }
  });
});
