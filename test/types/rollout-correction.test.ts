/** What the types of rollout correction promise: weights are there where they are asked for. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { expectTypeOf, test } from 'vitest';

import type { RolloutBatch, RolloutCorrection, RolloutCorrectionOptions } from '../../src/index.js';
import { type computeRolloutCorrection, type correctedStep } from '../../src/index.js';

declare const correct: typeof computeRolloutCorrection;
declare const step: typeof correctedStep;
declare const batch: RolloutBatch;
declare const options: RolloutCorrectionOptions;

const weighted = () =>
  correct(batch, { rolloutIs: 'token', rolloutRs: 'token_k1', rolloutRsThreshold: [0.5, 2] });
const weightedStep = () => step(batch, { rolloutCorrection: { rolloutIs: 'sequence' } });
const unweighted = [() => correct(batch), () => correct(batch, {}), () => correct(batch, options)] as const;

test('with rolloutIs the weights are a tensor', () => {
  expectTypeOf(weighted).returns.resolves.toHaveProperty('isWeights').toEqualTypeOf<Tensor>();
  expectTypeOf(weightedStep).returns.resolves.toHaveProperty('isWeights').toEqualTypeOf<Tensor>();
});

test('without it they may be missing', () => {
  for (const call of unweighted) {
    expectTypeOf(call).returns.resolves.toEqualTypeOf<RolloutCorrection>();
  }
});
