/**
 * The case table of masked moments: everything that the shared test body runs on every backend.
 *
 * Cases are data made from a seed, so a failure names a case that anyone can rebuild. What a case is about is its
 * name. Bad input is not here; it has no numbers to compare.
 */

import { normal, seeded, type Random } from './random.js';
import { STORAGE, type TensorDtype, type TensorLike } from './tensors.js';

/** Values and mask of one case. */
export interface MomentsInput {
  readonly values: TensorLike;
  readonly mask?: TensorLike;
}

export interface MomentsCase {
  readonly name: string;
  build(): MomentsInput;
}

/** Stands where a case calls without a mask; undefined would ask for the usual one. */
const noMask = null;

type At<T> = (i: number, random: Random) => T;

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** One case: values and mask entries as functions of the flat index. */
function momentsCase(
  name: string,
  shape: readonly number[],
  value: At<number>,
  select: At<number> | typeof noMask = bernoulli(0.6),
  dtypes: { values?: TensorDtype; mask?: TensorDtype } = {},
): MomentsCase {
  return {
    name,
    build: () => {
      const random = seeded(sizeOf(shape) * 31 + name.length);
      const { values: valuesType = 'float32', mask: maskType = 'bool' } = dtypes;
      const fill = (dtype: TensorDtype, at: At<number>): ArrayLike<number> => {
        const data = new STORAGE[dtype](sizeOf(shape));
        for (let i = 0; i < data.length; i++) data[i] = at(i, random);
        return data;
      };
      const values = { shape, dtype: valuesType, values: fill(valuesType, value) };
      return select === noMask
        ? { values }
        : { values, mask: { shape, dtype: maskType, values: fill(maskType, select) } };
    },
  };
}

function bernoulli(p: number): At<number> {
  return (_i, random) => (random() < p ? 1 : 0);
}
const gaussian: At<number> = (_i, random) => normal(random);
const everything: At<number> = () => 1;
const nothing: At<number> = () => 0;

/** NaN and infinities where `bad` says so, noise elsewhere. */
function noiseWith(bad: (i: number) => boolean, ...specials: readonly number[]): At<number> {
  return (i, random) => (bad(i) ? specials[i % specials.length]! : normal(random));
}

function picked(entries: readonly number[]): At<number> {
  return (i) => entries[i % entries.length]!;
}

const FLOAT32_MAX = 3.4028234663852886e38;
const INT32_MAX = 2147483647;
const INT32_MIN = -2147483648;

/** Sizes at and around powers of two, tiles and workgroups; odd, prime, and no multiple of 4. */
const SIZES = [
  1, 2, 3, 4, 5, 7, 63, 64, 65, 127, 255, 256, 257, 509, 1021, 1023, 1024, 1025, 4093, 4097, 65535, 65537,
];

const shapes: MomentsCase[] = [
  ...[[7], [3, 7], [2, 3, 5], [2, 3, 2, 5]].map((shape) =>
    momentsCase(`rank ${shape.length}`, shape, gaussian),
  ),
  ...SIZES.map((n) => momentsCase(`${n} elements`, [n], gaussian)),
  ...SIZES.filter((n) => n <= 4097).map((n) => momentsCase(`3 rows of ${n}`, [3, n], gaussian)),
  ...[1, 63, 64, 65, 257].map((n) => momentsCase(`${n} rows of 5`, [n, 5], gaussian)),
  momentsCase('more rows than a dispatch has workgroups', [70001, 3], gaussian),
  momentsCase('as many rows of one element', [70001, 1], gaussian),
  momentsCase('few long rows', [3, 70001], gaussian),
  momentsCase('2^18 elements in rows of 2^9', [512, 512], gaussian),
  ...[[0], [0, 5], [5, 0], [2, 0, 3], [0, 0]].map((shape) =>
    momentsCase(`no elements: [${shape.join(', ')}]`, shape, gaussian),
  ),
  momentsCase('no elements and no mask', [5, 0], gaussian, noMask),
];

