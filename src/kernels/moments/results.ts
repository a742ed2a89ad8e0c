/** From the mergeable rows of a pass to what the caller gets. */
import { Moments, type NonFinitePolicy, type MomentsTable } from '../../rows/index.js';
import { RowMoments } from './row-moments.js';

/** What becomes of a table: one result per row, or one for all. */
export function finisher(
  axis: -1 | undefined,
  nonFinite: NonFinitePolicy,
): (table: MomentsTable) => Moments | RowMoments {
  return (table) =>
    axis === -1 ? RowMoments.fromTable(table, nonFinite) : new Moments(table.total(), nonFinite);
}

/** The record with every value replaced. */
export function mapValues<A, B>(
  record: Readonly<Record<string, A>>,
  map: (value: A) => B,
): Record<string, B> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
