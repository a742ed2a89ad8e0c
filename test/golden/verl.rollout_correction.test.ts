/** Golden rollout correction: every case under every semantics, on the backend of this project. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import type { TensortallyError } from '../../src/errors.js';
import { ShapeError, ValueError } from '../../src/errors.js';
import {
  type Metrics,
  type RolloutCorrectionOptions,
  type Semantics,
  computeRolloutCorrection,
  semanticsNames,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import {
  type GoldenCase,
  type GoldenReference,
  decodeTensor,
  isRefusal,
  loadGolden,
  referenceOf,
  toleranceOf,
} from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { REFERENCES, goldenBatch } from '../support/verl-cases.js';

await testBackend();
const { cases } = loadGolden('verl.rollout_correction');

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(63);
});

function optionsOf({ options }: GoldenCase, semantics: Semantics): RolloutCorrectionOptions {
  const given = {
    rolloutIs: options.rollout_is,
    rolloutIsThreshold: options.rollout_is_threshold,
    batchNormalize: options.rollout_is_batch_normalize,
    rolloutRs: options.rollout_rs,
    rolloutRsThreshold: options.rollout_rs_threshold,
  };
  return { ...(given as RolloutCorrectionOptions), semantics };
}

interface Outcome {
  /** Without their prefix, as in the suite. */
  readonly metrics: Metrics;
  readonly tensors: Readonly<Record<string, ArrayLike<number> | undefined>>;
}

