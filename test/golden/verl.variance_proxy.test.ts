/** Golden variance proxies: every case under every semantics, on the backend of this project. */
import { describe, expect, test } from 'vitest';

import { MissingInputError } from '../../src/errors.js';
import { computeVarianceProxyMetrics, semanticsNames, varianceProxies } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { type GoldenCase, loadGolden } from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { expectReference, goldenBatch } from '../support/verl-cases.js';

await testBackend();
const { cases } = loadGolden('verl.variance_proxy');

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(23);
});

function gradientNormOf({ options }: GoldenCase): number | undefined {
  return (options.gradient_norm ?? undefined) as number | undefined;
}

describe.each(semanticsNames)('golden variance proxies: %s', (semantics) => {
  // verl says nothing about a batch that lacks an input; recommended names what is missing.
  const answered = cases.filter(({ id }) => semantics !== 'recommended' || id !== 'missing');

  test.each(answered)('$id', async (golden) => {
    const metrics = await expectNoLeaks(async () => {
      const { batch, dispose } = goldenBatch(golden);
      const computed = computeVarianceProxyMetrics(batch, {
        gradientNorm: gradientNormOf(golden),
        semantics,
      });
      dispose();
      return computed;
    });
    expectReference(golden, semantics, metrics);
  });
});

test('missing under recommended is refused by the name of the input', async () => {
  const { batch, dispose } = goldenBatch(cases.find(({ id }) => id === 'missing')!);
  const refused = expect(computeVarianceProxyMetrics(batch)).rejects;
  await refused.toThrow(MissingInputError);
  await refused.toThrow('old_log_probs');
  dispose();
});

describe('the structured proxies', () => {
  test.each(cases.filter(({ id }) => id !== 'missing'))('of $id are those of the metrics', async (golden) => {
    const { batch, dispose } = goldenBatch(golden);
    const options = { gradientNorm: gradientNormOf(golden) };
    const proxies = await varianceProxies(batch, options);
    expect(proxies.rows).toBe(golden.counts?.nonempty_rows);
    expect(await computeVarianceProxyMetrics(batch, options)).toEqual({
      'variance_proxy/proxy1_signal_strength': proxies.signalStrength,
      'variance_proxy/proxy2_total_power': proxies.totalPower,
      'variance_proxy/proxy3_pure_noise': proxies.pureNoise,
      'variance_proxy/expected_a_squared': proxies.expectedASquared,
      'variance_proxy/expected_w': proxies.expectedW,
    });
    dispose();
  });
});
