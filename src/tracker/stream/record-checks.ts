/** What the record calls of an emitter accept. Nothing is recorded here. */
import { assertNamed, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { rowFault, type MomentsRow, emptyRow, MomentsTable } from '../../rows/index.js';

/**
 * The named numbers that a record call was given; true is 1.
 *
 * @throws MissingInputError or ValueError for anything but an object of numbers
 */
export function namedNumbers(where: string, values: unknown): [key: string, x: number][] {
  assertNamed(where, 'values', values, {
    expected: 'an object of named values',
    remedy: `call it as ${where}({ 'rollout/reward': … })`,
  });
  return Object.entries(values).map(([key, value]: [string, unknown]) => {
    if (typeof value === 'number') return [key, value];
    if (typeof value === 'boolean') return [key, Number(value)];
    throw new ValueError({
      where,
      input: key,
      expected: 'a number',
      received: kindOf(value),
      remedy: 'leave the key out when there is no value',
    });
  });
}

/** The largest count of a row: a controller can add up 2^60 of them. Rows of a tracker have less, see `LARGEST_WEIGHT`. */
const LARGEST_COUNT = 2 ** 960;

const rowFields = Object.keys(emptyRow) as (keyof MomentsRow)[];

/** @throws ValueError for a row that no elements can have */
export function assertStreamRow(given: unknown): void {
  const { key, row } = (given ?? {}) as { readonly key?: unknown; readonly row?: unknown };
  const fault = faultOf(row);
  if (fault === undefined) return;
  throw new ValueError({
    where: 'merge',
    input: typeof key === 'string' && key !== '' ? key : 'rows',
    expected: '{ key, reduction, row } with a row of moments',
    received: fault,
    remedy: 'make rows with liftRow, mergeRows or momentsTables',
  });
}

function faultOf(row: unknown): string | undefined {
  if (typeof row !== 'object' || row === null) return kindOf(row);
  const fields = row as MomentsRow;
  // A table of float64 would take the text '5' for 5.
  const stranger = rowFields.find((field) => typeof fields[field] !== 'number');
  if (stranger !== undefined) return `${kindOf(fields[stranger])} for ${stranger}`;
  if (fields.count > LARGEST_COUNT) return `a count of ${fields.count}, beyond 2^960`;
  const table = new MomentsTable(1);
  table.set(0, fields);
  return rowFault(table, 0);
}