const masks: MomentsCase[] = [
  momentsCase('everything selected', [5, 67], gaussian, everything),
  momentsCase('nothing selected', [5, 67], gaussian, nothing),
  momentsCase('no mask', [5, 67], gaussian, noMask),
  momentsCase('no mask, long', [9001], gaussian, noMask),
  momentsCase('only the first element', [5, 67], gaussian, (i) => (i === 0 ? 1 : 0)),
  momentsCase('only the last element', [5, 67], gaussian, (i) => (i === 5 * 67 - 1 ? 1 : 0)),
  momentsCase('one element far into a long row', [70001], gaussian, (i) => (i === 66000 ? 1 : 0)),
  momentsCase('a prefix of every row', [8, 130], gaussian, (i) => (i % 130 < (i / 130) * 17 ? 1 : 0)),
  momentsCase('a sparse mask over blocks of nothing', [4, 5000], gaussian, (i) => (i % 2503 === 7 ? 1 : 0)),
  momentsCase('int32 mask: anything but zero selects', [5, 67], gaussian, picked([0, 1, 2, -1, 256]), {
    mask: 'int32',
  }),
  momentsCase(
    'float32 mask: −0 does not select, NaN and fractions do',
    [5, 67],
    gaussian,
    picked([0, -0, 1, 0.5, NaN, -1, 1e-30, Infinity]),
    { mask: 'float32' },
  ),
  momentsCase('float32 mask of 0 and 1', [5, 67], gaussian, bernoulli(0.5), { mask: 'float32' }),
];

const odd = (i: number): boolean => i % 2 === 1;
const evenOnly: At<number> = (i) => (odd(i) ? 0 : 1);
const oneIn = (n: number) => (i: number) => i % n === 3;

const nonFinite: MomentsCase[] = [
  momentsCase('NaN outside the mask', [5, 67], noiseWith(odd, NaN), evenOnly),
  momentsCase('infinities outside the mask', [5, 67], noiseWith(odd, Infinity, -Infinity), evenOnly),
  momentsCase(
    'one selected NaN',
    [5, 67],
    noiseWith((i) => i === 70, NaN),
    everything,
  ),
  momentsCase('selected NaN here and there', [5, 67], noiseWith(oneIn(29), NaN), everything),
  momentsCase(
    'one selected +Infinity',
    [5, 67],
    noiseWith((i) => i === 70, Infinity),
    everything,
  ),
  momentsCase(
    'one selected −Infinity',
    [5, 67],
    noiseWith((i) => i === 70, -Infinity),
    everything,
  ),
  momentsCase(
    'selected infinities of both signs',
    [5, 67],
    noiseWith((i) => i === 70 || i === 3, Infinity, -Infinity),
    everything,
  ),
  momentsCase('all kinds selected', [5, 67], noiseWith(oneIn(7), NaN, Infinity, -Infinity), bernoulli(0.7)),
  momentsCase('nothing but NaN', [3, 33], () => NaN, everything),
  momentsCase('nothing but +Infinity', [3, 33], () => Infinity, everything),
  momentsCase('nothing but −Infinity', [3, 33], () => -Infinity, everything),
  momentsCase(
    'NaN in the first element',
    [2, 65],
    noiseWith((i) => i % 65 === 0, NaN),
    everything,
  ),
  momentsCase('non-finite and no mask', [2, 65], noiseWith(oneIn(31), NaN, Infinity), noMask),
];

function around(mean: number, std: number): At<number> {
  return (_i, random) => normal(random, mean, std);
}

