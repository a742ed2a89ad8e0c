/**
 * Every number that shapes a run, and the defaults: a policy that learns to sort in about two minutes on two CPU cores.
 */
import type { GaeConfig } from './gae.js';
import type { TaskConfig } from './task.js';

/** Sizes of actor and critic (they have the same body). */
export interface BodyConfig {
  readonly width: number;
  readonly heads: number;
  readonly layers: number;
}

/** How one update uses the batch. */
export interface UpdateConfig {
  /** Passes over the batch. */
  readonly epochs: number;
  /** Rows per optimiser step. */
  readonly miniBatch: number;
  /** Rows per forward and backward pass; gradients add up over a mini-batch. */
  readonly microBatch: number;
  /** Ratio and value clipping range ε. */
  readonly clip: number;
  /** Weight of the entropy bonus. */
  readonly entropy: number;
  readonly actorRate: number;
  readonly criticRate: number;
  /** Largest global norm of a gradient. */
  readonly gradientNorm: number;
}

/** What validation asks. */
export interface ValidationConfig {
  /** Steps between validations; the last step always has one. */
  readonly every: number;
  readonly prompts: number;
  readonly samplesPerPrompt: number;
}

/** A whole run. */
export interface TrainerConfig {
  readonly task: TaskConfig;
  readonly body: BodyConfig;
  /** Responses per step. */
  readonly batch: number;
  readonly gae: GaeConfig;
  readonly update: UpdateConfig;
  readonly validation: ValidationConfig;
}

/** The demo's configuration. */
export const defaultConfig: TrainerConfig = {
  task: { minDigits: 2, maxDigits: 5 },
  body: { width: 64, heads: 4, layers: 1 },
  batch: 256,
  gae: { gamma: 1, lambda: 0.95 },
  update: {
    epochs: 2,
    miniBatch: 128,
    microBatch: 64,
    clip: 0.2,
    entropy: 0.03,
    actorRate: 3e-3,
    criticRate: 3e-3,
    gradientNorm: 1,
  },
  validation: { every: 10, prompts: 64, samplesPerPrompt: 4 },
};
