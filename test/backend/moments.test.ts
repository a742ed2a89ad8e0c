/**
 * `maskedMoments` against the float64 reference over the whole case table, on the backend of this project.
 *
 * Every case runs with axis all and −1 and under both policies in one read-back, with inputs disposed before the
 * result is read, and leaves nothing alive.
 */

import { describe, test } from 'vitest';

import { collect, maskedMoments } from '../../src/kernels/index.js';
import { Moments } from '../../src/rows/moments.js';
import { RowMoments } from '../../src/kernels/moments/row-moments.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
import { expectNoLeaks } from '../support/leaks.js';
import { MOMENTS_CASES, type MomentsCase } from '../support/moments-cases.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

async function meetsTheContract(momentsCase: MomentsCase): Promise<void> {
  const input = momentsCase.build();
  const shape = input.values.shape;
  const cols = shape.at(-1)!;
  const rows = shape.slice(0, -1).reduce((a, b) => a * b, 1);

  const [all, perRow, allFinite, perRowFinite] = await expectNoLeaks(() => {
    const values = deviceTensor(input.values);
    const mask = input.mask && deviceTensor(input.mask);
    const pending = collect(
      maskedMoments(values, mask),
      maskedMoments(values, mask, { axis: -1 }),
      maskedMoments(values, mask, { nonFinite: 'ignore' }),
      maskedMoments(values, mask, { axis: -1, nonFinite: 'ignore' }),
    );
    values.dispose();
    mask?.dispose();
    return pending;
  });

  const whole = referenceMoments(input.values.values, input.mask?.values, 1, rows * cols).row(0);
  const table = referenceMoments(input.values.values, input.mask?.values, rows, cols);
  expectContract(all, new Moments(whole), 'all');
  expectContract(allFinite, new Moments(whole, 'ignore'), 'all, finite only');
  expectContract(perRow, RowMoments.fromTable(table), 'per row');
  expectContract(perRowFinite, RowMoments.fromTable(table, 'ignore'), 'per row, finite only');
}

describe.each(Object.entries(MOMENTS_CASES))('masked moments agree with float64: %s', (_topic, cases) => {
  test.each(cases)('$name', meetsTheContract);
});
