/** The `cpu` backend where WebAssembly lacks SIMD: the plain loops keep the numerical contract of every operation. */
import { expect, test, vi } from 'vitest';

import { backendReport } from '../../src/kernels/index.js';
import { ownWorkspace } from '../../src/kernels/simd/workspace.js';

vi.mock('../../src/kernels/simd/instance.js', async (original) => ({
  ...(await original<object>()),
  engineObstacle: () => ({ expected: 'SIMD', received: 'none', remedy: 'another processor' }),
}));

for (const topic of [
  'counts',
  'expressions',
  'laws',
  'logits',
  'logits-laws',
  'masks',
  'moments',
  'moments-plain',
  'plain-channels',
]) {
  await import(`./${topic}.test.ts`);
}

test('it is the plain loops that were tested here, and the report says so', () => {
  expect(ownWorkspace().obstacle).toMatchObject({ received: 'none' });
  expect(backendReport().kernels).toEqual({ moments: 'plain', logits: 'plain', histograms: 'native' });
});
