/**
 * Golden debug metrics: every case, on the backend of this project. The semantics do not differ, so one result has to
 * meet the references of all of them.
 */
import { expect, test } from 'vitest';

import { computeDebugMetrics, semanticsNames } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { loadGolden } from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { expectReference, goldenBatch } from '../support/verl-cases.js';

await testBackend();
const { cases } = loadGolden('verl.debug_metrics');

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(19);
});

test.each(cases)('golden debug metrics: $id', async (golden) => {
  const metrics = await expectNoLeaks(async () => {
    const { batch, dispose } = goldenBatch(golden);
    const computed = computeDebugMetrics(batch);
    dispose();
    return computed;
  });
  for (const semantics of semanticsNames) expectReference(golden, semantics, metrics);
});
