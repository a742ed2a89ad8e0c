/** The plain loops that stand in for the SIMD module, held to the tests of the module. */
import { vi } from 'vitest';

vi.mock('../../../src/kernels/simd/instance.js', async (original) => {
  const real = await original<{ readonly loopsOn: unknown }>();
  return { ...real, simdOn: real.loopsOn };
});

await import('./arithmetic.test.js');
await import('./moments.test.js');
