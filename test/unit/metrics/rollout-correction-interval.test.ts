/** Criteria on tokens as intervals of the log ratio: the same tokens are kept as by the estimators' definitions. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { evaluate } from '../../../src/kernels/expression.js';
import {
  type Interval,
  insideRange,
  intersection,
  isIn,
  keptBy,
} from '../../../src/metrics/rollout-correction/interval.js';
import type { Rejection } from '../../../src/metrics/rollout-correction/options.js';
import { semanticsNames } from '../../../src/metrics/semantics.js';
import { runsOf } from '../../support/long.js';

const DEFINITIONS = {
  k1: (x: number) => -x,
  k2: (x: number) => (x * x) / 2,
  k3: (x: number) => Math.expm1(x) - x,
} as const;

/** Whether the expression of the interval selects a token of log ratio `x`. */
function selects(interval: Interval, x: number): boolean {
  return evaluate(isIn(interval), (name) => (name === 'oldLogProbs' ? x : 0)) === 1;
}

function criterion(estimator: Rejection['estimator'], lower: number, upper: number): Rejection {
  return { name: `token_${estimator}`, aggregate: 'token', estimator, lower, upper };
}

/** Only what overflows is cut. */
const cut = (x: number, estimator: Rejection['estimator']): number =>
  estimator === 'k3' ? Math.min(20, x) : x;
const held = (x: number): number => Math.min(20, Math.max(-20, x));
const logRatios = fc.oneof(
  fc.double({ min: -25, max: 25, noNaN: true }),
  fc.double({ min: -0.1, max: 0.1, noNaN: true }),
  fc.constantFrom(-Infinity, Infinity, 0, -20, 20, 1000, -1000),
);

describe.each(['k1', 'k2', 'k3'] as const)('%s', (estimator) => {
  const uppers =
    estimator === 'k1'
      ? fc.double({ min: -24, max: 24, noNaN: true })
      : fc.double({ min: 1e-3, max: 6e8, noNaN: true });

  test.each(semanticsNames)('keeps what its definition keeps: %s', (semantics) => {
    fc.assert(
      fc.property(logRatios, uppers, fc.double({ min: 0, max: 30, noNaN: true }), (x, upper, width) => {
        const lower = estimator === 'k1' ? upper - width : -Infinity;
        const value = DEFINITIONS[estimator](semantics === 'recommended' ? cut(x, estimator) : held(x));
        const distance = Math.min(Math.abs(value - upper), Math.abs(value - lower));
        fc.pre(distance > 1e-12 * Math.max(1, Math.abs(value))); // on the bound itself rounding decides
        const kept = keptBy(criterion(estimator, lower, upper), semantics);
        expect(selects(kept, x)).toBe(value >= lower && value <= upper);
      }),
      { numRuns: runsOf(2000) },
    );
  });

  test('keeps no NaN, however wide it is', () => {
    const lower = estimator === 'k1' ? -30 : -Infinity;
    const kept = keptBy(criterion(estimator, lower, 1e9), 'verl-2026-08');
    expect(kept).toEqual({ low: -Infinity, high: Infinity });
    expect(selects(kept, NaN)).toBe(false);
    expect(selects(kept, Infinity)).toBe(true);
    expect(selects(keptBy(criterion(estimator, lower, 1e9), 'recommended'), NaN)).toBe(false);
  });
});

test('the ends of k3 are where it has the value, also where float64 differences cancel', () => {
  for (const upper of [1e-16, 1e-10, 1e-3, 0.2, 5, 1e6]) {
    const { low, high } = keptBy(criterion('k3', -Infinity, upper), 'recommended');
    if (upper < 1e-9) {
      // There k3 is x²/2 up to a share of x/3.
      expect(-low / Math.sqrt(2 * upper)).toBeCloseTo(1, 4);
      expect(high / Math.sqrt(2 * upper)).toBeCloseTo(1, 4);
    } else {
      expect(DEFINITIONS.k3(high) / upper).toBeCloseTo(1, 6);
      expect(DEFINITIONS.k3(low) / upper).toBeCloseTo(1, 6);
    }
  }
});

test('bounds beyond what a preset holds log ratios to keep nothing', () => {
  const nothing = keptBy(criterion('k1', 21, 22), 'verl-2026-08');
  for (const x of [-Infinity, -25, -20, 0, 25, NaN]) expect(selects(nothing, x)).toBe(false);
});

test('recommended compares log ratios beyond ±20 as they are', () => {
  const k1 = keptBy(criterion('k1', 21, 22), 'recommended');
  expect([-20, -21.5, -23, 21.5].map((x) => selects(k1, x))).toEqual([false, true, false, false]);
  const k2 = keptBy(criterion('k2', -Infinity, 300), 'recommended');
  expect([24, -24, 25, -25].map((x) => selects(k2, x))).toEqual([true, true, false, false]);
  const k3 = keptBy(criterion('k3', -Infinity, 50), 'recommended');
  expect([-50.9, -51.1, -1000].map((x) => selects(k3, x))).toEqual([true, false, false]);
});

test('a range of weights is one of log ratios', () => {
  const range = insideRange(0.5, 5);
  expect([0.49, 0.51, 4.9, 5.1].map((w) => selects(range, Math.log(w)))).toEqual([false, true, true, false]);
});

test('what several keep is what all keep', () => {
  expect(intersection([])).toBeUndefined();
  const both = intersection([
    { low: -1, high: 3 },
    { low: -2, high: 2 },
  ])!;
  expect(both).toEqual({ low: -1, high: 2 });
  const none = intersection([
    { low: 1, high: 2 },
    { low: 3, high: 4 },
  ])!;
  expect([1.5, 3.5].map((x) => selects(none, x))).toEqual([false, false]);
});

test('the intersection of more intervals than a call has arguments is theirs', () => {
  const many = Array.from({ length: 200_000 }, (_, i): Interval => ({ low: i / 1e6, high: 1 - i / 1e6 }));
  expect(intersection(many)).toEqual({ low: 0.199999, high: 0.800001 });
});