const magnitudes: MomentsCase[] = [
  momentsCase('1e5 ± 1', [3, 4099], around(1e5, 1)),
  momentsCase('−1e5 ± 1', [3, 4099], around(-1e5, 1)),
  momentsCase('1000 ± 0.01', [3, 4099], around(1000, 0.01)),
  momentsCase('1e4 plus hundredths', [2, 16384], (i) => 1e4 + (i % 10) * 0.01, everything),
  momentsCase('1e4 plus hundredths, masked', [2, 16384], (i) => 1e4 + (i % 10) * 0.01),
  momentsCase('rows with means far apart', [64, 65], (i, random) =>
    normal(random, 1e4 * Math.floor(i / 65), 1),
  ),
  ...[1e-37, 1e-35, 1e-30, 1e-20].map((scale) =>
    momentsCase(`normal numbers of ${scale}`, [2, 1000], (i) =>
      Math.fround((2 + ((i * 7919) % 1000) / 1000) * scale),
    ),
  ),
  momentsCase('a drifting mean', [2, 20000], (i, random) => normal(random, i / 10, 1)),
  // Whatever a kernel takes as its point of reference, the first element or an extreme, may be far from the rest.
  ...[-1000, 1000].map((outlier) =>
    momentsCase(`noise whose rows begin with ${outlier}`, [4, 2048], (i, random) =>
      i % 2048 === 0 ? outlier : normal(random),
    ),
  ),
  momentsCase(
    'noise whose rows begin with −1000, all selected',
    [4, 2048],
    (i, random) => (i % 2048 === 0 ? -1000 : normal(random)),
    everything,
  ),
  momentsCase('a constant', [5, 67], () => 0.1),
  momentsCase('a large constant', [3, 4099], () => 123456.7),
  momentsCase('zeros of both signs', [5, 67], (i) => (odd(i) ? -0 : 0)),
  momentsCase('1e8 next to 1e-3', [5, 67], (i, random) => normal(random) * (i % 11 === 0 ? 1e8 : 1e-3)),
  momentsCase('1e15 next to 1', [5, 67], (i, random) => normal(random) * (i % 11 === 0 ? 1e15 : 1)),
  momentsCase('1e30', [5, 67], (_i, random) => normal(random) * 1e30),
  momentsCase('1e-20', [5, 67], (_i, random) => normal(random) * 1e-20),
  momentsCase('the largest float32 numbers', [3, 33], (i) => FLOAT32_MAX * (1 - (i % 4) / 8)),
  momentsCase('the largest float32 numbers of both signs', [3, 33], (i) => (odd(i) ? -1 : 1) * FLOAT32_MAX),
];

const dtypes: MomentsCase[] = [
  momentsCase('int32 values', [5, 67], (i) => (i * 7919) % 1000, bernoulli(0.6), { values: 'int32' }),
  momentsCase('int32 extremes above 2^24', [5, 67], (i) => 16777216 + i, everything, { values: 'int32' }),
  momentsCase('int32 limits', [2, 33], picked([INT32_MAX, INT32_MIN, 0, INT32_MAX - 1]), everything, {
    values: 'int32',
  }),
  momentsCase(
    'int32 around 2^30, spread 2e4',
    [3, 4099],
    (_i, random) => 2 ** 30 + Math.round((random() - 0.5) * 4e4),
    bernoulli(0.6),
    { values: 'int32' },
  ),
  momentsCase('int32 values, int32 mask', [5, 67], (i) => i - 100, picked([0, 3, 1]), {
    values: 'int32',
    mask: 'int32',
  }),
  momentsCase('int32 values, no mask', [5, 67], (i) => i - 100, noMask, { values: 'int32' }),
  momentsCase('bool values', [5, 67], bernoulli(0.3), bernoulli(0.6), { values: 'bool' }),
  momentsCase('bool values, float32 mask', [5, 67], bernoulli(0.3), bernoulli(0.6), {
    values: 'bool',
    mask: 'float32',
  }),
  momentsCase('bool values, no mask', [3, 3], bernoulli(0.3), noMask, { values: 'bool' }),
];

/** All cases by what they vary. */
export const MOMENTS_CASES = { shapes, masks, nonFinite, magnitudes, dtypes } as const;
