/** What it costs to read a state: a small multiple of its bytes, whatever they announce. */
import { expect, test } from 'vitest';
import { runInSmallHeap } from '../../support/small-heap.js';

test('bytes of a state that announce more than there is are refused in a small heap', async () => {
  const module = new URL('../../support/hostile/step-state.ts', import.meta.url);
  const { taken, fits } = (await runInSmallHeap(module, 160)) as {
    taken: string[];
    fits: number[];
  };
  expect(taken).toEqual([]);
  expect(fits).toEqual([7, 0, 5, 2 ** 30]);
}, 120_000);
