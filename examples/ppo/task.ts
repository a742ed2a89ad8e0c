/**
 * The task: put the digits of a prompt in ascending order, then stop. Prompts, the vocabulary and the verifier.
 *
 * Nothing here knows of tensors or of learning. The score can be checked by anyone: it compares tokens with the
 * sorted prompt and gives partial credit, so that a policy that starts from noise has something to climb.
 */
import type { Random } from './random.js';

/** Token ids: a digit is its own id, then the end of the response, the end of the prompt, and padding. */
export const END = 10;
export const SEPARATOR = 11;
export const PADDING = 12;
/** Tokens that exist (the policy reads these) and tokens that a response may hold (the policy writes these). */
export const VOCABULARY = 13;
export const RESPONSE_VOCABULARY = 11;

/** How long prompts are. Their number of digits is drawn uniformly from `minDigits … maxDigits`. */
export interface TaskConfig {
  readonly minDigits: number;
  readonly maxDigits: number;
}

/** Tokens of a prompt: its digits and the separator. */
export function promptTokens(prompt: readonly number[]): number {
  return prompt.length + 1;
}

/** Tokens of the widest prompt. */
export function promptWidth(task: TaskConfig): number {
  return task.maxDigits + 1;
}

/** Tokens of the widest right answer: its digits and the end. */
export function responseWidth(task: TaskConfig): number {
  return task.maxDigits + 1;
}

/** Draws one prompt: a list of digits. */
export function drawPrompt(task: TaskConfig, random: Random): number[] {
  return Array.from({ length: random.integer(task.minDigits, task.maxDigits) }, () => random.integer(0, 9));
}

/** The right answer: the digits in ascending order, then {@link END}. */
export function answerOf(prompt: readonly number[]): number[] {
  return [...[...prompt].sort((a, b) => a - b), END];
}

/**
 * Scores a response: the share of places that hold the right token, over the longer of response and answer.
 *
 * @param prompt The digits that were asked about.
 * @param response The sampled tokens, {@link END} included if the policy stopped by itself; tokens after it do not count.
 * @returns A number in [0, 1]; 1 means the answer is right and complete.
 */
export function score(prompt: readonly number[], response: readonly number[]): number {
  const answer = answerOf(prompt);
  const end = response.indexOf(END);
  const given = end === -1 ? response : response.slice(0, end + 1);
  const right = answer.filter((token, place) => given[place] === token).length;
  return right / Math.max(answer.length, given.length);
}
