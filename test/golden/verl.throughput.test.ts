/** Golden throughput metrics: every case, on the backend of this project. */
import { expect, test } from 'vitest';

import { MissingInputError } from '../../src/errors.js';
import { type TimingRaw, computeThroughputMetrics } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { loadGolden } from '../support/golden.js';
import { expectReference, goldenBatch } from '../support/verl-cases.js';

await testBackend();
const { cases } = loadGolden('verl.throughput');

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(8);
});

test.each(cases)('golden throughput metrics: $id', async (golden) => {
  const { batch } = goldenBatch(golden);
  const computed = computeThroughputMetrics(
    batch,
    golden.inputs.timing_raw as TimingRaw,
    golden.options.n_gpus as number,
  );
  if (golden.expectedError !== undefined) {
    await expect(computed).rejects.toThrow(MissingInputError);
    return;
  }
  expectReference(golden, 'recommended', await computed);
});
