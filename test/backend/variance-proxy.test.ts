/** Variance proxies on every backend against their definition, evaluated directly in float64. */
import { describe, expect, test } from 'vitest';

import { MissingInputError, ValueError } from '../../src/errors.js';
import {
  type VarianceProxies,
  computeVarianceProxyMetrics,
  varianceProxies,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import {
  type RolloutField,
  type RolloutRow,
  resultOf,
  rolloutRows,
  written,
} from '../support/rollout-rows.js';

await testBackend();

const NORM = 0.25;
const unweighted = { without: ['rollout_is_weights'] } as const;

function average(xs: readonly number[]): number {
  return xs.reduce((sum, x) => sum + x, 0) / xs.length;
}

function sum(xs: readonly number[]): number {
  return xs.reduce((total, x) => total + x, 0);
}

/** ‖e_y − π‖² of every written token of a row: at least its part (1 − π)², which rounded inputs may contradict. */
function scoreNorms(row: RolloutRow): number[] {
  const probs = written([row], 'old_log_probs').map(Math.exp);
  return written([row], 'sum_pi_squared').map((s, i) =>
    Math.max(1 - 2 * probs[i]! + s, (1 - probs[i]!) ** 2),
  );
}

/** The proxies by their definition; `weightOf` gives the importance weights of a row. */
function direct(
  rows: readonly RolloutRow[],
  weightOf: (row: RolloutRow) => readonly number[],
): VarianceProxies {
  const used = rows.filter((row) => row.response_mask.includes(1));
  const advantage = used.map((row) => average(written([row], 'advantages')));
  const rho = used.map((row) => average(weightOf(row)));
  const totalPower = average(used.map((row, i) => (rho[i]! * advantage[i]!) ** 2 * sum(scoreNorms(row))));
  return {
    signalStrength: NORM ** 2,
    totalPower,
    pureNoise: Math.max((totalPower - NORM ** 2) / (used.length - 1), 0),
    expectedASquared: average(advantage.map((a) => a * a)),
    expectedW: average(used.map((row) => sum(scoreNorms(row).map((w, i) => w * weightOf(row)[i]! ** 2)))),
    rows: used.length,
  };
}

const ones = (row: RolloutRow): number[] => written([row], 'advantages').map(() => 1);
const weights = (row: RolloutRow): number[] => written([row], 'rollout_is_weights');

describe('variance proxies are those of the definition', () => {
  const rows = rolloutRows(3, { count: 12 });

  test.each([
    ['without importance weights', unweighted, ones],
    ['with importance weights', {}, weights],
  ] as const)('%s', async (_what, layout, weightOf) => {
    const proxies = await resultOf((batch) => varianceProxies(batch, { gradientNorm: NORM }), rows, layout);
    const expected = direct(rows, weightOf);
    expect(proxies.rows).toBe(11);
    for (const [name, value] of Object.entries(expected)) {
      expect(proxies[name as keyof VarianceProxies], name).toBeCloseToReference(value as number, {
        rel: 2e-6,
      });
    }
  });

  test('where the policy is all but certain', async () => {
    // w is about 1e-6 here. In float32 the textbook order, 1 − 2π + Σπ², is off by the rounding of 2π: 1e-7. Taken
    // from q = 1 − π, what is left is the rounding of 2q and of the sum: three halves of a unit of a number of 4e-3.
    const certain = rolloutRows(5, { count: 12, leastProb: 0.998 });
    const proxies = await resultOf((batch) => varianceProxies(batch), certain, unweighted);
    const { expectedW } = direct(certain, ones);
    const tokens = written(certain, 'advantages').length / 11;
    expect(proxies.expectedW).toBeCloseToReference(expectedW, { abs: tokens * 1.5 * 4e-3 * 2 ** -24 });
  });
});

test('rows are weighed as rows however the batch is split', async () => {
  const rows = rolloutRows(8, { count: 10 });
  const whole = await resultOf((batch) => varianceProxies(batch), rows);
  const parts = [rows.slice(0, 3), rows.slice(3, 4), rows.slice(4)];
  const results = await Promise.all(parts.map((part) => resultOf((batch) => varianceProxies(batch), part)));
  expect(sum(results.map((part) => part.rows))).toBe(whole.rows);
  for (const name of ['totalPower', 'expectedASquared', 'expectedW'] as const) {
    const merged = sum(results.map((part) => part[name] * part.rows)) / whole.rows;
    expect(merged, name).toBeCloseToReference(whole[name], { rel: 2e-6 });
  }
});

test('a weight of 0 takes the token out of the weighted sum and no other out of the unweighted one', async () => {
  const rows = rolloutRows(9, { count: 4 }).map((row) => ({
    ...row,
    rollout_is_weights: row.rollout_is_weights.map((rho, token) => (token === 0 ? 0 : rho)),
  }));
  const proxies = await resultOf((batch) => varianceProxies(batch, { gradientNorm: NORM }), rows);
  const expected = direct(rows, weights);
  expect(proxies.totalPower).toBeCloseToReference(expected.totalPower, { rel: 2e-6 });
  expect(proxies.expectedW).toBeCloseToReference(expected.expectedW, { rel: 2e-6 });
});

describe('what cannot be known', () => {
  const rows = rolloutRows(3);

  test.each(['old_log_probs', 'advantages', 'sum_pi_squared', 'response_mask'] as const)(
    'a batch without %s is refused by that name',
    async (name) => {
      const without = [name as RolloutField];
      const refusal = expect(resultOf((batch) => varianceProxies(batch), rows, { without })).rejects;
      await refusal.toThrow(MissingInputError);
      await refusal.toThrow(name);
    },
  );

  test('the presets are silent about a missing input, but for the mask', async () => {
    const compute = (without: readonly (RolloutField | 'response_mask')[]) =>
      resultOf((batch) => computeVarianceProxyMetrics(batch, { semantics: 'verl-2026-08' }), rows, {
        without,
      });
    expect(await compute(['sum_pi_squared'])).toEqual({});
    await expect(compute(['response_mask'])).rejects.toThrow('response_mask');
  });

  test('the norm of a diverged run shows', async () => {
    const proxies = await resultOf((batch) => varianceProxies(batch, { gradientNorm: NaN }), rows);
    expect([proxies.signalStrength, proxies.pureNoise]).toEqual([NaN, NaN]);
    expect(proxies.totalPower).toBeGreaterThan(0);
  });

  test('a negative norm is refused', async () => {
    const refused = resultOf((batch) => varianceProxies(batch, { gradientNorm: -1 }), rows);
    await expect(refused).rejects.toThrow(ValueError);
  });
});
