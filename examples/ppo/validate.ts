/**
 * Validation: several samples for each prompt of a fixed list.
 */
import type { ValidationConfig } from './config.js';
import type { Network } from './policy.js';
import type { Random } from './random.js';
import { sampleResponses } from './rollout.js';
import { drawPrompt, score, type TaskConfig } from './task.js';

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

/** Lets the actor answer each prompt several times and scores the answers. */
export async function validate(
  actor: Network,
  task: TaskConfig,
  prompts: readonly (readonly number[])[],
  samplesPerPrompt: number,
  random: Random,
): Promise<ValidationResult> {
  const asked = prompts.flatMap((prompt) => Array.from({ length: samplesPerPrompt }, () => prompt));
  const { responses } = await sampleResponses(actor, task, asked, random);
  const all = responses.map((response, at) => score(asked[at]!, response));
  return {
    samplesPerPrompt,
    scores: prompts.map((_, at) => all.slice(at * samplesPerPrompt, (at + 1) * samplesPerPrompt)),
  };
}
