/** Rows of one step, as in classic control: numbers of rows from the total of the steps, without a record of each row. */
import { Moments, emptyRow, mergeRows, type MomentsTable } from '../../rows/index.js';
import type { Semantics } from '../semantics.js';

/** Rows of which each is one step: what the total of the steps says of rows depends on these. */
export interface Steps {
  readonly semantics: Semantics;
  /** Rows of the batch, with a step or without one; no matter under `recommended`. */
  readonly rows: number;
}

/**
 * The record of one number per row, from the total of the steps.
 *
 * @param ofEmpty the number of a row without a step, which the presets count
 */
export function stepMoments(table: MomentsTable, { semantics, rows }: Steps, ofEmpty = 0): Moments {
  const own = table.total();
  const count = semantics === 'recommended' ? 0 : rows - own.count;
  if (count <= 0) return new Moments(own);
  const empty = { ...emptyRow, count, sum: count * ofEmpty, min: ofEmpty, max: ofEmpty };
  return new Moments(mergeRows(own, empty));
}
