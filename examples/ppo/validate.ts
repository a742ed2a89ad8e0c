/**
 * Validation: several samples for each prompt of a fixed list.
 */
import type { ValidationConfig } from './config.js';
import type { Random } from './random.js';
import { drawPrompt, type TaskConfig } from './task.js';

/** Scores of one validation. */
export interface ValidationResult {
  readonly samplesPerPrompt: number;
  /** Per prompt, the scores of its samples in [0, 1]. */
  readonly scores: readonly (readonly number[])[];
}

/** Draws the prompts that every validation of a run asks. */
export function drawValidationPrompts(
  task: TaskConfig,
  config: ValidationConfig,
  random: Random,
): number[][] {
  return Array.from({ length: config.prompts }, () => drawPrompt(task, random));
}

/** Every prompt as often as it is to be answered, one after the other. */
export function repeated(
  prompts: readonly (readonly number[])[],
  samplesPerPrompt: number,
): readonly (readonly number[])[] {
  return prompts.flatMap((prompt) => Array.from({ length: samplesPerPrompt }, () => prompt));
}

/** The scores of repeated prompts, by prompt. */
export function validationResult(scores: readonly number[], samplesPerPrompt: number): ValidationResult {
  const prompts = scores.length / samplesPerPrompt;
  return {
    samplesPerPrompt,
    scores: Array.from({ length: prompts }, (_, at) =>
      scores.slice(at * samplesPerPrompt, (at + 1) * samplesPerPrompt),
    ),
  };
}
