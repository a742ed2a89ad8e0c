/** The histogram on the host: what a bucket is, merging, quantiles against the sorted elements, and the row on the wire. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ValueError } from '../../../src/errors.js';
import { Moments } from '../../../src/kernels/index.js';
import { LAST_BUCKET, SLOTS, bucketValue } from '../../../src/rows/buckets.js';
import { Histogram, histogramOfSlots } from '../../../src/rows/histogram.js';
import { bucketOf, referenceHistogram } from '../../../src/kernels/histogram/reference.js';
import { referenceMoments } from '../../../src/kernels/moments/reference.js';
import { anyValues, finiteValues } from '../../support/arbitraries.js';
import { normal, seeded } from '../../support/random.js';

const bucketsOf = (histogram: Histogram) => [...histogram];

describe('buckets', () => {
  const all = Array.from({ length: 2 * LAST_BUCKET + 1 }, (_, i) => i - LAST_BUCKET);

  test('ascend, and each is the bucket of its own number', () => {
    const values = all.map(bucketValue);
    expect(values.every((value, i) => i === 0 || value > values[i - 1]!)).toBe(true);
    expect(values.map(bucketOf)).toEqual(all);
  });

  test('reach from the smallest float32 to beyond the largest, and are neighbours at 2^-6', () => {
    expect([1, 2, 64, 65, LAST_BUCKET].map(bucketValue)).toEqual([
      2 ** -149,
      2 ** -149 * (65 / 64),
      2 ** -149 * (127 / 64),
      2 ** -148,
      2 ** 128,
    ]);
    expect(bucketValue(-1)).toBe(-(2 ** -149));
  });

  test('hold what rounds to seven bits, halves away from zero', () => {
    const { value } = bucketsOf(referenceHistogram([1 + 1 / 128]))[0]!;
    expect(value).toBe(1 + 1 / 64);
    expect(bucketsOf(referenceHistogram([1 + 1 / 128 - 2 ** -23]))[0]!.value).toBe(1);
    expect(bucketsOf(referenceHistogram([-1 - 1 / 128]))[0]!.value).toBe(-1 - 1 / 64);
    expect(bucketsOf(referenceHistogram([2 - 2 ** -23]))[0]!.value).toBe(2);
  });

  test('are the integers to 128, halves and powers of two themselves', () => {
    const own = [...Array.from({ length: 129 }, (_, i) => i), 0.5, 1.5, 0.25, 1024, 2 ** 20, -(2 ** 31)];
    expect(own.map((x) => bucketValue(bucketOf(x)))).toEqual(own);
  });

  test('hold the smallest and the largest float32, neither zero nor infinite', () => {
    const max = (2 - 2 ** -23) * 2 ** 127;
    expect([2 ** -149, max, -(2 ** -149), -max].map(bucketOf)).toEqual([1, LAST_BUCKET, -1, -LAST_BUCKET]);
    expect(LAST_BUCKET).toBeLessThan(SLOTS / 2 - 3);
  });

  test('are at most 1/129 of a number away from it', () => {
    const exponent = fc.integer({ min: -149, max: 127 });
    const fraction = fc.double({ min: 1, max: 2, noNaN: true });
    fc.assert(
      fc.property(exponent, fraction, fc.constantFrom(-1, 1), (e, f, sign) => {
        const x = Math.fround(sign * Math.min(f * 2 ** e, 3.4028234663852886e38));
        expect(Math.abs(bucketValue(bucketOf(x)) - x)).toBeLessThanOrEqual(Math.abs(x) / 129);
      }),
    );
    const worst = 1 + 1 / 128;
    expect(bucketValue(bucketOf(worst)) - worst).toBeCloseTo(worst / 129, 12);
  });
});

describe('slots of a kernel', () => {
  test('both zeros are zero, NaN has no sign, infinities have', () => {
    const slots = new Uint32Array(3 * SLOTS).fill(7, 0, SLOTS);
    // As the kernels lay them out: zero, the buckets, NaN, Infinity; later those of negative floats.
    const negative = SLOTS / 2;
    [0, negative, 17730, negative + 17730, 17731, negative + 17731, 1, negative + 17729].forEach((at, i) => {
      slots[SLOTS + at] = i + 1;
    });
    slots.fill(9, 2 * SLOTS);
    const histogram = histogramOfSlots(slots, SLOTS);
    expect(histogram).toMatchObject({ nan: 3 + 4, posInf: 5, negInf: 6 });
    expect(bucketsOf(histogram)).toEqual([
      { value: -(2 ** 128), count: 8 },
      { value: 0, count: 1 + 2 },
      { value: 2 ** -149, count: 7 },
    ]);
  });
});

describe('merging', () => {
  const histograms = anyValues(0, 40).map((values) => referenceHistogram(values));
  const rowOf = (histogram: Histogram) => histogram.toJSON();

  test('nothing changes nothing', () => {
    fc.assert(
      fc.property(histograms, (a) => {
        expect(rowOf(a.merge(Histogram.empty))).toEqual(rowOf(a));
        expect(rowOf(Histogram.empty.merge(a))).toEqual(rowOf(a));
      }),
    );
  });

  test('order and grouping do not matter', () => {
    fc.assert(
      fc.property(histograms, histograms, histograms, (a, b, c) => {
        expect(rowOf(a.merge(b))).toEqual(rowOf(b.merge(a)));
        expect(rowOf(a.merge(b).merge(c))).toEqual(rowOf(a.merge(b.merge(c))));
      }),
    );
  });

  test('parts make the whole', () => {
    fc.assert(
      fc.property(anyValues(1, 80), fc.nat(80), (values, cut) => {
        const parts = [values.slice(0, cut), values.slice(cut)].map((part) => referenceHistogram(part));
        expect(rowOf(parts[0]!.merge(parts[1]!))).toEqual(rowOf(referenceHistogram(values)));
      }),
    );
  });

  test('counts stay exact where float32 and int32 end', () => {
    const many = Histogram.fromRow([2, 0, 0, 0, 5, 2 ** 40]);
    const merged = many.merge(Histogram.fromRow([2, 1, 0, 0, 5, 1]));
    expect(merged.count).toBe(2 ** 40 + 2);
    expect(bucketsOf(merged)[0]!.count).toBe(2 ** 40 + 1);
  });

  test('neither histogram is changed, and none can be', () => {
    const a = referenceHistogram([1, 2]);
    const before = rowOf(a);
    a.merge(referenceHistogram([1, 3, NaN]));
    a.toRow().fill(99);
    expect(rowOf(a)).toEqual(before);
    expect(() => Object.assign(a, { nan: 3 })).toThrow(TypeError);
  });

  test.each([undefined, null, 5, [1, 0, 0, 0], {}])('%j is refused', (other) => {
    expect(() => Histogram.empty.merge(other as never)).toThrow(ValueError);
    expect(() => Histogram.empty.merge(other as never)).toThrow(
      /Histogram.merge: other: expected a Histogram/,
    );
  });
});

/** The number at share `q` of the sorted elements, as torch.quantile interpolates, with the elements beside it. */
function exactQuantile(sorted: readonly number[], q: number): { exact: number; low: number; high: number } {
  const position = q * (sorted.length - 1);
  const low = sorted[Math.floor(position)]!;
  const high = sorted[Math.ceil(position)]!;
  return { exact: low + (position - Math.floor(position)) * (high - low), low, high };
}

