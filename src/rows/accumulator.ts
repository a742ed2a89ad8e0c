/**
 * A row that grows in place: numbers arrive by the million, and a new row for each would be garbage.
 *
 * The arithmetic is that of `mergeKeyRows`, term by term, so a row has the same bits whether it was grown or merged.
 */
import type { Histogram } from './histogram.js';
import { type KeyRow, emptyKeyRow, keyRowOf, mergeKeyRows } from './key-row.js';
import { type MomentsRow, emptyRow, liftRow, m2Between, mergeRows } from './row.js';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class RowAccumulator implements KeyRow {
  readonly finite: Mutable<MomentsRow> = { ...emptyRow };
  nonFinite = emptyKeyRow.nonFinite;
  histogram: Histogram | undefined;

  /** Merges the row of one number. */
  add(x: number): void {
    if (!Number.isFinite(x)) {
      this.set(mergeKeyRows(this, keyRowOf(liftRow(x))));
      return;
    }
    const { finite } = this;
    const sum = finite.sum + x;
    if (!Number.isFinite(sum)) {
      Object.assign(finite, mergeRows(finite, liftRow(x)));
      return;
    }
    const n = finite.count;
    if (n > 0) finite.m2 += m2Between(finite.sum, n, x, 1);
    finite.count += 1;
    finite.sum = sum;
    finite.min = Math.min(finite.min, x);
    finite.max = Math.max(finite.max, x);
  }

  /** Becomes a copy of `row`. */
  set({ finite, nonFinite, histogram }: KeyRow): void {
    Object.assign(this.finite, finite);
    this.nonFinite = nonFinite;
    this.histogram = histogram;
  }

  /** What it holds now, as a row that no longer changes. */
  row(): KeyRow {
    const { nonFinite, histogram } = this;
    return { finite: { ...this.finite }, nonFinite, histogram };
  }
}
