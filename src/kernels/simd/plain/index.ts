/**
 * The functions of the SIMD module as plain loops in float64, for machines whose WebAssembly lacks memory or SIMD.
 *
 * They take the same addresses and mean the same numbers, so kernels do not know which of the two they call. The tests
 * of the module are run on both.
 */
import type { ModuleMemory } from '../module-memory.js';
import type { SimdExports } from '../module.generated.js';
import { arithmetic } from './arithmetic.js';
import { Cells } from './cells.js';
import { logits } from './logits.js';
import { moments } from './moments.js';
import { masks } from './selection.js';

export { PlainMemory } from './memory.js';

/** The functions at work in `memory`. */
export function plainOn(memory: ModuleMemory): SimdExports {
  const cells = new Cells(memory);
  return { ...arithmetic(cells), ...masks(cells), ...moments(cells), ...logits(cells) };
}