/** How far a quantile may be off: each of the two elements by 1/129 of itself. */
function boundOf({ low, high }: { low: number; high: number }): number {
  return Math.max(Math.abs(low), Math.abs(high)) / 129;
}

describe('quantiles', () => {
  test('of a smallest element above the largest are refused', () => {
    const histogram = referenceHistogram([3, 4, 5]);
    expect(() => histogram.quantile(0.5, { min: 5, max: 3 })).toThrow(ValueError);
    expect(() => histogram.quantile(0.5, { min: 5, max: 3 })).toThrow(/options\.min.*options\.max, 3/s);
    expect(histogram.quantile(0, { min: 3, max: 3 })).toBe(3);
    expect(histogram.quantile(1, { min: NaN, max: 5 })).toBe(5);
  });

  const shares = [0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1];

  test.each([
    ['normal', (random: () => number) => normal(random)],
    ['log-normal', (random: () => number) => Math.fround(Math.exp(3 * normal(random)))],
    ['negative exponential', (random: () => number) => Math.fround(Math.log(1 - random()))],
    ['uniform in ±1e6', (random: () => number) => Math.fround((random() - 0.5) * 2e6)],
    ['tiny', (random: () => number) => Math.fround(1e-9 * normal(random))],
    ['subnormal', (random: () => number) => Math.fround(1e-40 * normal(random))],
    ['huge', (random: () => number) => Math.fround(1e37 * normal(random))],
    ['of every size', (random: () => number) => Math.fround(10 ** (random() * 83 - 45))],
  ])('of %s numbers are within the bound', (_, draw) => {
    const random = seeded(11);
    const values = Array.from({ length: 5000 }, () => draw(random));
    const sorted = values.toSorted((a, b) => a - b);
    const histogram = referenceHistogram(values);
    for (const q of shares) {
      const reference = exactQuantile(sorted, q);
      const error = Math.abs(histogram.quantile(q) - reference.exact);
      expect(error, `q = ${q}`).toBeLessThanOrEqual(boundOf(reference) * (1 + 1e-12));
    }
  });

  test('of any numbers are within the bound, with and without their extremes', () => {
    fc.assert(
      fc.property(finiteValues(1, 60), fc.double({ min: 0, max: 1, noNaN: true }), (values, q) => {
        const sorted = values.toSorted((a, b) => a - b);
        const reference = exactQuantile(sorted, q);
        const histogram = referenceHistogram(values);
        const extremes = { min: sorted[0]!, max: sorted.at(-1)! };
        const bound = boundOf(reference) * (1 + 1e-12);
        const [free, clipped] = [histogram.quantile(q), histogram.quantile(q, extremes)];
        expect(Math.abs(free - reference.exact)).toBeLessThanOrEqual(bound);
        expect(Math.abs(clipped - reference.exact)).toBeLessThanOrEqual(bound);
        expect(clipped).toBeGreaterThanOrEqual(extremes.min);
        expect(clipped).toBeLessThanOrEqual(extremes.max);
      }),
    );
  });

  test.each([
    [[1e10, 1e12, 1e14], 1e12],
    [[-1e14, -1e12, -1e10], -1e12],
    [[1e-30, 1e-20, 1e-15], 1e-20],
    [[1e-45, 1e-41, 1e-38], 1e-41],
    [[1e30, 3e38, 3.4e38], 3e38],
  ])('of %j: the median is %d to 1/129', (values, median) => {
    const exact = Math.fround(median);
    const found = referenceHistogram(values).quantile(0.5);
    expect(Math.abs(found / exact - 1)).toBeLessThanOrEqual(1 / 129);
  });

  test('never fall as the share grows', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(finiteValues(1, 60), share, share, (values, p, q) => {
        const histogram = referenceHistogram(values);
        const [low, high] = [Math.min(p, q), Math.max(p, q)].map((x) => histogram.quantile(x));
        // Interpolation between equal ends may round.
        expect(low!).toBeLessThanOrEqual(high! + Math.abs(high!) * 2 ** -50);
      }),
    );
  });

  test('of lengths and flags are exact', () => {
    const lengths = Array.from({ length: 101 }, (_, i) => i);
    expect([0, 0.5, 0.9, 0.99, 1].map((q) => referenceHistogram(lengths).quantile(q))).toEqual([
      0, 50, 90, 99, 100,
    ]);
    expect(referenceHistogram([0, 1]).quantile(0.5)).toBe(0.5);
    expect(referenceHistogram([0, 0, 1]).quantile(0.5)).toBe(0);
  });

  test('are exact at both ends and for a constant once the extremes are known', () => {
    const values = [-0.1, 0.3, 0.7, 12345.678, 1e12].map(Math.fround);
    const histogram = referenceHistogram(values);
    const { min, max } = new Moments(referenceMoments(values, undefined, 1, values.length).row(0));
    expect(histogram.quantile(0, { min, max })).toBe(min);
    expect(histogram.quantile(1, { min, max })).toBe(max);
    expect(Math.abs(histogram.quantile(1) / max - 1)).toBeLessThanOrEqual(1 / 129);
    const constant = Math.fround(0.1);
    const same = referenceHistogram(Array<number>(9).fill(constant));
    for (const q of shares) expect(same.quantile(q, { min: constant, max: constant })).toBe(constant);
    // What moments say when nothing finite was selected is no extreme.
    expect(histogram.quantile(1, { min: NaN, max: Infinity })).toBe(histogram.quantile(1));
  });

  test('NaN propagates or is ignored, infinities are outermost or are ignored', () => {
    const ignore = { nonFinite: 'ignore' } as const;
    const nan = referenceHistogram([1, NaN, 2, 3]);
    expect(nan.quantile(0.5)).toBeNaN();
    expect(nan.quantile(0.5, ignore)).toBe(2);
    const infinite = referenceHistogram([Infinity, 1, -Infinity, 2, Infinity]);
    expect([0, 0.25, 0.5, 0.75, 1].map((q) => infinite.quantile(q))).toEqual([
      -Infinity,
      1,
      2,
      Infinity,
      Infinity,
    ]);
    expect([0.1, 0.3, 0.6, 0.9].map((q) => infinite.quantile(q))).toEqual(
      [-Infinity, 1.2, Infinity, Infinity].map((x) => expect.closeTo(x, 12) as number),
    );
    expect([0, 0.5, 1].map((q) => infinite.quantile(q, ignore))).toEqual([1, 1.5, 2]);
    expect(referenceHistogram([Infinity, -Infinity]).quantile(0.5)).toBeNaN();
    expect(referenceHistogram([Infinity, Infinity]).quantile(0.5)).toBe(Infinity);
  });

  test('of nothing are NaN', () => {
    expect(Histogram.empty.quantile(0.5)).toBeNaN();
    expect(referenceHistogram([NaN, Infinity]).quantile(0.5, { nonFinite: 'ignore' })).toBeNaN();
  });

  test.each([
    ['a share in percent', [50], /Histogram.quantile: q: expected a number from 0 to 1, got the number 50/],
    ['a negative share', [-0.1], /q/],
    ['NaN', [NaN], /q/],
    ['a text', ['0.5'], /q.*text/],
    ['invalid options', [0.5, 3], /options/],
    ['an extreme that is no number', [0.5, { min: null }], /options\.min/],
    ['an unknown policy', [0.5, { nonFinite: 'drop' }], /nonFinite.*drop/],
  ])('refuse %s', (_, args, says) => {
    const quantile = () => Histogram.empty.quantile(...(args as [number]));
    expect(quantile).toThrow(ValueError);
    expect(quantile).toThrow(says);
  });
});

