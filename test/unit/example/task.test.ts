/** The verifier of the demo's task, and its seeded prompts. */
import { describe, expect, it } from 'vitest';
import { Random } from '../../../examples/ppo/random.js';
import { END, answerOf, drawPrompt, score } from '../../../examples/ppo/task.js';

describe('score', () => {
  it('is 1 for the sorted digits and the end', () => {
    expect(score([3, 1, 3], [1, 3, 3, END])).toBe(1);
  });

  it('gives an unsorted copy credit for the places that happen to be right', () => {
    expect(score([3, 1, 4], [3, 1, 4, END])).toBe(2 / 4);
  });

  it('is below 1 without the end', () => {
    expect(score([2, 1], [1, 2, 7])).toBe(2 / 3);
  });

  it('counts an early end as missing places', () => {
    expect(score([2, 1, 5], [1, END])).toBe(1 / 4);
  });

  it('divides by the longer of response and answer', () => {
    expect(score([1], [1, 1, 1, END])).toBe(1 / 4);
  });

  it('ignores what follows the end', () => {
    expect(score([1], [1, END, 9, 9])).toBe(1);
  });

  it('is 0 for an empty response', () => {
    expect(score([1], [])).toBe(0);
  });
});

describe('prompts', () => {
  it('have every length of the range, digits only, and an answer of the same digits', () => {
    const random = new Random(3);
    const prompts = Array.from({ length: 200 }, () => drawPrompt({ minDigits: 2, maxDigits: 4 }, random));
    expect(new Set(prompts.map(({ length }) => length))).toEqual(new Set([2, 3, 4]));
    expect(new Set(prompts.flat())).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
    expect(answerOf([9, 0, 9])).toEqual([0, 9, 9, END]);
  });
});
