/**
 * Random tests have two lengths: short ones for `npm test`, full ones with TENSORTALLY_TEST_LONG=1, as .ci/run has it.
 * No law is left out of a short run, only some of its cases. Not a test.
 */

export const isLong = process.env.TENSORTALLY_TEST_LONG === '1';

/** Runs of a random law: all of them in a long run, a quarter in a short one. */
export function runsOf(all: number): number {
  return isLong ? all : Math.ceil(all / 4);
}