describe('the row', () => {
  test('brings a histogram back, also by way of JSON', () => {
    fc.assert(
      fc.property(anyValues(0, 60), (values) => {
        const histogram = referenceHistogram(values);
        const [back, read] = [
          Histogram.fromRow(histogram.toRow()),
          Histogram.fromRow(JSON.parse(JSON.stringify(histogram)) as number[]),
        ];
        for (const other of [back, read]) {
          expect(other.toRow()).toEqual(histogram.toRow());
          expect(other.count).toBe(histogram.count);
        }
      }),
    );
  });

  test('of the narrow layout, of earlier versions, means the same numbers', () => {
    const old = Histogram.fromRow([1, 3, 2, 1, -4033, 5, -1, 4, 0, 6, 1, 7, 1986, 8, 4033, 9]);
    expect(old).toMatchObject({ count: 45, nan: 3, posInf: 2, negInf: 1 });
    expect(bucketsOf(old).map(({ value }) => value)).toEqual([
      ...[-(2 ** 32), -(2 ** -31), 0, 2 ** -31],
      2 ** 0 * (1 + 1 / 64),
      2 ** 32,
    ]);
    expect(Histogram.fromRow(old.toRow()).toJSON()).toEqual(old.toJSON());
    expect(() => Histogram.fromRow([1, 0, 0, 0, 4034, 1])).toThrow(/the bucket 4034/);
  });

  test('is small', () => {
    const random = seeded(3);
    const values = Array.from({ length: 100_000 }, () => normal(random));
    const { byteLength } = referenceHistogram(values).toRow();
    expect(byteLength).toBeLessThan(24 * 1024);
  });

  test.each([
    ['nothing', undefined, /undefined/],
    ['no list', { length: 4 }, /an object/],
    ['an empty list', [], /a list of 0/],
    ['half a pair', [2, 0, 0, 0, 5], /a list of 5/],
    ['another layout', [3, 0, 0, 0], /layout 3/],
    ['a negative count', [2, -1, 0, 0], /the count -1/],
    ['a count that is no number', [2, 0, '0', 0], /the count the text '0'/],
    ['a fraction', [2, 0, 0, 0.5], /the count 0\.5/],
    ['an empty bucket', [2, 0, 0, 0, 7, 0], /the count 0 of bucket 7/],
    ['a bucket between two', [2, 0, 0, 0, 1.5, 1], /the bucket 1\.5/],
    ['a bucket beyond the last', [2, 0, 0, 0, LAST_BUCKET + 1, 1], /the bucket 17730/],
    ['a bucket twice', [2, 0, 0, 0, 7, 1, 7, 1], /the bucket 7 after 7/],
    ['buckets out of order', [2, 0, 0, 0, 7, 1, 3, 1], /the bucket 3 after 7/],
    ['JSON of NaN', [2, null, 0, 0], /the count null/],
  ])('refuses %s', (_, row, says) => {
    expect(() => Histogram.fromRow(row as never)).toThrow(ValueError);
    expect(() => Histogram.fromRow(row as never)).toThrow(says);
  });
});
