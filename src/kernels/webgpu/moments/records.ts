/** The records that the WGSL moments pass leaves, brought into tables: chunks of a row merge in float64. */
import { MomentsTable, m2Between } from '../../../rows/index.js';
import { RECORD_WORDS } from './accumulator.js';

/** Where the records of a launch belong. */
export interface RecordLayout {
  /** The row of the table that the first row of the launch is. */
  readonly firstRow: number;
  readonly rows: number;
  /** Records per row, which are neighbours. */
  readonly chunks: number;
}

/**
 * Merges the records of one channel into its table, in order, so that the same records always give the same bits.
 *
 * Written out on numbers: a large tensor leaves thousands of records, and objects would cost more than the merge.
 *
 * @param contents what the launch wrote; GPUs that Dawn supports are little-endian, as all hosts of Node are
 * @param channel which of the channels of the launch
 */
export function mergeRecords(
  table: MomentsTable,
  contents: ArrayBuffer,
  channel: number,
  { firstRow, rows, chunks }: RecordLayout,
): void {
  const u32 = new Uint32Array(contents);
  const i32 = new Int32Array(contents);
  const f32 = new Float32Array(contents);
  const { cells } = table;
  let at = channel * rows * chunks * RECORD_WORDS;
  for (let row = 0; row < rows; row++) {
    const cell = (firstRow + row) * MomentsTable.WIDTH;
    for (let chunk = 0; chunk < chunks; chunk++, at += RECORD_WORDS) {
      const finite = u32[at]!;
      const [nan, posInf, negInf] = [u32[at + 1]!, u32[at + 2]!, u32[at + 3]!];
      const before = cells[cell]! - cells[cell + 1]! - cells[cell + 2]! - cells[cell + 3]!;
      cells[cell]! += finite + nan + posInf + negInf;
      cells[cell + 1]! += nan;
      cells[cell + 2]! += posInf;
      cells[cell + 3]! += negInf;
      if (finite === 0) continue;
      const isInteger = u32[at + 11]! > 0;
      const elements = isInteger ? i32 : f32;
      const sum = (f32[at + 12]! + f32[at + 13]!) * 2 ** i32[at + 5]!;
      let m2 = f32[at + 8]! * 4 ** i32[at + 7]!;
      if (before > 0) m2 += m2Between(cells[cell + 4]!, before, sum, finite);
      cells[cell + 4]! += sum;
      cells[cell + 5]! += m2;
      cells[cell + 6] = Math.min(cells[cell + 6]!, elements[at + 9]!);
      cells[cell + 7] = Math.max(cells[cell + 7]!, elements[at + 10]!);
    }
  }
}
