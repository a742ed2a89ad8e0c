/** Golden moments: every case, both policies, on the backend of this project. */

import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { maskedMoments, type Moments, type RowMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { decodeInputs, isRefusal, loadGolden, toleranceOf, type GoldenCase } from '../support/golden.js';
import { KEYS } from '../support/golden-moments.js';
import { expectNoLeaks } from '../support/leaks.js';
import { goldenTensors } from '../support/tensors.js';

await testBackend();
const { cases } = loadGolden('moments');

/** Golden policies and the option that asks for them. Where a case names only the first, nothing is non-finite. */
const POLICIES = { float64: 'propagate', 'float64-finite-only': 'ignore' } as const;

async function momentsOf(golden: GoldenCase, nonFinite: 'propagate' | 'ignore'): Promise<readonly Moments[]> {
  const inputs = decodeInputs(golden.inputs);
  const result = await expectNoLeaks(() => {
    const { values, mask } = goldenTensors(inputs);
    const pending: PromiseLike<Moments | RowMoments> =
      golden.options.axis === -1
        ? maskedMoments(values!, mask, { axis: -1, nonFinite })
        : maskedMoments(values!, mask, { nonFinite });
    tf.dispose([values!, mask!]);
    return Promise.resolve(pending);
  });
  return Array.isArray(result) ? result : [result];
}

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(47);
});

describe.each(Object.entries(POLICIES))('golden moments: %s', (reference, nonFinite) => {
  test.each(cases)('$id', async (golden) => {
    const expected = golden.expected[reference] ?? golden.expected.float64!;
    if (isRefusal(expected)) throw new Error(`${golden.id} expects a refusal`);
    const moments = await momentsOf(golden, nonFinite);
    expect(Object.keys(expected).sort()).toEqual(Object.keys(KEYS).sort());
    for (const [key, value] of Object.entries(expected)) {
      const actual = moments.map(KEYS[key]!);
      const wanted = typeof value === 'number' ? [value] : value;
      expect(actual, key).toBeCloseToReference(wanted, toleranceOf(golden, key));
    }
  });
});
