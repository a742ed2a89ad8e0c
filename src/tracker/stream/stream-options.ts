/** Checks of what both ends of a stream take: numbers of things, and policy versions. */
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';

/** @throws ValueError unless `value` is an integer from 1 to `most` */
export function assertWhole(
  where: string,
  option: string,
  value: number,
  most = Number.MAX_SAFE_INTEGER,
): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= most) return;
  throw new ValueError({
    where,
    input: `options.${option}`,
    expected: `an integer from 1 to ${most}`,
    received: kindOf(value),
    remedy: 'leave it out for the default',
  });
}

/** @throws ValueError for anything but an integer */
export function assertPolicyVersion(where: string, policyVersion: unknown): asserts policyVersion is number {
  if (Number.isSafeInteger(policyVersion)) return;
  throw new ValueError({
    where,
    input: 'policyVersion',
    expected: 'an integer',
    received: kindOf(policyVersion),
    remedy: 'number the versions of the policy, or leave it out',
  });
}

/** Characters of a worker id, at most. */
export const MOST_WORKER_ID = 1024;

/** @throws ValueError for anything but a number of seconds above 0; Infinity is never */
export function assertSeconds(where: string, option: string, value: number): void {
  if (value > 0) return;
  throw new ValueError({
    where,
    input: `options.${option}`,
    expected: 'a number of seconds above 0',
    received: kindOf(value),
    remedy: 'leave it out for the default, or pass Infinity for never',
  });
}
