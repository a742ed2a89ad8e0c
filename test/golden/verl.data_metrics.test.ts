/** Golden data metrics: every case under every semantics, on the backend of this project. */
import { describe, expect, test } from 'vitest';

import { computeDataMetrics, semanticsNames } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { loadGolden } from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { expectReference, goldenBatch } from '../support/verl-cases.js';

await testBackend();
const { cases } = loadGolden('verl.data_metrics');

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(27);
});

describe.each(semanticsNames)('golden data metrics: %s', (semantics) => {
  test.each(cases)('$id', async (golden) => {
    const metrics = await expectNoLeaks(async () => {
      const { batch, dispose } = goldenBatch(golden);
      const computed = computeDataMetrics(batch, {
        useCritic: golden.options.use_critic as boolean,
        semantics,
      });
      dispose();
      return computed;
    });
    expectReference(golden, semantics, metrics);
  });
});
