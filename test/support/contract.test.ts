/** The contract's assertions refuse what the contract refuses. */

import { describe, expect, test } from 'vitest';

import { Moments } from '../../src/rows/moments.js';
import { emptyRow, liftRow, mergeRows } from '../../src/rows/row.js';
import { expectContract, m2Bound, meanBound } from './contract.js';

describe('the contract', () => {
  const of = (...values: number[]): Moments => new Moments(values.map(liftRow).reduce(mergeRows, emptyRow));
  const changed = (change: Partial<Moments>): Moments =>
    Object.assign(Object.create(Moments.prototype) as Moments, of(1, 2, 3), change);

  test('accepts what equals the reference', () => {
    expectContract(of(1, 2, 3), of(1, 2, 3), 'same');
    expectContract(of(), of(), 'empty');
    expectContract(of(NaN, 1), of(NaN, 1), 'not finite');
  });

  test.each([
    ['count', { count: 4 }],
    ['nan', { nan: 1 }],
    ['posInf', { posInf: 1 }],
    ['negInf', { negInf: 1 }],
    ['min', { min: 1 + 2 ** -52 }],
    ['max', { max: 3 - 2 ** -51 }],
    ['mean', { mean: 2 + 2.1e-6 }],
    ['mean', { mean: NaN }],
    ['sum', { sum: 6 + 6.1e-6 }],
    ['m2', { m2: 2 + 2.1e-5 }],
    ['m2', { m2: Infinity }],
  ] as const)('refuses a wrong %s', (field, change) => {
    expect(() => {
      expectContract(changed(change), of(1, 2, 3), 'case');
    }).toThrow(field);
  });

  test('bounds the mean by the larger of |mean| and std', () => {
    expect(meanBound(of(1e6, 1e6 + 1))).toBeCloseToReference(1, { rel: 1e-5 });
    expect(meanBound(of(-1000, 1000))).toBeCloseToReference(1e-3, { rel: 1e-12 });
    expect(meanBound(of(5))).toBeCloseToReference(5e-6, { rel: 1e-12 });
  });

  test('bounds m2 relatively, and by the ratio of 1e5 where the spread is smaller than that', () => {
    expect(m2Bound(of(-1, 1))).toBeCloseToReference(2e-5, { rel: 1e-12 });
    expect(m2Bound(of(1e5, 1e5))).toBeCloseToReference(2e-5, { rel: 1e-12 });
  });
});
