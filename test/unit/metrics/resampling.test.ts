/** Resampling: reproducible draws from a generator of its own, fair ones, and majority values. */
import { describe, expect, test, vi } from 'vitest';

import { MissingInputError, ValueError } from '../../../src/errors.js';
import { bootstrapMetric, calcMajVal } from '../../../src/metrics/index.js';
import { meanAndStd, seededIndices } from '../../../src/metrics/validation/resampling.js';

const mean = (draw: readonly number[]): number => draw.reduce((sum, x) => sum + x, 0) / draw.length;

describe('bootstrapMetric', () => {
  test('gives the same numbers for the same seed, 42 being the default', () => {
    const data = [1, 2, 3, 4, 5];
    expect(bootstrapMetric(data, 3, [mean])).toEqual(bootstrapMetric(data, 3, [mean], { seed: 42 }));
    expect(bootstrapMetric(data, 3, [mean])).not.toEqual(bootstrapMetric(data, 3, [mean], { seed: 43 }));
  });

  test('neither reads nor touches the global generator', () => {
    const global = vi.spyOn(Math, 'random');
    bootstrapMetric([1, 2], 2, [mean]);
    expect(global).not.toHaveBeenCalled();
    global.mockRestore();
  });

  test('draws so many times, so many elements, the same for all statistics', () => {
    const seen: (readonly string[])[][] = [[], []];
    bootstrapMetric(
      ['a', 'b'],
      7,
      seen.map((list) => (draw: readonly string[]) => list.push(draw)),
      { nBootstrap: 12 },
    );
    expect(seen[0]).toHaveLength(12);
    expect(seen[0]!.every((draw) => draw.length === 7)).toBe(true);
    expect(seen[1]).toEqual(seen[0]);
  });

  test('is NaN where a draw is', () => {
    expect(bootstrapMetric([1, NaN], 1, [mean], { nBootstrap: 100 })).toEqual([[NaN, NaN]]);
  });

  test.each([
    ['no data', [[], 1, [mean]], ValueError, 'data'],
    ['invalid data', ['abc', 1, [mean]], ValueError, 'data'],
    ['an empty draw', [[1], 0, [mean]], ValueError, 'subsetSize'],
    ['half a draw', [[1], 1.5, [mean]], ValueError, 'subsetSize'],
    ['an invalid statistic', [[1], 1, [mean, 'max']], ValueError, 'reduceFns[1]'],
    ['a statistic that is not there', [[1], 1, [undefined]], MissingInputError, 'reduceFns[0]'],
    ['a statistic without a number', [[1], 1, [() => 'x']], ValueError, 'reduceFns[0]'],
    ['no draws', [[1], 1, [mean], { nBootstrap: 0 }], ValueError, 'nBootstrap'],
    ['an invalid seed', [[1], 1, [mean], { seed: 0.5 }], ValueError, 'seed'],
  ] as const)('refuses %s', (_, args, Refusal, input) => {
    const call = () => (bootstrapMetric as (...given: readonly unknown[]) => unknown)(...args);
    expect(call).toThrow(Refusal);
    expect(call).toThrow(input);
  });
});

describe('the generator', () => {
  test.each([0, 1, 42, 2 ** 32 - 1])('is fair from seed %d', (seed) => {
    const draw = seededIndices(seed);
    const sides = 10;
    const throws = 100_000;
    // Pairs, so that what follows what is fair, too.
    const counts = new Float64Array(sides * sides);
    for (let i = 0; i < throws; i++) counts[draw(sides) * sides + draw(sides)]!++;
    const expected = throws / counts.length;
    const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    // 99 degrees of freedom: below 43 or above 175 once in 10^6 fair runs.
    expect(chiSquare).toBeGreaterThan(43);
    expect(chiSquare).toBeLessThan(175);
  });

  test('reaches every index and no other', () => {
    const draw = seededIndices(3);
    const seen = new Set(Array.from({ length: 200 }, () => draw(7)));
    expect([...seen].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(draw(1)).toBe(0);
  });

  test('has its own state', () => {
    const [a, b] = [seededIndices(9), seededIndices(9)];
    const first = Array.from({ length: 5 }, () => a(1000));
    expect(Array.from({ length: 5 }, () => b(1000))).toEqual(first);
  });
});

describe('mean and deviation', () => {
  test('of equal values are exact', () => {
    expect(meanAndStd(new Float64Array(7).fill(0.1))).toEqual([0.1, 0]);
  });

  test('of values far from 0 keep their deviation', () => {
    const [, std] = meanAndStd(Float64Array.of(1e9, 1e9 + 1));
    expect(std).toBe(0.5);
  });

  test.each([
    [[Infinity, 1], Infinity, NaN],
    [[1, -Infinity], -Infinity, NaN],
    [[Infinity, -Infinity], NaN, NaN],
    [[NaN, 1], NaN, NaN],
  ])('of %j are %d and %d', (values, ...expected) => {
    expect(meanAndStd(Float64Array.from(values))).toEqual(expected);
  });
});

test('more draws than there is room for are refused', () => {
  const first = [([value]: readonly number[]): number => value!];
  for (const count of [2 ** 24 + 1, 1e12, Infinity]) {
    expect(() => bootstrapMetric([1, 2], 2, first, { nBootstrap: count })).toThrow(/nBootstrap.*16777216/s);
    expect(() => bootstrapMetric([1, 2], count, first)).toThrow(/subsetSize.*16777216/s);
    expect(() => bootstrapMetric([1, 2], count, first)).toThrow(ValueError);
  }
});

describe('calcMajVal', () => {
  test('takes the first value of the label seen first among those that tie', () => {
    const data = [
      { vote: 'B', score: 0.8 },
      { vote: 'A', score: 0.9 },
      { vote: 'A', score: 0.6 },
      { vote: 'B', score: 0.7 },
    ];
    expect(calcMajVal(data, 'vote', 'score')).toBe(0.8);
    expect(calcMajVal(data.slice(1), 'vote', 'score')).toBe(0.9);
  });

  test('votes for null and for booleans', () => {
    expect(calcMajVal([{ p: null, v: true }, { p: null, v: 0 }, { p: 1, v: 0 }], 'p', 'v')).toBe(1); // prettier-ignore
  });

  test.each([
    ['no samples', [[], 'p', 'v'], 'data'],
    ['an invalid sample', [[{ p: 1, v: 1 }, 3], 'p', 'v'], 'data[1]'],
    ['a label that is not there', [[{ v: 1 }], 'p', 'v'], 'data[0].p'],
    ['an invalid value', [[{ p: 1, v: 'x' }], 'p', 'v'], 'data[0].v'],
    ['an invalid key', [[{ p: 1, v: 1 }], 1, 'v'], 'voteKey'],
  ] as const)('refuses %s', (_, args, input) => {
    const call = () => (calcMajVal as (...given: readonly unknown[]) => unknown)(...args);
    expect(call).toThrow(ValueError);
    expect(call).toThrow(input);
  });
});
