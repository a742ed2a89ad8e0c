/** Rollout correction of one step a row: what rows of which the rest is padding give, without a record of each. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  type Metrics,
  type RolloutBatch,
  type RolloutCorrectionOptions,
  StepState,
  batchFromVerl,
  computeRolloutCorrection,
  computeStepMetrics,
  computeStepState,
  correctedStep,
} from '../../src/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { seeded } from '../support/random.js';

await testBackend();

const N = 23;
const random = seeded(5);
const old = Float32Array.from({ length: N }, () => -2 * random() - 0.1);
const rollout = old.map((x, i) => x + (random() - 0.5) * (i % 4 === 0 ? 3 : 0.4));
const some = Uint8Array.from({ length: N }, (_, i) => Number(i % 6 !== 1));
const all = new Uint8Array(N).fill(1);

/** `[N]`, `[N, 1]`, or `[N, 2]` whose second column is padding. */
function batchOf(width: 0 | 1 | 2, mask: Uint8Array | undefined, ofRollout = rollout): RolloutBatch {
  const shape: number[] = width === 0 ? [N] : [N, width];
  const padded = (values: ArrayLike<number>, rest: number): number[] =>
    Array.from(values).flatMap((value) => (width === 2 ? [value, rest] : [value]));
  return batchFromVerl({
    old_log_probs: tf.tensor(padded(old, NaN), shape),
    rollout_log_probs: tf.tensor(padded(ofRollout, NaN), shape),
    advantages: tf.tensor(padded(old, NaN), shape),
    response_mask: mask && tf.tensor(padded(mask, 0), shape, 'bool'),
  });
}

function disposeBatch(batch: RolloutBatch): void {
  tf.dispose(Object.values(batch).filter((part): part is tf.Tensor => part instanceof tf.Tensor));
}

function expectClose(found: Metrics, expected: Metrics): void {
  expect(Object.keys(found).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, b] of Object.entries(expected)) {
    const a = found[key]!;
    if (Number.isNaN(b)) expect(a, key).toBeNaN();
    else expect(Math.abs(a - b), `${key}: ${a} for ${b}`).toBeLessThanOrEqual(2e-5 * (1 + Math.abs(b)));
  }
}

const CRITERIA = { rolloutRs: 'token_k1,token_k3', rolloutRsThreshold: '0.5_2,0.3' } as const;
const ON_ROWS = {
  rolloutRs: 'seq_sum_k1,seq_mean_k2,seq_max_k3',
  rolloutRsThreshold: '0.6_1.8,0.2,0.3',
} as const;
const SETTINGS: Readonly<Record<string, RolloutCorrectionOptions>> = {
  'no weights': {},
  'token weights': { rolloutIs: 'token', rolloutIsThreshold: 1.3 },
  'sequence weights': { rolloutIs: 'sequence', rolloutIsThreshold: 1.3 },
  'a range of sequence weights, normalised': {
    rolloutIs: 'sequence',
    rolloutIsThreshold: '0.7_1.4',
    batchNormalize: true,
  },
  'an upper bound below 1': { rolloutIs: 'sequence', rolloutIsThreshold: 0.9 },
  'criteria on tokens': { rolloutIs: 'token', ...CRITERIA, batchNormalize: true },
  'criteria on rows': { rolloutIs: 'sequence', ...ON_ROWS, batchNormalize: true },
};

