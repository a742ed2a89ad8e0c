/** Debug metrics on every backend against their definition, evaluated directly in float64. */
import { describe, expect, test } from 'vitest';

import { MissingInputError, ShapeError } from '../../src/errors.js';
import { type Metrics, computeDebugMetrics } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { seeded } from '../support/random.js';
import { type RolloutRow, resultOf, rolloutRows, written } from '../support/rollout-rows.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

/** The metrics of two lists of log-probabilities by their definition. */
function direct(actor: readonly number[], rollout: readonly number[]): Metrics {
  // Both are differences from 1, so that float64 has digits left where probabilities are near 1.
  const [x, y] = [actor.map(Math.expm1), rollout.map(Math.expm1)];
  const distances = x.map((p, i) => Math.abs(p - y[i]!));
  const [mx, my, md] = [mean(x), mean(y), mean(distances)];
  const sum = (xs: readonly number[]): number => xs.reduce((total, value) => total + value, 0);
  const products = (a: readonly number[], ma: number, b: readonly number[], mb: number): number =>
    sum(a.map((value, i) => (value - ma) * (b[i]! - mb)));
  return {
    'training/rollout_probs_diff_valid': 1,
    'training/rollout_probs_diff_max': Math.max(...distances),
    'training/rollout_probs_diff_mean': md,
    'training/rollout_probs_diff_std': Math.sqrt(products(distances, md, distances, md) / (x.length - 1)),
    'training/rollout_actor_probs_pearson_corr':
      products(x, mx, y, my) / Math.sqrt(products(x, mx, x, mx) * products(y, my, y, my)),
  };
}

function mean(xs: readonly number[]): number {
  return xs.reduce((sum, x) => sum + x, 0) / xs.length;
}

/** The metrics of one row of tokens. */
async function ofTokens(actor: readonly number[], rollout: readonly number[]): Promise<Metrics> {
  const tensor = (values: readonly number[]) => deviceTensor({ shape: [1, values.length], values });
  const [oldLogProbs, rolloutLogProbs] = [tensor(actor), tensor(rollout)];
  const computed = computeDebugMetrics({ batchSize: 1, oldLogProbs, rolloutLogProbs });
  oldLogProbs.dispose();
  rolloutLogProbs.dispose();
  return computed;
}

const CORRELATION = 'training/rollout_actor_probs_pearson_corr';

/** Relative bounds everywhere: a difference of probabilities is not to drown in the rounding of the probabilities. */
function expectClose(actual: Metrics, expected: Metrics): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, { rel: 1e-5 });
  }
}

describe('debug metrics are those of the definition', () => {
  test('for the tokens that the policy wrote', async () => {
    const rows = rolloutRows(3, { count: 12 });
    const metrics = await resultOf(computeDebugMetrics, rows);
    expectClose(metrics, direct(written(rows, 'old_log_probs'), written(rows, 'rollout_log_probs')));
  });

  test.each([
    ['near 1', 1e-6, 0],
    ['near 1e-4', 0.1, Math.log(1e-4)],
    ['anywhere', 3, 0],
  ])('for probabilities %s', async (_where, spread, offset) => {
    const random = seeded(21);
    const actor = Array.from({ length: 200 }, () => Math.fround(offset - spread * random()));
    const rollout = actor.map((x) => Math.fround(x + 0.01 * spread * (random() - 0.5)));
    const { [CORRELATION]: correlation, ...metrics } = await ofTokens(actor, rollout);
    const { [CORRELATION]: reference, ...expected } = direct(actor, rollout);
    expectClose(metrics, expected);
    // p − 1 in float32 is off by a spacing of 2⁻²⁴ or so where p is small, which counts as far as the spread is as small.
    const probs = actor.map(Math.exp);
    const variance = mean(probs.map((p) => (p - mean(probs)) ** 2));
    const noise = offset === 0 ? 0 : (4 * 2 ** -48) / variance;
    expect(correlation).toBeCloseToReference(reference!, { abs: 1e-6 + noise });
  });

  test('for policies that disagree about everything', async () => {
    const random = seeded(4);
    const probs = Array.from({ length: 100 }, () => 0.01 + 0.98 * random());
    const actor = probs.map((p) => Math.fround(Math.log(p)));
    const rollout = probs.map((p) => Math.fround(Math.log(1 - p)));
    const { [CORRELATION]: correlation } = await ofTokens(actor, rollout);
    expect(correlation).toBeCloseToReference(-1, { abs: 1e-6 });
    expect(correlation).toBeGreaterThanOrEqual(-1);
  });
});

test('tokens count alike however the batch is split', async () => {
  const rows = rolloutRows(8, { count: 10 });
  const parts = [rows.slice(0, 3), rows.slice(3, 4), rows.slice(4)];
  const whole = await resultOf(computeDebugMetrics, rows);
  const results = await Promise.all(parts.map((part) => resultOf(computeDebugMetrics, part)));
  const tokens = (part: readonly RolloutRow[]): number => written(part, 'old_log_probs').length;
  const key = 'training/rollout_probs_diff_mean';
  const merged =
    parts.map((part, i) => results[i]![key]! * tokens(part)).reduce((a, b) => a + b) / tokens(rows);
  expect(merged).toBeCloseToReference(whole[key]!, { rel: 2e-6 });
  const largest = Math.max(...results.map((part) => part['training/rollout_probs_diff_max']!));
  expect(largest).toBe(whole['training/rollout_probs_diff_max']);
});

describe('tokens of probability 0', () => {
  const nothing = -Infinity;

  test('differ from others by the probability of those, and not from each other', async () => {
    const metrics = await ofTokens([nothing, Math.log(0.25), nothing], [Math.log(0.5), nothing, nothing]);
    expect(metrics['training/rollout_probs_diff_max']).toBeCloseToReference(0.5, { rel: 1e-6 });
    expect(metrics['training/rollout_probs_diff_mean']).toBeCloseToReference(0.25, { rel: 1e-6 });
  });

  test('have no spread and so no correlation', async () => {
    const metrics = await ofTokens([nothing, nothing], [nothing, nothing]);
    expect(metrics['training/rollout_probs_diff_mean']).toBe(0);
    expect(metrics[CORRELATION]).toBeNaN();
  });
});

describe('debug metrics refuse', () => {
  test.each(['old_log_probs', 'rollout_log_probs'] as const)('a batch without %s', async (name) => {
    const refusal = expect(resultOf(computeDebugMetrics, rolloutRows(3), { without: [name] })).rejects;
    await refusal.toThrow(MissingInputError);
    await refusal.toThrow(name);
  });

  test('tensors of different width, with nothing else to tell the width', async () => {
    await expect(ofTokens([-1, -2], [-1, -2, -3])).rejects.toThrow(ShapeError);
  });
});
