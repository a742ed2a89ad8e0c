/**
 * A moments row that grows in place: numbers arrive by the million, and a new row for each would be garbage.
 *
 * The arithmetic is that of `mergeRows`, term by term, so a row has the same bits whether it was grown or merged.
 */
import { type Histogram, liftRow, mergeRows } from '../kernels/index.js';
import { type KeyRow, momentsRowOf } from './key-row.js';

export class RowAccumulator implements KeyRow {
  count = 0;
  nan = 0;
  posInf = 0;
  negInf = 0;
  sum = 0;
  m2 = 0;
  min = Infinity;
  max = -Infinity;
  histogram: Histogram | undefined;

  /** Merges the row of one number. */
  add(x: number): void {
    if (!Number.isFinite(x)) {
      this.set(mergeRows(this, liftRow(x)));
      return;
    }
    const n = this.count - this.nan - this.posInf - this.negInf;
    if (n > 0) {
      const delta = x - this.sum / n;
      this.m2 += delta * (delta * (n / (n + 1)));
    }
    this.count += 1;
    this.sum += x;
    this.min = Math.min(this.min, x);
    this.max = Math.max(this.max, x);
  }

  /** Becomes a copy of `row`. */
  set(row: KeyRow): void {
    this.count = row.count;
    this.nan = row.nan;
    this.posInf = row.posInf;
    this.negInf = row.negInf;
    this.sum = row.sum;
    this.m2 = row.m2;
    this.min = row.min;
    this.max = row.max;
    this.histogram = row.histogram;
  }

  /** What it holds now, as a row that no longer changes. */
  row(): KeyRow {
    const row = momentsRowOf(this);
    return this.histogram === undefined ? row : { ...row, histogram: this.histogram };
  }
}
