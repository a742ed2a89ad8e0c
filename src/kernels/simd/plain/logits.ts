/** Sums over the softmax of a row of logits in float64, see ../assembly/logits.ts for what the state holds. */
import type { SimdExports } from '../module.generated.js';
import type { Cells } from './cells.js';

/** 2^x is 0 below; −Infinity · 0 would be NaN. */
const LOWEST_EXPONENT = -1100;

/** The lowest finite float32 stands in for the maximum as long as there are only −Infinity, since ∞ − ∞ is NaN. */
const LOWEST = -3.4028234663852886e38;

type Logits = Pick<SimdExports, 'foldLogits' | 'prepareExponentials' | 'prepareLogits'>;

export function logits(cells: Cells): Logits {
  return {
    // The constants of the module; there are none here.
    prepareExponentials: () => undefined,
    prepareLogits: () => undefined,
    foldLogits: (x, n, factor, state) => {
      const { float64 } = cells;
      const at = state / Float64Array.BYTES_PER_ELEMENT;
      const row = cells.elements('Float32', x, n);
      let [m, s1, s2, s3] = [float64[at]!, float64[at + 1]!, float64[at + 2]!, float64[at + 3]!];
      let top = m;
      for (const z of row) if (z > top) top = z;
      if (top > m && m >= LOWEST) {
        const shift = (m - top) * factor;
        const w = 2 ** shift;
        // A weight of 0 may meet an exponent of −Infinity.
        s3 = w === 0 ? 0 * s1 : w * (s3 + shift * s1);
        s2 *= w * w;
        s1 *= w;
      }
      m = top;
      const base = Math.max(m, LOWEST);
      for (const z of row) {
        // Math.max passes NaN on, as the sums shall.
        const y = Math.max((z - base) * factor, LOWEST_EXPONENT);
        const e = 2 ** y;
        s1 += e;
        s2 += e * e;
        s3 += y * e;
      }
      float64.set([m, s1, s2, s3], at);
    },
  };
}
