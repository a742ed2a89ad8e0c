/**
 * What every destination refuses to write: a step that is no count, data that is not numbers by name. A journal that
 * took them could not be read back.
 */
import { assertOptions, assertRecord, kindOf, strangerAt } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { isThenable } from '../../promises.js';
import type { CommitPoint } from './logger.js';

/**
 * @returns whether `JSON.stringify` writes all numbers as they are: finite, and none −0
 * @throws MissingInputError or ValueError for anything that is no commit
 */
export function assertCommit(
  where: string,
  step: number,
  data: Readonly<Record<string, number>>,
  point: CommitPoint | undefined,
): boolean {
  assertWhole(where, 'step', step);
  const arePlain = assertNumbers(where, data);
  if (point !== undefined && !isPoint(point))
    assertOptions(where, point, { epoch: 'number', step: 'number' }, 'point');
  return arePlain;
}

/** Whether it is one without anything else: nearly always, and found out for less than what is wrong would be. */
function isPoint(point: CommitPoint | null): boolean {
  if (typeof point?.epoch !== 'number' || typeof point.step !== 'number') return false;
  return Object.keys(point).length === 2;
}

/**
 * @param signature of the call, for messages, where numbers have their places
 * @throws ValueError for anything but a whole number from 0
 */
export function assertWhole(where: string, input: string, value: number, signature?: string): void {
  if (Number.isSafeInteger(value) && value >= 0) return;
  throw new ValueError({
    where,
    input,
    expected: 'a whole number from 0',
    received: kindOf(value),
    remedy:
      signature === undefined || typeof value === 'number'
        ? 'count epochs and steps from 0'
        : `call it as ${signature}`,
  });
}

/**
 * @returns whether all are finite, and none −0
 * @throws MissingInputError for no data, ValueError for what is no record of numbers
 */
export function assertNumbers(where: string, data: Readonly<Record<string, number>>): boolean {
  const expected = 'a record of numbers by name';
  if (Array.isArray(data)) throw severalRecords(where, expected, data);
  assertRecord(where, 'data', data, { expected, remedy: 'pass what export() returned' });
  if (Object.values(data).every(isPlain)) return true; // nearly always, and one pass
  for (const [key, value] of Object.entries<unknown>(data)) {
    if (typeof value === 'number') continue;
    throw new ValueError({
      where,
      input: key,
      expected: 'a number',
      received: kindOf(value),
      remedy: kindOf(value) === 'a tensor' ? 'read it first: (await t.data())[0]' : 'leave the key out',
    });
  }
  return false;
}

/** Whether JSON has it: `JSON.stringify` writes −0 as 0. */
function isPlain(value: number): boolean {
  return Number.isFinite(value) && (value !== 0 || 1 / value > 0);
}

/** AReaL's logger takes a list of records, too. */
function severalRecords(where: string, expected: string, list: readonly unknown[]): ValueError {
  const promise = strangerAt(list, (record) => !isThenable(record));
  return new ValueError({
    where,
    input: promise === -1 ? 'data' : `data[${promise}]`,
    expected,
    received: kindOf(promise === -1 ? list : list[promise]),
    remedy: 'pass what export() returned; several records are one as { ...first, ...second }',
  });
}
