/** Whether two ways to compute something agree; nothing is timed before they do. */

/** Named results, in the form in which ways are compared. */
export type Numbers = Readonly<Record<string, number>>;

/** How far apart is still the same: |a − b| ≤ absolute + relative · max(|a|, |b|). */
export interface Closeness {
  readonly relative: number;
  readonly absolute: number;
}

/** The results of a way that are not what the scenario expects. */
export class DisagreementError extends Error {
  override readonly name = 'DisagreementError';

  constructor(way: string, differences: readonly string[]) {
    const shown = differences.slice(0, 5).join('; ');
    const rest = differences.length > 5 ? `; and ${differences.length - 5} more` : '';
    super(`${way} computes something else, so nothing is timed: ${shown}${rest}`);
  }
}

/**
 * Holds what a way computed against what is expected; NaN agrees with NaN, an infinity with itself.
 *
 * @throws DisagreementError naming the way and the first differences, a missing key being one
 */
export function assertAgreement(
  way: string,
  expected: Numbers,
  got: Numbers,
  { relative, absolute }: Closeness,
): void {
  const differences = Object.entries(expected).flatMap(([key, a]) => {
    const b = got[key];
    if (b === undefined) return [`${key} is missing`];
    if (Object.is(a, b)) return [];
    // Next to an infinity everything would be close.
    const isClose =
      Number.isFinite(a) &&
      Number.isFinite(b) &&
      Math.abs(a - b) <= absolute + relative * Math.max(Math.abs(a), Math.abs(b));
    return isClose ? [] : [`${key} is ${b}, expected ${a}`];
  });
  if (Object.keys(expected).length === 0) differences.push('nothing was expected of it');
  if (differences.length > 0) throw new DisagreementError(way, differences);
}
