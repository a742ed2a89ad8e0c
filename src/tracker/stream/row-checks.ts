/** What a moments row from outside must hold: rows of a faulty sender would spoil every number they are merged into. */
import { MomentsTable } from '../../kernels/moments/record.js';

/** How many elements; where these have weights, their sum, which need not be an integer. */
function isElementCount(x: number): boolean {
  return x >= 0 && x < Infinity;
}

/** What may be left, of each element, where weights add up to counts in different orders. */
const ROUNDING = 2 ** -40;

/**
 * Why row `i` of a table cannot describe any elements; undefined if it can.
 *
 * Sums and squared deviations may have left the range of float64, so they may be anything but contradictory.
 */
export function rowFault({ cells }: MomentsTable, i: number): string | undefined {
  const at = i * MomentsTable.WIDTH;
  const count = cells[at]!;
  const nan = cells[at + 1]!;
  const posInf = cells[at + 2]!;
  const negInf = cells[at + 3]!;
  const counts = [count, nan, posInf, negInf];
  if (!counts.every(isElementCount)) {
    return `counts ${count}, ${nan}, ${posInf}, ${negInf}`;
  }
  const finite = count - nan - posInf - negInf;
  const rounding = counts.every(Number.isInteger) ? 0 : count * ROUNDING;
  if (finite < -rounding) return `${nan + posInf + negInf} non-finite elements of ${count}`;
  const sum = cells[at + 4]!;
  const m2 = cells[at + 5]!;
  const min = cells[at + 6]!;
  const max = cells[at + 7]!;
  // Beside a sum beyond float64 there is a mean in its place, which may have any sign.
  if (m2 < 0 && Number.isFinite(sum)) return `squared deviations of ${m2}`;
  const isEmpty = sum === 0 && m2 === 0 && min === Infinity && max === -Infinity;
  if (isEmpty && finite <= rounding) return undefined;
  if (finite <= 0) {
    return `sum ${sum}, m2 ${m2}, range ${min} to ${max} of no finite element`;
  }
  if (!Number.isFinite(min) || !Number.isFinite(max) || min > max) return `a range of ${min} to ${max}`;
  return undefined;
}
