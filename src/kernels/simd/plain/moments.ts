/** The moments of a tile, row by row, merged into records: two passes over what is selected, see ../assembly/moments.ts. */
import { type MomentsRow, emptyRow, mergeRows, repeatRow, MomentsTable } from '../../../rows/index.js';
import type { SimdExports } from '../module.generated.js';
import { type Cells, type Stored, bytesOf } from './cells.js';
import { countOf, flagsOf } from './selection.js';

/** The address that stands for a selection of everything. */
const EVERYTHING = 0;

type Reductions = Pick<
  SimdExports,
  'clearRecords' | 'reduceBool' | 'reduceConstant' | 'reduceFloat32' | 'reduceFloat64' | 'reduceInt32'
>;

export function moments(cells: Cells): Reductions {
  const rowAt = (out: number): MomentsRow => {
    const at = out / Float64Array.BYTES_PER_ELEMENT;
    const [count = 0, nan = 0, posInf = 0, negInf = 0, sum = 0, m2 = 0, min = 0, max = 0] =
      cells.float64.subarray(at, at + MomentsTable.WIDTH);
    return { count, nan, posInf, negInf, sum, m2, min, max };
  };
  const write = (out: number, row: MomentsRow): void => {
    const { count, nan, posInf, negInf, sum, m2, min, max } = row;
    cells.float64.set([count, nan, posInf, negInf, sum, m2, min, max], out / Float64Array.BYTES_PER_ELEMENT);
  };
  const mergeInto = (out: number, row: MomentsRow): void => {
    write(out, mergeRows(rowAt(out), row));
  };
  const reduce =
    (stored: Stored) =>
    (x: number, rows: number, cols: number, selection: number, _spare: number, out: number): void => {
      for (let row = 0; row < rows; row++) {
        if (selection !== EVERYTHING && countOf(cells, selection, row) === 0) continue;
        const flags = selection === EVERYTHING ? undefined : flagsOf(cells, selection, row, cols);
        const elements = cells.elements(stored, x + row * cols * bytesOf[stored], cols);
        mergeInto(out + row * MomentsTable.ROW_BYTES, rowOf(elements, flags));
      }
    };
  return {
    clearRecords: (out, rows) => {
      for (let row = 0; row < rows; row++) write(out + row * MomentsTable.ROW_BYTES, emptyRow);
    },
    reduceFloat32: reduce('Float32'),
    reduceInt32: reduce('Int32'),
    reduceBool: reduce('Bool'),
    reduceFloat64: reduce('Float64'),
    reduceConstant: (value, rows, cols, selection, out) => {
      for (let row = 0; row < rows; row++) {
        const count = selection === EVERYTHING ? cols : countOf(cells, selection, row);
        mergeInto(out + row * MomentsTable.ROW_BYTES, repeatRow(value, count));
      }
    },
  };
}

/** The row of the elements whose flag is not 0, of all without flags. */
function rowOf(x: ArrayLike<number>, flags: Uint8Array | undefined): MomentsRow {
  let [count, nan, posInf, negInf, plain] = [0, 0, 0, 0, 0];
  let [min, max] = [Infinity, -Infinity];
  for (let i = 0; i < x.length; i++) {
    if (flags?.[i] === 0) continue;
    count++;
    const value = x[i]!;
    if (value - value === 0) {
      plain += value;
      min = Math.min(min, value);
      max = Math.max(max, value);
    } else if (value === Infinity) posInf++;
    else if (value === -Infinity) negInf++;
    else nan++;
  }
  const n = count - nan - posInf - negInf;
  if (n === 0) return { ...emptyRow, count, nan, posInf, negInf };
  // Sums beyond the range of float64 have no mean; any element is near enough to the others then.
  const mean = plain / n;
  const pivot = mean - mean === 0 ? mean : min;
  let [deviations, squares] = [0, 0];
  for (let i = 0; i < x.length; i++) {
    if (flags?.[i] === 0) continue;
    const value = x[i]!;
    if (value - value !== 0) continue;
    const d = value - pivot;
    deviations += d;
    squares += d * d;
  }
  const counts = { count, nan, posInf, negInf };
  if (deviations - deviations !== 0) return { ...counts, sum: plain, m2: Infinity, min, max };
  const m2 = squares === Infinity ? squares : Math.max(squares - deviations * (deviations / n), 0);
  // In order, a sum may leave the range that its terms together stay in.
  const sum = plain - plain === 0 ? plain : deviations + pivot * n;
  return { ...counts, sum, m2, min, max };
}
