/** pass@k and pass^k: identities, digits where there are few, and what is no count. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ValueError } from '../../../src/errors.js';
import { passAtK, passHatK } from '../../../src/metrics/index.js';

const counts = fc
  .integer({ min: 1, max: 300 })
  .chain((n) => fc.tuple(fc.constant(n), fc.integer({ min: 0, max: n }), fc.integer({ min: 1, max: n })));

describe('pass@k and pass^k', () => {
  test('complete each other: none of k passes as all of k fail', () => {
    fc.assert(
      fc.property(counts, ([n, c, k]) => {
        // A product of at most 300 factors of relative error 2^-52 each.
        expect(1 - passAtK(n, c, k)).toBeCloseToReference(passHatK(n, n - c, k), { abs: 1e-13 });
      }),
    );
  });

  test('of one sample are the share that passes', () => {
    fc.assert(
      fc.property(counts, ([n, c]) => {
        expect(passAtK(n, c, 1)).toBeCloseToReference(c / n, { rel: 1e-13 });
        expect(passHatK(n, c, 1)).toBeCloseToReference(c / n, { rel: 1e-13 });
      }),
    );
  });

  test('of all samples are certain', () => {
    fc.assert(
      fc.property(counts, ([n, c]) => {
        expect(passAtK(n, c, n)).toBe(c > 0 ? 1 : 0);
        expect(passHatK(n, c, n)).toBe(c === n ? 1 : 0);
      }),
    );
  });

  test('follow from one sample more: a recurrence over k', () => {
    fc.assert(
      fc.property(counts, ([n, c, k]) => {
        fc.pre(k < n && k <= c);
        const expected = (passHatK(n, c, k) * (c - k)) / (n - k);
        expect(passHatK(n, c, k + 1)).toBeCloseToReference(expected, { rel: 1e-13 });
      }),
    );
  });

  test('keep their digits where they are small, and stay in range where factorials do not', () => {
    expect(passAtK(1e12, 1, 1)).toBeCloseToReference(1e-12, { rel: 1e-15 });
    expect(passAtK(1e9, 3, 2)).toBeCloseToReference(6e-9, { rel: 1e-8 });
    expect(passAtK(100_000, 50_000, 50_000)).toBe(1);
    expect(passHatK(1e6, 999_999, 500_000)).toBe(0.5);
  });

  test.each([
    [0, 0, 1, 'n'],
    [2.5, 0, 1, 'n'],
    [4, -1, 1, 'c'],
    [4, 5, 1, 'c'],
    [4, NaN, 1, 'c'],
    [4, 1, 0, 'k'],
    [4, 1, 5, 'k'],
    [4, 1, '2', 'k'],
  ])('refuse n = %s, c = %s, k = %s', (n, c, k, input) => {
    for (const [name, rate] of Object.entries({ passAtK, passHatK })) {
      const call = () => (rate as (...given: unknown[]) => number)(n, c, k);
      expect(call).toThrow(ValueError);
      expect(call).toThrow(`${name}: ${input}:`);
    }
  });
});

describe('numbers of samples beyond what can be multiplied one by one', () => {
  // From log-gamma functions with 60 digits.
  test.each([
    [2 ** 40, 2 ** 39, 2 ** 39, 1],
    [2 ** 40, 1e6, 1e6, 0.59727266292201],
    [2 ** 53 - 1, 1e8, 1e7, 0.105081210792991],
    [1e9, 7e4, 7e4, 0.9925559708593756],
    [1e9, 1e5, 3e5, 0.999999999999907],
    [2 ** 40, 7e4, 2 ** 20, 0.06457773947452006],
    [5e6, 66_000, 66_000, 1],
  ])('passAtK(%d, %d, %d)', (n, c, k, expected) => {
    expect(Math.abs(passAtK(n, c, k) - expected)).toBeLessThanOrEqual(1e-14 * expected);
    expect(passAtK(n, k, c)).toBe(passAtK(n, c, k));
  });

  test.each([
    [2 ** 40, 2 ** 40 - 1e6, 1e6, 0.40272733707799],
    [1e9, 1e9 - 7e4, 7e4, 0.007444029140624452],
    [2 ** 40, 2 ** 40 - 2 ** 22, 2 ** 24, 1.60283228933998e-28],
    [5e6, 5e6 - 66_000, 66_000, 0],
    [2 ** 40, 2 ** 39, 2 ** 38, 0],
  ])('passHatK(%d, %d, %d)', (n, c, k, expected) => {
    expect(Math.abs(passHatK(n, c, k) - expected)).toBeLessThanOrEqual(1e-13 * expected);
  });

  test('meet those that are multiplied', () => {
    const n = 2 ** 31;
    const [below, above] = [2 ** 16, 2 ** 16 + 1].map((c) => passAtK(n, c, 2 ** 17));
    // One sample more of which each of the k would be right.
    expect((1 - above!) / (1 - below!)).toBeCloseTo(1 - 2 ** 17 / (n - 2 ** 16), 12);
  });
});
