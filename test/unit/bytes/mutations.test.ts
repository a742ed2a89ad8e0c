/** Bytes that were changed at random, with a checksum that is right: what a program makes that knows the format. */
import { expect, test } from 'vitest';
import { runInSmallHeap } from '../../support/small-heap.js';

test('changed states and rows of histograms end in a typed error or in numbers, in a small heap', async () => {
  const module = new URL('../../support/hostile/mutations.ts', import.meta.url);
  const { counts, faults } = (await runInSmallHeap(module, 96)) as {
    counts: Record<string, number>;
    faults: string[];
  };
  expect(faults).toEqual([]);
  // Both happen.
  for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(100);
}, 120_000);
