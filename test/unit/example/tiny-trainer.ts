/** A trainer small enough for unit tests on the plain cpu backend, and observers for it. Not a test. */
import * as tf from '@tensorflow/tfjs';
import type { TrainerConfig } from '../../../examples/ppo/config.js';
import type { FinishedStep, TrainingObserver } from '../../../examples/ppo/trainer.js';

export const tinyConfig: TrainerConfig = {
  task: { minDigits: 1, maxDigits: 3 },
  body: { width: 8, heads: 2, layers: 1 },
  batch: 8,
  gae: { gamma: 1, lambda: 0.95 },
  update: {
    epochs: 1,
    miniBatch: 4,
    microBatch: 2,
    clip: 0.2,
    entropy: 0.01,
    actorRate: 1e-2,
    criticRate: 1e-2,
    gradientNorm: 1,
  },
  validation: { every: 2, prompts: 3, samplesPerPrompt: 2 },
};

/** Makes the plain cpu backend active, without tfjs' advice to use another one. */
export async function useCpu(): Promise<void> {
  tf.env().set('IS_TEST', true);
  await tf.setBackend('cpu');
}

/** An observer that only looks at finished steps. */
export function watchSteps(stepEnded: (step: FinishedStep) => Promise<void> | void): TrainingObserver {
  return {
    stepStarted: () => undefined,
    phase: (_, body) => body(),
    episodesEnded: () => undefined,
    actorMicroBatch: () => undefined,
    criticMicroBatch: () => undefined,
    stepEnded: async (step) => {
      await stepEnded(step);
    },
  };
}
