/** Golden timing metrics: every case under every semantics, on the backend of this project. */
import { describe, expect, test } from 'vitest';

import { type TimingRaw, computeTimingMetrics, semanticsNames } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { loadGolden } from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { REFERENCES, expectReference, goldenBatch } from '../support/verl-cases.js';

await testBackend();
const { cases } = loadGolden('verl.timing');

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(11);
});

describe.each(semanticsNames)('golden timing metrics: %s', (semantics) => {
  // verl-2026-01 has no length columns, so it says nothing about a batch that has only those.
  const spoken = cases.filter((golden) => REFERENCES[semantics].some((name) => name in golden.expected));
  const answered = spoken.filter(({ id }) => semantics !== 'verl-2026-01' || id !== 'exact-count');
  test.each(answered)('$id', async (golden) => {
    const metrics = await expectNoLeaks(async () => {
      const { batch, dispose } = goldenBatch(golden);
      const computed = computeTimingMetrics(batch, golden.inputs.timing_raw as TimingRaw, { semantics });
      dispose();
      return computed;
    });
    expectReference(golden, semantics, metrics);
  });
});
