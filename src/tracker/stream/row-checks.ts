/** What a moments row from outside must hold: rows of a faulty sender would spoil every number they are merged into. */
import { MomentsTable } from '../../kernels/moments/record.js';

function isCount(x: number): boolean {
  return Number.isSafeInteger(x) && x >= 0;
}

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
  if (!isCount(count) || !isCount(nan) || !isCount(posInf) || !isCount(negInf)) {
    return `counts ${count}, ${nan}, ${posInf}, ${negInf}`;
  }
  const finite = count - nan - posInf - negInf;
  if (finite < 0) return `${nan + posInf + negInf} non-finite elements of ${count}`;
  const sum = cells[at + 4]!;
  const m2 = cells[at + 5]!;
  const min = cells[at + 6]!;
  const max = cells[at + 7]!;
  if (m2 < 0) return `squared deviations of ${m2}`;
  if (finite === 0) {
    const isEmpty = sum === 0 && m2 === 0 && min === Infinity && max === -Infinity;
    return isEmpty ? undefined : `sum ${sum}, m2 ${m2}, range ${min} to ${max} of no finite element`;
  }
  if (!Number.isFinite(min) || !Number.isFinite(max) || min > max) return `a range of ${min} to ${max}`;
  return undefined;
}
