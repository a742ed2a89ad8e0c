/** Draws from given data, from a seeded generator of its own: no global generator is read or touched. */
import { assertFunction, assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';

/** Uniform integers in [0, below). */
export type DrawIndex = (below: number) => number;

/** Options of `bootstrapMetric`. */
export interface BootstrapOptions {
  /** Draws, 1 to 2^24; default 1000. */
  readonly nBootstrap?: number | undefined;
  /** An integer in [0, 2^32); default 42. The same seed gives the same numbers. */
  readonly seed?: number | undefined;
}

const WHERE = 'bootstrapMetric';

/**
 * Mean and population standard deviation of statistics of random draws with replacement.
 *
 * The generator is seeded per call, so equal calls give equal numbers; they are not those of NumPy's generator.
 *
 * @param data what is drawn from, one element or more
 * @param subsetSize elements per draw, 1 to 2^24
 * @param reduceFns statistics of a draw; all see the same draws, in the same order
 * @returns a pair per statistic; NaN where a draw gives NaN
 * @throws ValueError for no data, an invalid size, count or seed, or a statistic that gives no number
 * @source Efron 1979, "Bootstrap Methods: Another Look at the Jackknife"; verl, trainer/ppo/metric_utils.py,
 *   bootstrap_metric
 * @example  bootstrapMetric([1, 2, 3, 4, 5], 3, [(draw) => Math.max(...draw)]); // near [[4.2, 0.95]]
 */
export function bootstrapMetric<T>(
  data: readonly T[],
  subsetSize: number,
  reduceFns: readonly ((draw: readonly T[]) => number)[],
  options: BootstrapOptions = {},
): [mean: number, std: number][] {
  assertOptions(WHERE, options, { nBootstrap: 'any', seed: 'any' });
  const { nBootstrap = 1000, seed = 42 } = options;
  if (!Array.isArray(data) || data.length === 0) {
    throw new ValueError({
      where: WHERE,
      input: 'data',
      expected: 'a list of one element or more',
      received: Array.isArray(data) ? 'none' : kindOf(data),
      remedy: 'pass what is to be drawn from',
    });
  }
  assertCount(WHERE, 'subsetSize', subsetSize);
  if (!Array.isArray(reduceFns)) {
    const remedy = 'pass [(draw) => …]';
    const received = kindOf(reduceFns);
    throw new ValueError({
      where: WHERE,
      input: 'reduceFns',
      expected: 'a list of functions',
      received,
      remedy,
    });
  }
  for (const [i, reduce] of reduceFns.entries()) assertFunction(WHERE, `reduceFns[${i}]`, reduce);
  assertCount(WHERE, 'options.nBootstrap', nBootstrap);
  assertSeed(WHERE, seed);
  const drawIndex = seededIndices(seed);
  const found = reduceFns.map(() => new Float64Array(nBootstrap));
  for (let turn = 0; turn < nBootstrap; turn++) {
    const draw = Array.from({ length: subsetSize }, () => data[drawIndex(data.length)] as T);
    for (const [i, reduce] of reduceFns.entries()) {
      const value = (reduce as (draw: readonly T[]) => unknown)(draw);
      if (typeof value !== 'number') {
        throw new ValueError({
          where: WHERE,
          input: `reduceFns[${i}]`,
          expected: 'a function that returns a number',
          received: kindOf(value),
          remedy: 'return NaN where the statistic is undefined',
        });
      }
      found[i]![turn] = value;
    }
  }
  return found.map(meanAndStd);
}

/**
 * Mean and population standard deviation. Around the first value, so that equal values have a deviation of exactly 0;
 * NaN and infinities give what IEEE arithmetic gives.
 */
export function meanAndStd(values: Float64Array): [mean: number, std: number] {
  const pivot = values[0]!;
  let shifted = 0;
  for (const value of values) shifted += value - pivot;
  let mean = pivot + shifted / values.length;
  // Infinity − Infinity is NaN, the mean of infinities is not.
  if (Number.isNaN(mean)) mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  let squares = 0;
  for (const value of values) squares += (value - mean) ** 2;
  return [mean, Math.sqrt(squares / values.length)];
}

/** Draws, and elements of a draw, that memory has room for. */
const MOST = 2 ** 24;

/** @throws ValueError for anything but an integer of 1 or more, and no more than there is room for */
export function assertCount(where: string, input: string, count: number): void {
  if (Number.isInteger(count) && count >= 1 && count <= MOST) return;
  const expected = `an integer from 1 to ${MOST}`;
  throw new ValueError({ where, input, expected, received: kindOf(count), remedy: 'pass a count' });
}

/** @throws ValueError for anything but an integer that fits into 32 bits */
export function assertSeed(where: string, seed: number): void {
  if (Number.isInteger(seed) && seed >= 0 && seed < 2 ** 32) return;
  throw new ValueError({
    where,
    input: 'options.seed',
    expected: 'an integer between 0 and 2^32 − 1',
    received: kindOf(seed),
    remedy: 'leave it out for 42',
  });
}

/**
 * Reproducible random integers.
 *
 * @source Blackman & Vigna 2021, "Scrambled Linear Pseudorandom Number Generators": xoshiro128**, its state filled by
 *   the finaliser of MurmurHash3
 */
export function seededIndices(seed: number): DrawIndex {
  let [a, b, c, d] = [1, 2, 3, 4].map((k) => scrambled(seed + Math.imul(k, 0x9e3779b9))) as [
    number,
    number,
    number,
    number,
  ];
  return (below) => {
    const starred = Math.imul(rotated(Math.imul(b, 5), 7), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotated(d, 11);
    return Math.floor((starred / 2 ** 32) * below);
  };
}

function rotated(bits: number, by: number): number {
  return (bits << by) | (bits >>> (32 - by));
}

/** A permutation of the 32-bit integers, so that the four words of a state are never all 0. */
function scrambled(word: number): number {
  let h = word | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
