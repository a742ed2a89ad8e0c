/**
 * Comparisons in metrics: with a NaN there is no answer.
 *
 * In IEEE arithmetic a comparison with NaN is false, so a fraction that counts the true ones takes a token that nobody
 * knows for one that was not clipped. Under `recommended` such a fraction is NaN, as the mean beside it is.
 */
import { type Expression, equal, select } from '../../kernels/expression.js';
import type { Semantics } from '../semantics.js';
import { fraction } from './statistics.js';

/** `comparison`, and NaN where `compared` is NaN; under the verl presets the comparison as it is. */
export function known(compared: Expression, comparison: Expression, semantics: Semantics): Expression {
  return semantics === 'recommended' ? select(equal(compared, compared), comparison, compared) : comparison;
}

/** Fraction of `values` for which `holds`; NaN for none, and under `recommended` if one of them is NaN. */
export function knownFraction(
  values: ArrayLike<number> & Iterable<number>,
  semantics: Semantics,
  holds: (value: number) => boolean,
): number {
  if (semantics === 'recommended' && Array.from(values).some(Number.isNaN)) return NaN;
  return fraction(values, holds);
}
