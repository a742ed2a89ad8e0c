/** Golden logits: every case, on the backend of this project. */

import { describe, expect, test } from 'vitest';

import { testBackend } from '../support/backend.js';
import { decodeInputs, isRefusal, loadGolden, toleranceOf } from '../support/golden.js';
import { expectReference, statisticsOf } from '../support/logits-cases.js';

await testBackend();
const { cases } = loadGolden('logits');

/** The keys of the suite that are results here, and which result each is. */
const KEYS = {
  logprob: 'logProbs',
  entropy: 'entropy',
  sum_pi_squared: 'sumPiSquared',
  max_prob: 'maxProb',
} as const;

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(28);
});

describe.each(cases)('golden logits: $id', (golden) => {
  const { logits, labels } = decodeInputs(golden.inputs);
  const given = {
    shape: logits!.shape,
    logits: logits!.values,
    labels: labels!.values,
    temperature: golden.options.temperature as number,
  };

  test('as the suite has it', async () => {
    const expected = golden.expected.float64!;
    if (isRefusal(expected)) throw new Error(`${golden.id} expects a refusal`);
    const numbers = await statisticsOf(given);
    for (const [key, name] of Object.entries(KEYS)) {
      const wanted = expected[key] as readonly number[];
      expect(numbers[name], key).toBeCloseToReference(wanted, toleranceOf(golden, key));
    }
  });

  test('as closely as the contract has it', () => expectReference(given, golden.id));
});
