/** Many moments rows side by side: what a pass over a batch returns, and what travels as bytes. */
import { type MomentsRow, emptyRow, m2Between, mergeRows } from './row.js';

/** Many moments rows in one float64 block: one row per batch row, or a single row for a whole tensor. */
export class MomentsTable {
  /** Numbers per row in `cells`. */
  static readonly WIDTH = 8;
  /** Bytes of a row. */
  static readonly ROW_BYTES = MomentsTable.WIDTH * Float64Array.BYTES_PER_ELEMENT;
  /** Number of rows. */
  readonly length: number;
  /** The rows one after the other, `WIDTH` numbers each, in the order of the fields of `MomentsRow`. */
  readonly cells: Float64Array;

  /** A table of `length` empty rows. */
  constructor(length: number) {
    this.length = length;
    this.cells = new Float64Array(length * MomentsTable.WIDTH);
    for (let at = 0; at < this.cells.length; at += MomentsTable.WIDTH) {
      this.cells[at + 6] = Infinity;
      this.cells[at + 7] = -Infinity;
    }
  }

  /** Row `i`. */
  row(i: number): MomentsRow {
    const c = this.cells;
    const o = i * MomentsTable.WIDTH;
    return {
      count: c[o]!,
      nan: c[o + 1]!,
      posInf: c[o + 2]!,
      negInf: c[o + 3]!,
      sum: c[o + 4]!,
      m2: c[o + 5]!,
      min: c[o + 6]!,
      max: c[o + 7]!,
    };
  }

  /** Replaces row `i`. */
  set(i: number, row: MomentsRow): void {
    const c = this.cells;
    const o = i * MomentsTable.WIDTH;
    c[o] = row.count;
    c[o + 1] = row.nan;
    c[o + 2] = row.posInf;
    c[o + 3] = row.negInf;
    c[o + 4] = row.sum;
    c[o + 5] = row.m2;
    c[o + 6] = row.min;
    c[o + 7] = row.max;
  }

  /** Merges `row` into row `i`. */
  add(i: number, row: MomentsRow): void {
    this.set(i, mergeRows(this.row(i), row));
  }

  /** Merges row `j` of another table into row `i`, with the bits of `mergeRows`: streams merge rows by the million. */
  addFrom(i: number, other: MomentsTable, j: number): void {
    const a = this.cells;
    const b = other.cells;
    const at = i * MomentsTable.WIDTH;
    const from = j * MomentsTable.WIDTH;
    const na = a[at]! - a[at + 1]! - a[at + 2]! - a[at + 3]!;
    const nb = b[from]! - b[from + 1]! - b[from + 2]! - b[from + 3]!;
    const sum = a[at + 4]! + b[from + 4]!;
    if (!(Number.isFinite(sum) && na + nb < Infinity)) {
      this.add(i, other.row(j));
      return;
    }
    a[at + 5]! += b[from + 5]!;
    if (na > 0 && nb > 0) a[at + 5]! += m2Between(a[at + 4]!, na, b[from + 4]!, nb);
    a[at + 4] = sum;
    a[at]! += b[from]!;
    a[at + 1]! += b[from + 1]!;
    a[at + 2]! += b[from + 2]!;
    a[at + 3]! += b[from + 3]!;
    a[at + 6] = Math.min(a[at + 6]!, b[from + 6]!);
    a[at + 7] = Math.max(a[at + 7]!, b[from + 7]!);
  }

  /** All rows merged in row order, so that the same table always gives the same bits. */
  total(): MomentsRow {
    let total = emptyRow;
    for (let i = 0; i < this.length; i++) total = mergeRows(total, this.row(i));
    return total;
  }

  /** The table of the one row that all rows make together. */
  merged(): MomentsTable {
    const merged = new MomentsTable(1);
    merged.set(0, this.total());
    return merged;
  }

  *[Symbol.iterator](): Generator<MomentsRow> {
    for (let i = 0; i < this.length; i++) yield this.row(i);
  }
}