/** Computes a case whose inputs are gone as soon as the call returns. */
async function outcomeOf(golden: GoldenCase, semantics: Semantics): Promise<Outcome> {
  return expectNoLeaks(async () => {
    const { batch, dispose } = goldenBatch(golden);
    const { shape } = batch.responseMask!;
    const computing = computeRolloutCorrection(batch, optionsOf(golden, semantics));
    dispose();
    const { metrics, isWeights, responseMask } = await computing;
    expect(responseMask).toMatchObject({ dtype: 'bool', shape });
    if (isWeights !== undefined) expect(isWeights).toMatchObject({ dtype: 'float32', shape });
    const tensors = { rollout_is_weights: await isWeights?.data(), response_mask: await responseMask.data() };
    tf.dispose([responseMask, ...(isWeights === undefined ? [] : [isWeights])]);
    const bare = Object.entries(metrics).map(([key, value]) => [key.replace(/^rollout_corr\//, ''), value]);
    return { metrics: Object.fromEntries(bare) as Metrics, tensors };
  });
}

const LARGEST_FLOAT32 = 3.4028234663852886e38;

function expectMetrics(golden: GoldenCase, metrics: Metrics, reference: GoldenReference): void {
  expect(Object.keys(metrics).sort()).toEqual(Object.keys(reference).sort());
  for (const [key, expected] of Object.entries(reference)) {
    // Without the hold of ±20 one token's k3 leaves what a device can represent.
    const overflows = key === 'k3_kl' && (expected as number) > LARGEST_FLOAT32;
    if (overflows && metrics[key] === Infinity) continue;
    expect(metrics[key], `${golden.id}: ${key}`).toBeCloseToReference(expected, toleranceOf(golden, key));
  }
}

const computed = cases.filter(({ expectedError }) => expectedError === undefined);
/** Ranges and thresholds as text, which the older revision did not have. */
const newer = new Set(['X2-icepop', 'icepop-all-out', 'string-threshold']);

describe.each(semanticsNames)('golden rollout correction: %s', (semantics) => {
  const known = computed.filter(({ id }) => semantics === 'recommended' || !newer.has(id));

  test.each(known)('$id', async (golden) => {
    const reference = referenceOf(golden, ...REFERENCES[semantics]);
    if (reference === undefined || isRefusal(reference)) throw new Error(`${golden.id} has no ${semantics}`);
    const { metrics, tensors } = await outcomeOf(golden, semantics);
    expectMetrics(golden, metrics, reference);

    const { rollout_is_weights: weights, response_mask: left } = golden.expectedTensors ?? {};
    if (weights !== undefined) {
      const { values } = decodeTensor(weights);
      expect(Array.from(tensors.rollout_is_weights!)).toBeCloseToReference(
        Array.from(values),
        golden.tolerance,
      );
    } else if (golden.options.rollout_is === undefined) {
      expect(tensors.rollout_is_weights).toBeUndefined();
    }
    const mask = left ?? golden.inputs.response_mask;
    if (left !== undefined || golden.options.rollout_rs === undefined) {
      expect(Array.from(tensors.response_mask!)).toEqual(
        Array.from(decodeTensor(mask as Parameters<typeof decodeTensor>[0]).values),
      );
    }
  });
});

describe('golden rollout correction: what only one revision has', () => {
  const caseOf = (id: string): GoldenCase => cases.find((golden) => golden.id === id)!;

  test.each(['X2-icepop', 'string-threshold'])('%s, verl-2026-08', async (id) => {
    const golden = caseOf(id);
    const { metrics } = await outcomeOf(golden, 'verl-2026-08');
    expectMetrics(golden, metrics, golden.expected.float64 as GoldenReference);
  });

  test('a range means the same under the older semantics', async () => {
    const golden = caseOf('X2-icepop');
    const { metrics } = await outcomeOf(golden, 'verl-2026-01');
    expectMetrics(golden, metrics, golden.expected.float64 as GoldenReference);
  });

  test('a threshold as text means the number', async () => {
    const golden = caseOf('string-threshold');
    const spelled = await outcomeOf(golden, 'verl-2026-01');
    const options = { ...golden.options, rollout_is_threshold: 2 };
    expect(spelled).toEqual(await outcomeOf({ ...golden, options }, 'verl-2026-01'));
  });

  test('where verl divides by zero, weights that are all 0 have no effective sample size', async () => {
    const golden = caseOf('icepop-all-out');
    const { metrics, tensors } = await outcomeOf(golden, 'verl-2026-08');
    expect(metrics).toMatchObject({ rollout_is_eff_sample_size: NaN, rollout_is_mean: 0, rollout_is_std: 0 });
    expect(Array.from(tensors.rollout_is_weights!)).toEqual([0, 0, 0]);
  });
});

describe('golden rollout correction: refusals', () => {
  const refused = cases.filter(({ expectedError }) => expectedError !== undefined);
  const ofOptions = refused.filter(({ expectedError }) => expectedError!.kind === 'invalid_argument');

  test('are of three kinds', () => {
    expect(refused.map(({ expectedError }) => expectedError!.kind).sort()).toEqual([
      'empty_selection',
      ...ofOptions.map(() => 'invalid_argument'),
      'shape_mismatch',
    ]);
    expect(ofOptions.length).toBeGreaterThan(5);
  });

  test.each(ofOptions)('$id', async (golden) => {
    const refusal = (await refusalOf(golden)) as TensortallyError;
    expect(refusal).toBeInstanceOf(ValueError);
    expect(refusal.input).toMatch(/^options\.rollout(Is|Rs)/);
  });

  test('log probabilities of two shapes', () => {
    const golden = refused.find(({ expectedError }) => expectedError!.kind === 'shape_mismatch')!;
    expect(() => goldenBatch(golden)).toThrow(ShapeError);
  });

  test.each(semanticsNames)(
    'a batch without a selected token is undefined instead: %s',
    async (semantics) => {
      const golden = refused.find(({ expectedError }) => expectedError!.kind === 'empty_selection')!;
      const options = { rollout_is: 'token', rollout_rs: 'token_k1,seq_max_k2', rollout_rs_threshold: '2' };
      const { metrics, tensors } = await outcomeOf({ ...golden, options }, semantics);
      expect(Object.keys(metrics)).toHaveLength(58);
      expect(Object.entries(metrics).filter(([, value]) => !Number.isNaN(value))).toEqual([]);
      expect(new Set(tensors.rollout_is_weights as Float32Array)).toEqual(new Set([0]));
      expect(new Set(tensors.response_mask as Uint8Array)).toEqual(new Set([0]));
    },
  );
});

/** What a case is refused with. */
async function refusalOf(golden: GoldenCase): Promise<unknown> {
  return expectNoLeaks(async () => {
    const { batch, dispose } = goldenBatch(golden);
    const options = optionsOf(golden, 'recommended');
    const refusal: unknown = await computeRolloutCorrection(batch, options).catch((error: unknown) => error);
    dispose();
    return refusal;
  });
}
