/** The demo's generator: fixed by its seed, independent by name, and with the distributions it promises. */
import { describe, expect, it } from 'vitest';
import { Random } from '../../../examples/ppo/random.js';

const draw = (random: Random, count: number): number[] =>
  Array.from({ length: count }, () => random.uniform());

describe('Random', () => {
  it('repeats itself for the same seed and differs for another', () => {
    expect(draw(new Random(7), 20)).toEqual(draw(new Random(7), 20));
    expect(draw(new Random(7), 20)).not.toEqual(draw(new Random(8), 20));
  });

  it('gives named streams that do not depend on how much their parent was used', () => {
    const used = new Random(7);
    draw(used, 100);
    expect(draw(used.stream('a'), 20)).toEqual(draw(new Random(7).stream('a'), 20));
    expect(draw(used.stream('a'), 20)).not.toEqual(draw(used.stream('b'), 20));
    expect(draw(used.stream('step 1'), 20)).not.toEqual(draw(used.stream('step 2'), 20));
  });

  it('keeps inside its ranges and reaches both ends of an integer range', () => {
    const random = new Random(1);
    const integers = Array.from({ length: 200 }, () => random.integer(-1, 2));
    expect(new Set(integers)).toEqual(new Set([-1, 0, 1, 2]));
    expect(draw(random, 1000).every((value) => value >= 0 && value < 1)).toBe(true);
  });

  it('draws normals of mean 0 and variance 1', () => {
    const random = new Random(11);
    const count = 20_000;
    const normals = Array.from({ length: count }, () => random.normal());
    const mean = normals.reduce((sum, value) => sum + value, 0) / count;
    const variance = normals.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
    // Five standard errors of either estimate.
    expect(Math.abs(mean)).toBeLessThan(5 / Math.sqrt(count));
    expect(Math.abs(variance - 1)).toBeLessThan(5 * Math.sqrt(2 / count));
  });
});
