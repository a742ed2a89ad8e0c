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
