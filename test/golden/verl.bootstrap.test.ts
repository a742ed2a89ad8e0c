/** Golden bootstrap statistics, within the error of so many draws; golden majority values, exactly. */
import { describe, expect, test } from 'vitest';

import { ValueError } from '../../src/errors.js';
import { bootstrapMetric, calcMajVal } from '../../src/metrics/index.js';
import { type GoldenCase, type Tolerance, loadGolden, referenceOf } from '../support/golden.js';

interface BootstrapCase extends GoldenCase {
  readonly monteCarloTolerance?: Tolerance;
}

const { cases } = loadGolden<BootstrapCase>('verl.bootstrap');
const ofOp = (op: string): BootstrapCase[] => cases.filter(({ options }) => options.op === op);

const REDUCERS: Readonly<Record<string, (draw: readonly number[]) => number>> = {
  mean: (draw) => draw.reduce((sum, x) => sum + x, 0) / draw.length,
  max: (draw) => Math.max(...draw),
  min: (draw) => Math.min(...draw),
};

function bootstrapped({ inputs, options }: BootstrapCase): Record<string, number> {
  const names = options.reducers as string[];
  const pairs = bootstrapMetric(
    inputs.data as number[],
    options.subset_size as number,
    names.map((name) => REDUCERS[name]!),
    { nBootstrap: options.n_bootstrap as number, seed: options.seed as number },
  );
  return Object.fromEntries(
    pairs.flatMap(([mean, std], i) => [
      [`${names[i]!}/mean`, mean],
      [`${names[i]!}/std`, std],
    ]),
  );
}

function majority({ inputs }: BootstrapCase): number {
  const [pred, val] = [inputs.pred as string[], inputs.val as number[]];
  return calcMajVal(
    pred.map((label, i) => ({ label, val: val[i] })),
    'label',
    'val',
  );
}

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(13);
});

describe('golden bootstrap', () => {
  test.each(ofOp('bootstrap').filter(({ id }) => id !== 'empty'))('$id', (golden) => {
    const found = bootstrapped(golden);
    const exact = referenceOf(golden, 'with-replacement') as Record<string, number>;
    expect(Object.keys(found).sort()).toEqual(Object.keys(exact).sort());
    for (const [key, value] of Object.entries(exact)) {
      expect(found[key], key).toBeCloseToReference(value, golden.monteCarloTolerance!);
    }
  });

  test('empty data is refused', () => {
    const empty = cases.find(({ id }) => id === 'empty')!;
    expect(empty.expectedError!.kind).toBe('empty_data');
    expect(() => bootstrapped(empty)).toThrow(ValueError);
  });
});

describe('golden majority value', () => {
  test.each(ofOp('majority_value').filter(({ id }) => id.startsWith('J')))('$id', (golden) => {
    expect({ value: majority(golden) }).toEqual(referenceOf(golden, 'verl'));
  });

  test('no votes are refused', () => {
    const empty = cases.find(({ id }) => id === 'majority-empty')!;
    expect(empty.expectedError!.kind).toBe('empty_data');
    expect(() => majority(empty)).toThrow(ValueError);
  });
});
