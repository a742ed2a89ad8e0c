/** The matcher that every numerical test relies on is itself held to account. */

import { describe, expect, test } from 'vitest';

import { mismatches } from './matchers.js';

describe('toBeCloseToReference', () => {
  const HUGE = { abs: 1e300, rel: 1e300 };

  test.each([
    [5, Infinity],
    [Infinity, 5],
    [Infinity, -Infinity],
    [-Infinity, Infinity],
    [NaN, Infinity],
    [Infinity, NaN],
    [NaN, 5],
    [5, NaN],
  ])('refuses %d for %d however wide the bound', (actual, reference) => {
    expect(mismatches([actual], [reference], HUGE)).toHaveLength(1);
    expect(() => {
      expect(actual).toBeCloseToReference(reference, HUGE);
    }).toThrow(/where the reference is/);
  });

  test.each([NaN, Infinity, -Infinity, 0, 5e-324, -3])('accepts %d for itself without any bound', (x) => {
    expect(x).toBeCloseToReference(x, {});
  });

  test('allows abs + rel · |reference| and no more', () => {
    expect(101).toBeCloseToReference(100, { rel: 0.01 });
    expect(101.5).toBeCloseToReference(100, { rel: 0.01, abs: 0.5 });
    expect(mismatches([101.1], [100], { rel: 0.01 })).toHaveLength(1);
    expect(mismatches([-100], [100], { rel: 1 })).toHaveLength(1);
    expect(mismatches([1e-300], [0], {})).toHaveLength(1);
  });

  test('takes one absolute bound per element', () => {
    expect(mismatches([1, 1, 1], [1.5, 1.5, 1.5], { abs: [1, 0.1, 1] }).map((m) => m.index)).toEqual([1]);
  });

  test('a NaN bound allows nothing', () => {
    expect(mismatches([1], [1.5], { abs: NaN })).toHaveLength(1);
  });

  test('lists must be of one length', () => {
    expect(() => {
      expect([1, 2]).toBeCloseToReference([1], {});
    }).toThrow(/has 2 elements, the reference 1/);
    expect(() => {
      expect([]).toBeCloseToReference([1], {});
    }).toThrow(/has 0 elements/);
  });

  test('a failure names index, both values and how far beyond the bound', () => {
    expect(() => {
      expect([1, 2, 4]).toBeCloseToReference([1, 2, 3], { abs: 0.25 });
    }).toThrow(/1 of 3 .*\n.*\[2\] 4 \(reference 3\).*4\.00 times the bound 0\.25/);
  });

  test('can be negated', () => {
    expect(5).not.toBeCloseToReference(6, { abs: 0.5 });
    expect(() => {
      expect(5).not.toBeCloseToReference(5, {});
    }).toThrow(/all 1 elements are close/);
  });
});
