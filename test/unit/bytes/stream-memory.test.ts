/** What a controller holds does not follow from what is sent to it. */
import { expect, test } from 'vitest';
import { runInSmallHeap } from '../../support/small-heap.js';

test('tens of MB of valid deltas fit into a heap of 192 MB', async () => {
  const module = new URL('../../support/hostile/stream.ts', import.meta.url);
  const told = (await runInSmallHeap(module, 192)) as Record<string, number>;
  expect(told.bytes).toBeGreaterThan(20e6);
  expect(told.versions).toBe(64);
  // Three others came first.
  expect(told.refusedWorkers).toBe(30_000 - 20_000 + 3);
  expect(told.refusedRows).toBe(20);
}, 120_000);
