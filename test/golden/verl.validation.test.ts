/** Golden validation metrics: the exact numbers of both ways to draw, and the bootstrap within its own error. */
import { describe, expect, test } from 'vitest';

import { ShapeError } from '../../src/errors.js';
import { type InfoColumn, type ValidationReport, processValidationMetrics } from '../../src/metrics/index.js';
import { type GoldenCase, type Tolerance, loadGolden } from '../support/golden.js';

/** source → variable → metric → number */
type Nested = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, number>>>>>>;

interface ValidationCase extends Omit<GoldenCase, 'expected'> {
  readonly expected?: Readonly<Record<'verl' | 'with-replacement' | 'without-replacement', Nested>>;
  readonly recommended?: Nested;
  readonly standardErrors?: Readonly<Record<'with-replacement', Nested>>;
  readonly prompts?: Nested;
  readonly finalKeys?: readonly string[];
  readonly monteCarloTolerance?: Tolerance;
}

const { cases } = loadGolden<ValidationCase & GoldenCase>('verl.validation') as {
  cases: readonly ValidationCase[];
};
const answered = cases.filter(({ expected }) => expected !== undefined);
/** A metric that verl does not have. */
const OURS = /\/pass[@^]\d+$/;

function reportOf(
  { inputs }: ValidationCase,
  options: Parameters<typeof processValidationMetrics>[3] = {},
): ValidationReport {
  const [sources, uids, infos] = [inputs.data_sources, inputs.sample_uids, inputs.infos];
  return processValidationMetrics(
    sources as string[],
    uids as string[],
    infos as Record<string, InfoColumn>,
    options,
  );
}

/** `<source>/<variable>/<metric>` → number, without the prefix that the report puts before it. */
function unprefixed(numbers: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(numbers)
      .filter(([key]) => !OURS.test(key))
      .map(([key, value]) => [key.replace(/^val-(core|aux)\//, ''), value]),
  );
}

function flat(nested: Nested): Record<string, number> {
  return Object.fromEntries(
    Object.entries(nested).flatMap(([source, variables]) =>
      Object.entries(variables).flatMap(([variable, metrics]) =>
        Object.entries(metrics).map(([metric, value]) => [`${source}/${variable}/${metric}`, value]),
      ),
    ),
  );
}

function expectClose(
  actual: Record<string, number>,
  expected: Record<string, number>,
  bound: Tolerance,
): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, bound);
  }
}

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(24);
  expect(answered).toHaveLength(20);
});

describe('golden validation metrics', () => {
  test.each(answered)('$id: exact, with replacement', (golden) => {
    const { metrics } = reportOf(golden);
    expectClose(unprefixed(metrics), flat(golden.expected!['with-replacement']), golden.tolerance);
  });

  test.each(answered)('$id: exact, without replacement', (golden) => {
    const { metrics } = reportOf(golden, { replacement: false });
    expectClose(unprefixed(metrics), flat(golden.expected!['without-replacement']), golden.tolerance);
  });

  test.each(answered)('$id: verl, within the error of its bootstrap', (golden) => {
    const { metrics } = reportOf(golden);
    const means = Object.entries(flat(golden.expected!.verl)).filter(([key]) => !key.endsWith('/std'));
    const ours = unprefixed(metrics);
    for (const [key, value] of means) {
      expect(ours[key], key).toBeCloseToReference(value, golden.monteCarloTolerance!);
    }
  });

  test.each(answered)('$id: our bootstrap, within its error', (golden) => {
    const { metrics } = reportOf(golden, { estimator: 'bootstrap' });
    const [ours, exact] = [unprefixed(metrics), flat(golden.expected!['with-replacement'])];
    expect(Object.keys(ours).sort()).toEqual(Object.keys(exact).sort());
    for (const [key, value] of Object.entries(exact).filter(([name]) => !name.endsWith('/std'))) {
      expect(ours[key], key).toBeCloseToReference(value, golden.monteCarloTolerance!);
    }
  });

  test.each(answered)('$id: names, core or auxiliary', (golden) => {
    const { metrics } = reportOf(golden);
    const keys = Object.keys(metrics).filter((key) => !OURS.test(key));
    expect(keys.sort()).toEqual([...golden.finalKeys!].sort());
  });

  test.each(answered)('$id: standard errors and prompts', (golden) => {
    const { standardErrors, prompts } = reportOf(golden);
    const errors = unprefixed(standardErrors);
    for (const [key, value] of Object.entries(flat(golden.standardErrors!['with-replacement']))) {
      expect(errors[key], key).toBeCloseToReference(value, golden.tolerance);
    }
    expect(unprefixed(prompts)).toEqual(flat(golden.prompts!));
  });
});

describe('golden validation metrics that verl refuses', () => {
  const refused = cases.filter(({ expectedError }) => expectedError !== undefined);

  test.each(refused.filter(({ recommended }) => recommended !== undefined))('$id', (golden) => {
    const { metrics, samples } = reportOf(golden);
    expectClose(unprefixed(metrics), flat(golden.recommended!), golden.tolerance);
    expect(samples['s/acc']).toMatchObject({ used: 2, nan: 0 });
    const { missing, notNumeric } = samples['s/acc']!;
    expect([missing, notNumeric]).toEqual(golden.id === 'string-later' ? [0, 1] : [1, 0]);
  });

  test.each(refused.filter(({ recommended }) => recommended === undefined))('$id', (golden) => {
    expect(golden.expectedError!.kind).toBe('length_mismatch');
    expect(() => reportOf(golden)).toThrow(ShapeError);
  });
});
