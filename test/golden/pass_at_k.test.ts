/** Golden pass@k and pass^k, from rational arithmetic; and best and worst of pass or fail, which they generalise. */
import { describe, expect, test } from 'vitest';

import { ValueError } from '../../src/errors.js';
import { passAtK, passHatK } from '../../src/metrics/index.js';
import { bestOf, chancesToBeBest, worstOf } from '../../src/metrics/validation/order-statistics.js';
import { loadGolden, referenceOf } from '../support/golden.js';

const { cases } = loadGolden('pass_at_k');
const counts = (inputs: Readonly<Record<string, unknown>>): [n: number, c: number, k: number] => [
  inputs.n as number,
  inputs.c as number,
  inputs.k as number,
];

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(19);
});

describe('golden pass@k', () => {
  test.each(cases.filter(({ expectedError }) => expectedError === undefined))('$id', (golden) => {
    const [n, c, k] = counts(golden.inputs);
    const exact = referenceOf(golden, 'exact') as Record<string, number>;
    const sorted = new Float64Array(n).fill(1, n - c);
    const withReplacement = chancesToBeBest(n, k, true);
    const found: Record<string, number> = {
      pass_at_k: passAtK(n, c, k),
      pass_hat_k: passHatK(n, c, k),
      best_with_replacement: bestOf(sorted, withReplacement).mean,
      worst_with_replacement: worstOf(sorted, withReplacement).mean,
    };
    expect(Object.keys(exact).sort()).toEqual(Object.keys(found).sort());
    for (const [key, value] of Object.entries(exact)) {
      expect(found[key], key).toBeCloseToReference(value, golden.tolerance);
    }
    // Without replacement, best and worst of pass or fail are pass@k and pass^k.
    const without = chancesToBeBest(n, k, false);
    expect(bestOf(sorted, without).mean).toBeCloseToReference(exact.pass_at_k!, golden.tolerance);
    expect(worstOf(sorted, without).mean).toBeCloseToReference(exact.pass_hat_k!, golden.tolerance);
  });

  test.each(cases.filter(({ expectedError }) => expectedError !== undefined))('$id', (golden) => {
    expect(golden.expectedError!.kind).toBe('invalid_argument');
    expect(() => passAtK(...counts(golden.inputs))).toThrow(ValueError);
    expect(() => passHatK(...counts(golden.inputs))).toThrow(ValueError);
  });
});
