/**
 * What every destination refuses to write: a step that is no count, data that is not numbers by name. A journal that
 * took them could not be read back.
 */
import { ValueError } from '../../errors.js';
import { assertNamed, assertOptions, kindOf } from '../../kernels/arguments.js';
import type { CommitPoint } from './logger.js';

/** @throws MissingInputError or ValueError for anything that is no commit */
export function assertCommit(
  where: string,
  step: number,
  data: Readonly<Record<string, number>>,
  point: CommitPoint | undefined,
): void {
  assertWhole(where, 'step', step);
  assertNumbers(where, data);
  if (point !== undefined) assertOptions(where, point, { epoch: 'number', step: 'number' }, 'point');
}

/** @throws ValueError for anything but a whole number from 0 */
export function assertWhole(where: string, input: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 0) return;
  throw new ValueError({
    where,
    input,
    expected: 'a whole number from 0',
    received: kindOf(value),
    remedy: 'count epochs and steps from 0',
  });
}

/** @throws MissingInputError for no data, ValueError for what is no record of numbers */
export function assertNumbers(where: string, data: Readonly<Record<string, number>>): void {
  assertNamed(where, 'data', data, {
    expected: 'a record of numbers by name',
    remedy: 'pass what export() returned',
  });
  for (const [key, value] of Object.entries<unknown>(data)) {
    if (typeof value === 'number') continue;
    throw new ValueError({
      where,
      input: key,
      expected: 'a number',
      received: kindOf(value),
      remedy: 'leave the key out',
    });
  }
}
