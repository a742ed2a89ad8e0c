/** Finished moments: what a row says about its elements, under a policy for those that are not finite. */
import { kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import { type MomentsRow, finiteCount, finiteMean } from './row.js';

/** What happens to NaN and ±Infinity among the selected elements when a row is finished. */
export type NonFinitePolicy = 'propagate' | 'ignore';

/** @throws ValueError for anything but a policy */
export function assertNonFinitePolicy(where: string, nonFinite: string): void {
  if (nonFinite === 'propagate' || nonFinite === 'ignore') return;
  throw new ValueError({
    where,
    input: 'options.nonFinite',
    expected: "'propagate' or 'ignore'",
    received: kindOf(nonFinite),
    remedy: "leave it out for 'propagate'",
  });
}

/**
 * Finished moments of the selected elements.
 *
 * An empty selection has `count` 0, `sum` 0, `m2` 0 and NaN for the rest. Under the default policy *propagate* a
 * selected NaN makes `sum`, `mean`, `m2`, `min` and `max` NaN; selected infinities show as IEEE arithmetic would show
 * them. Under *ignore* they are left out, also from `count`. `nan`, `posInf` and `negInf` report them either way.
 */
export class Moments {
  /** Elements that the moments are about. */
  readonly count: number;
  /** Selected elements that are NaN. */
  readonly nan: number;
  /** Selected elements that are +Infinity. */
  readonly posInf: number;
  /** Selected elements that are −Infinity. */
  readonly negInf: number;
  readonly sum: number;
  readonly mean: number;
  /** Sum of squared deviations from the mean. */
  readonly m2: number;
  readonly min: number;
  readonly max: number;

  constructor(row: MomentsRow, nonFinite: NonFinitePolicy = 'propagate') {
    const n = finiteCount(row);
    this.nan = row.nan;
    this.posInf = row.posInf;
    this.negInf = row.negInf;
    // By the elements themselves: beside a count beyond 2^53 a few of them would round away.
    const isFinite = row.nan === 0 && row.posInf === 0 && row.negInf === 0;
    if (nonFinite === 'ignore' || isFinite) {
      this.count = n;
      this.sum = row.sum;
      this.mean = finiteMean(row);
      this.m2 = Number.isFinite(row.sum) ? row.m2 : row.min === row.max ? 0 : Infinity;
      this.min = n === 0 ? NaN : row.min;
      this.max = n === 0 ? NaN : row.max;
      return;
    }
    this.count = row.count;
    // Something selected is not finite, so the sum is ±Infinity, or NaN as soon as the parts contradict each other.
    this.sum = (row.nan > 0 ? NaN : 0) + (row.posInf > 0 ? Infinity : 0) + (row.negInf > 0 ? -Infinity : 0);
    this.mean = this.sum;
    this.m2 = NaN;
    this.min = row.nan > 0 ? NaN : row.negInf > 0 ? -Infinity : n > 0 ? row.min : Infinity;
    this.max = row.nan > 0 ? NaN : row.posInf > 0 ? Infinity : n > 0 ? row.max : -Infinity;
  }

  /**
   * m2 / (count − correction): `correction` 1 (default) is the unbiased sample variance as in torch, 0 the population
   * variance. NaN where count ≤ correction.
   */
  variance(correction = 1): number {
    return this.count > correction ? this.m2 / (this.count - correction) : NaN;
  }

  /** Square root of `variance(correction)`. */
  std(correction = 1): number {
    return Math.sqrt(this.variance(correction));
  }
}
