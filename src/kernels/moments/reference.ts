/**
 * Masked moments in float64: the living specification.
 *
 * The simplest code that is right, so that every device kernel can be held against it. It gathers the selected
 * elements of a row as plain numbers, classifies them, and takes mean and m2 of the finite ones in two passes with
 * compensated sums. It knows no tensor, no device and no speed.
 */

import { ShapeError } from '../../errors.js';
import { emptyRow, type MomentsRow, MomentsTable } from '../../rows/index.js';

/**
 * Sum whose error does not grow with the number of terms.
 *
 * @source Neumaier 1974, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", algorithm IV.
 */
function compensatedSum(terms: readonly number[]): number {
  let sum = 0;
  let lost = 0;
  for (const term of terms) {
    const next = sum + term;
    lost += Math.abs(sum) >= Math.abs(term) ? sum - next + term : term - next + sum;
    sum = next;
  }
  return sum + lost;
}

/** The row of `selected`, which may hold anything. */
function rowOf(selected: readonly number[]): MomentsRow {
  const finite = selected.filter(Number.isFinite);
  const counts = {
    count: selected.length,
    nan: selected.filter(Number.isNaN).length,
    posInf: selected.filter((x) => x === Infinity).length,
    negInf: selected.filter((x) => x === -Infinity).length,
  };
  const n = finite.length;
  if (n === 0) return { ...emptyRow, ...counts };
  const sum = compensatedSum(finite);
  const mean = sum / n;
  const deviations = finite.map((x) => x - mean);
  // The mean is rounded, so the deviations do not quite sum to zero; the second term takes that back out.
  const drift = compensatedSum(deviations);
  const m2 = compensatedSum(deviations.map((d) => d * d)) - (drift * drift) / n;
  return {
    ...counts,
    sum,
    m2: Math.max(m2, 0),
    min: finite.reduce((a, b) => Math.min(a, b)),
    max: finite.reduce((a, b) => Math.max(a, b)),
  };
}

/**
 * Moments of the selected elements of each row of a `[rows, cols]` block.
 *
 * @param values `rows * cols` numbers, row-major
 * @param mask as many entries; anything but 0 and −0 selects, also NaN. Without a mask everything is selected
 * @param rows number of rows; 1 for the moments of a whole tensor
 * @param cols elements per row; 0 gives empty rows
 * @returns one moments row per row
 * @throws ShapeError if `values` or `mask` does not hold `rows * cols` elements
 */
export function referenceMoments(
  values: ArrayLike<number>,
  mask: ArrayLike<number> | undefined,
  rows: number,
  cols: number,
): MomentsTable {
  for (const [input, data] of Object.entries({ values, mask })) {
    if (!data || data.length === rows * cols) continue;
    throw new ShapeError({
      where: 'referenceMoments',
      input,
      expected: `${rows * cols} elements (${rows} rows of ${cols})`,
      received: String(data.length),
      remedy: 'pass the rows and columns that the data has',
    });
  }
  const table = new MomentsTable(rows);
  for (let r = 0; r < rows; r++) {
    const selected: number[] = [];
    for (let i = r * cols; i < (r + 1) * cols; i++) {
      if (mask?.[i] !== 0) selected.push(values[i]!);
    }
    table.set(r, rowOf(selected));
  }
  return table;
}