describe.each(['recommended', 'verl-2026-08', 'verl-2026-01'] as const)('%s', (semantics) => {
  test.each(Object.entries(SETTINGS))(
    '%s: metrics, weights and mask of padded rows',
    async (_name, settings) => {
      const options = { ...settings, semantics };
      await expectNoLeaks(async () => {
        for (const mask of [some, all]) {
          const wide = batchOf(2, mask);
          const expected = await computeRolloutCorrection(wide, options);
          for (const width of [0, 1] as const) {
            const steps = batchOf(width, mask);
            const found = await computeRolloutCorrection(steps, options);
            expectClose(found.metrics, expected.metrics);
            for (const name of ['isWeights', 'responseMask'] as const) {
              const [a, b] = [found[name], expected[name]];
              expect(a === undefined).toBe(b === undefined);
              if (a === undefined || b === undefined) continue;
              expect(a.shape).toEqual(width === 0 ? [N] : [N, 1]);
              const [ofSteps, ofRows] = [await a.data(), await b.data()];
              for (let i = 0; i < N; i++) expect(ofSteps[i]).toBeCloseTo(ofRows[2 * i]!, 5);
              a.dispose();
            }
            disposeBatch(steps);
          }
          tf.dispose([expected.isWeights ?? [], expected.responseMask]);
          disposeBatch(wide);
        }
      });
    },
  );

  test('the step as a whole, whatever rejects, and its state as bytes in parts', async () => {
    for (const criteria of [CRITERIA, ON_ROWS]) {
      const options = {
        rolloutCorrection: { rolloutIs: 'token', ...criteria },
        semantics,
        onSkipped: () => undefined,
      } as const;
      const [wide, steps] = [batchOf(2, some), batchOf(0, some)];
      const { metrics, isWeights, responseMask } = await correctedStep(steps, options);
      const expected = await computeStepMetrics(wide, options);
      expectClose(metrics, expected);
      const parts = [0, 9].map((begin, i): RolloutBatch => {
        const cut = (x: tf.Tensor | undefined): tf.Tensor => tf.slice(x!, [begin], [i === 0 ? 9 : N - 9]);
        return batchFromVerl({
          old_log_probs: cut(steps.oldLogProbs),
          rollout_log_probs: cut(steps.rolloutLogProbs),
          advantages: cut(steps.advantages),
          response_mask: cut(steps.responseMask),
        });
      });
      const states = await Promise.all(parts.map((part) => computeStepState(part, options)));
      const merged = StepState.merge(states.map((state) => StepState.fromBytes(state.toBytes())));
      expectClose(merged.metrics(), expected);
      for (const batch of [wide, steps, ...parts]) disposeBatch(batch);
      tf.dispose([isWeights, responseMask]);
    }
  });

  test('without a mask all steps count', async () => {
    const options = {
      rolloutCorrection: { rolloutIs: 'token', ...CRITERIA },
      semantics,
      onSkipped: () => undefined,
    } as const;
    const [bare, masked] = [batchOf(0, undefined), batchOf(0, all)];
    const [found, expected] = [await correctedStep(bare, options), await correctedStep(masked, options)];
    expectClose(found.metrics, expected.metrics);
    expect(found.responseMask.dtype).toBe('bool');
    expect(await found.responseMask.data()).toEqual(await expected.responseMask.data());
    expect(await found.isWeights.data()).toEqual(await expected.isWeights.data());
    tf.dispose([found.isWeights, found.responseMask, expected.isWeights, expected.responseMask]);
    disposeBatch(bare);
    disposeBatch(masked);
  });

  test('a NaN counts in steps as it counts in rows', async () => {
    const withNaN = Float32Array.from(rollout, (x, i) => (i === 3 ? NaN : x));
    for (const settings of Object.values(SETTINGS)) {
      const [wide, steps] = [batchOf(2, some, withNaN), batchOf(0, some, withNaN)];
      const options = { ...settings, semantics };
      const [found, expected] = [
        await computeRolloutCorrection(steps, options),
        await computeRolloutCorrection(wide, options),
      ];
      expectClose(found.metrics, expected.metrics);
      tf.dispose([
        found.isWeights ?? [],
        found.responseMask,
        expected.isWeights ?? [],
        expected.responseMask,
      ]);
      disposeBatch(wide);
      disposeBatch(steps);
    }
  });
});

test('a column of one number a row beside one of one column is of the same steps', async () => {
  const [flat, wide] = [batchOf(0, some), batchOf(1, some)];
  const { isWeights, responseMask } = await computeRolloutCorrection(
    { ...wide, rolloutLogProbs: flat.rolloutLogProbs },
    { rolloutIs: 'token' },
  );
  expect(isWeights.shape).toEqual([N, 1]);
  tf.dispose([isWeights, responseMask]);
  disposeBatch(flat);
  disposeBatch(wide);
});
