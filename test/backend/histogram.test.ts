/** `maskedHistograms` on every backend: every count equals the reference's, whatever the shape, the mask and the numbers. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import type { Histogram } from '../../src/kernels/index.js';
import { collect, compactMask, maskedHistograms, maskedMoments } from '../../src/kernels/index.js';
import { referenceHistogram } from '../../src/kernels/histogram/reference.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { alive, expectNoLeaks } from '../support/leaks.js';
import { MOMENTS_CASES, type MomentsInput } from '../support/moments-cases.js';
import { normal, seeded } from '../support/random.js';
import { STORAGE, type TensorLike, deviceTensor, tidied } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

/** What the tensor really holds: its values in its dtype. */
const stored = ({ dtype = 'float32', values }: TensorLike) => STORAGE[dtype].from(values);

/** Launches, disposes the tensors, reads, and compares every count. */
async function expectReference({ values, mask }: MomentsInput): Promise<Histogram> {
  return expectNoLeaks(async () => {
    const x = deviceTensor(values);
    const m = mask && deviceTensor(mask);
    const pending = maskedHistograms({ x }, m);
    tf.dispose(m ? [x, m] : [x]);
    const histogram = (await pending).x;
    expect(histogram.toJSON()).toEqual(referenceHistogram(stored(values), mask && stored(mask)).toJSON());
    return histogram;
  });
}

const vector = (...values: number[]): TensorLike => ({ shape: [values.length], values });

describe.each(Object.entries(MOMENTS_CASES))('%s', (_topic, cases) => {
  test.each(cases)('$name', async (given) => {
    await expectReference(given.build());
  });
});

describe('integers, under every form of a mask', () => {
  // Several tiles of 4096, which hosts convert one by one, and a rest.
  const size = 10_001;
  const values = Int32Array.from({ length: size }, (_, i) => ((i * 7919) % 2001) - 1000);
  test.each([
    ['many runs', (i: number) => i % 3 === 1],
    ['runs of many tiles', (i: number) => (i > 100 && i < 9000) || i >= 9950],
    ['runs that begin and end with tiles', (i: number) => Math.floor(i / 4096) % 2 === 1],
  ] as const)('of %s', async (_name, selects) => {
    const mask = Uint8Array.from({ length: size }, (_, i) => Number(selects(i)));
    await expectNoLeaks(async () => {
      const m = deviceTensor({ shape: [size], dtype: 'bool', values: mask });
      const integers = deviceTensor({ shape: [size], dtype: 'int32', values });
      // On some backends a cast leaves the integers where they are.
      const tensors = { integers, cast: tf.cast(integers, 'float32') };
      const compact = compactMask(m);
      const [under, compacted] = await collect(
        maskedHistograms(tensors, m),
        maskedHistograms(tensors, compact),
      );
      const expected = referenceHistogram(values, mask).toJSON();
      for (const found of [under, compacted]) {
        expect(found.integers.toJSON()).toEqual(expected);
        expect(found.cast.toJSON()).toEqual(expected);
      }
      compact.release();
      tf.dispose([m, tensors]);
    });
  });
});

describe('the edges of buckets', () => {
  /** The float32 `steps` floats away from a positive one. */
  const beside = (x: number, steps: number): number => {
    const bits = new Int32Array(Float32Array.of(x).buffer);
    bits[0]! += steps;
    return new Float32Array(bits.buffer)[0]!;
  };

  // Everything that a workgroup of a GPU counts in memory of its own and a little more, and both ends of float32.
  const EXPONENTS = [
    ...Array.from({ length: 67 }, (_, i) => i - 33),
    ...[-126, -125, -80, -50, 50, 80, 126, 127],
  ];

  test('every edge and what is beside it, on both sides of zero', async () => {
    const values: number[] = [];
    for (const exponent of EXPONENTS) {
      for (let step = 0; step < 64; step += 1 + (step % 7)) {
        const edge = 2 ** exponent * (1 + (step + 0.5) / 64);
        values.push(beside(edge, -1), edge, beside(edge, 1), 2 ** exponent * (1 + step / 64));
      }
    }
    const histogram = await expectReference({ values: vector(...values, ...values.map((x) => -x)) });
    expect(histogram.count).toBe(2 * values.length);
  });

  test('powers of two, and the floats beside them', async () => {
    const powers = Array.from({ length: 254 }, (_, i) => 2 ** (i - 126));
    await expectReference({ values: vector(...powers.flatMap((x) => [beside(x, -1), x, beside(x, 1), -x])) });
  });

  test('zeros of both signs are one bucket, subnormal numbers are none of it', async () => {
    const tiny = [1e-45, 1e-40, 1.1754942e-38, 2 ** -126];
    const histogram = await expectReference({ values: vector(0, -0, 0, ...tiny, ...tiny.map((x) => -x)) });
    const buckets = [...histogram];
    expect(buckets.find(({ value }) => value === 0)).toEqual({ value: 0, count: 3 });
    const positive = buckets.filter(({ value }) => value > 0);
    expect(positive.map(({ count }) => count)).toEqual([1, 1, 2]);
    expect(positive[0]!.value).toBe(2 ** -149);
    expect(positive[2]!.value).toBe(2 ** -126);
  });

  test('subnormal numbers have buckets as fine as others', async () => {
    const bits = Array.from({ length: 400 }, (_, i) => Math.floor(2 ** ((i * 23) / 400)));
    const values = [...new Float32Array(Uint32Array.from(bits).buffer)];
    const histogram = await expectReference({ values: vector(...values, ...values.map((x) => -x)) });
    for (const q of [0.6, 0.75, 0.9, 1]) {
      const exact = values[Math.round(q * 799) - 400]!;
      expect(Math.abs(histogram.quantile(Math.round(q * 799) / 799) / exact - 1)).toBeLessThanOrEqual(
        1 / 129,
      );
    }
  });

  test.each([
    [[1e10, 1e12, 1e14], 1e12],
    [[-1e14, -1e12, -1e10], -1e12],
    [[1e-30, 1e-20, 1e-15], 1e-20],
    [[1e30, 3e38, 3.4e38], 3e38],
  ])('the median of %j is %d to 1/129', async (values, median) => {
    const histogram = await expectReference({ values: vector(...values) });
    expect(Math.abs(histogram.quantile(0.5) / Math.fround(median) - 1)).toBeLessThanOrEqual(1 / 129);
  });

  test('the largest floats are no infinities', async () => {
    const max = 3.4028234663852886e38;
    const histogram = await expectReference({
      values: vector(max, max, -max, Infinity, -Infinity, -Infinity),
    });
    expect(histogram).toMatchObject({ count: 6, nan: 0, posInf: 1, negInf: 2 });
    expect([...histogram]).toEqual([
      { value: -(2 ** 128), count: 1 },
      { value: 2 ** 128, count: 2 },
    ]);
  });

  test('NaN of any bits is NaN', async () => {
    const bits = Uint32Array.of(
      0x7fc00000,
      0xffc00000,
      0x7f800001,
      0xff800001,
      0x7fffffff,
      0xffffffff,
      0x3f800000,
    );
    const x = tf.tensor(new Float32Array(bits.buffer), [7]);
    const histogram = (await maskedHistograms({ x })).x;
    x.dispose();
    expect(histogram).toMatchObject({ count: 7, nan: 6, posInf: 0, negInf: 0 });
  });

  test('integers count as the nearest float32', async () => {
    const tie = 2 ** 24 + 1; // between two floats; the even one is below
    const above = 2 ** 24 + 3; // the even one is above
    const edge = 2 ** 30 + 2 ** 23; // of two buckets
    const values = [
      0,
      1,
      -1,
      127,
      128,
      129,
      130,
      tie,
      above,
      edge - 1,
      edge,
      edge + 1,
      2 ** 31 - 1,
      2 ** 31 - 64,
    ];
    const both = [...values, ...values.map((x) => -x), -(2 ** 31)];
    await expectReference({ values: { ...vector(...both), dtype: 'int32' } });
    const x = deviceTensor({ ...vector(...both), dtype: 'int32' });
    const floats = tf.cast(x, 'float32');
    const { x: ofIntegers, floats: ofCast } = await maskedHistograms({ x, floats });
    expect(ofCast.toJSON()).toEqual(ofIntegers.toJSON());
    tf.dispose([x, floats]);
  });
});

describe('records of tensors', () => {
  const shape = [4, 250];
  const noise = (seed: number): TensorLike => {
    const random = seeded(seed);
    return { shape, values: Float32Array.from({ length: 1000 }, () => normal(random, seed - 2, 1)) };
  };
  const mask: TensorLike = {
    shape,
    dtype: 'bool',
    values: Uint8Array.from({ length: 1000 }, (_, i) => (i % 3 === 0 ? 0 : 1)),
  };

  test('each has its own histogram, also of another dtype, and one tensor may have two names', async () => {
    const likes: Record<string, TensorLike> = {
      a: noise(1),
      b: { ...noise(2), dtype: 'int32' },
      c: { ...mask, values: mask.values },
      d: noise(3),
    };
    const tensors = Object.fromEntries(
      Object.entries(likes).map(([name, like]) => [name, deviceTensor(like)]),
    );
    const m = deviceTensor(mask);
    const named: Record<string, tf.Tensor> = { ...tensors, again: tensors.a! };
    const pending = maskedHistograms(named, m);
    tf.dispose([m, ...Object.values(tensors)]);
    const histograms = await pending;
    expect(Object.keys(histograms)).toEqual(['a', 'b', 'c', 'd', 'again']);
    for (const [name, like] of Object.entries({ ...likes, again: likes.a! })) {
      const reference = referenceHistogram(stored(like), mask.values);
      expect(histograms[name]!.toJSON(), name).toEqual(reference.toJSON());
    }
  });

  test.runIf(hasDevice())('histograms and moments of a step are read back at once', async () => {
    const [x, y, m] = [deviceTensor(noise(1)), deviceTensor(noise(2)), deviceTensor(mask)];
    const reads = await countReadBacks(backend, async () => {
      const [histograms, all, moments] = await collect(
        maskedHistograms({ x, y }, m),
        maskedHistograms({ y }),
        maskedMoments({ x, y }, m),
      );
      const { count, min, max } = moments.x;
      expect([histograms.x.count, all.y.count]).toEqual([count, 1000]);
      expect([0, 1].map((q) => histograms.x.quantile(q, { min, max }))).toEqual([min, max]);
    });
    expect(reads).toBe(1);
    tf.dispose([x, y, m]);
  });

  test.each([1000, 40_000])('a compact mask of %i elements selects the same', async (size) => {
    const random = seeded(size);
    const values = Float32Array.from({ length: size }, () => normal(random));
    const chosen = Uint8Array.from({ length: size }, () => (random() < 0.4 ? 1 : 0));
    const [x, m] = [
      deviceTensor({ shape: [size], values }),
      deviceTensor({ shape: [size], dtype: 'bool', values: chosen }),
    ];
    const compact = compactMask(m);
    const pending = maskedHistograms({ x }, compact);
    compact.release();
    tf.dispose([x, m]);
    expect((await pending).x.toJSON()).toEqual(referenceHistogram(values, chosen).toJSON());
  });
});

test('a tensor by itself gives a histogram, as it gives moments', async () => {
  const x = deviceTensor(vector(1, 2, 4, 100));
  const mask = deviceTensor({ ...vector(1, 1, 1, 0), dtype: 'bool' });
  const [masked, all] = await collect(maskedHistograms(x, mask), maskedHistograms(x));
  expect(masked.quantile(0.5)).toBe(2);
  expect(masked.toJSON()).toEqual(referenceHistogram([1, 2, 4]).toJSON());
  expect(all.count).toBe(4);
  tf.dispose([x, mask]);
});

describe('lifetime', () => {
  const like = vector(1, 2, NaN, 4);

  test('inputs are left as they were, outside and inside tf.tidy', async () => {
    const x = deviceTensor(like);
    const before = alive();
    const outside = await maskedHistograms({ x });
    const inside = await tidied(() => maskedHistograms({ x: tf.add(x, 0) }));
    expect(alive()).toEqual(before);
    expect(inside.x.toJSON()).toEqual(outside.x.toJSON());
    expect(Array.from(await x.data())).toEqual([1, 2, NaN, 4]);
    x.dispose();
  });

  test('memory that was used before does not show', async () => {
    for (const values of [[5, 5, 5], [6, 6, -7], [8]]) await expectReference({ values: vector(...values) });
  });

  test('release() frees what an unread result holds', async () => {
    const x = deviceTensor(like);
    await expectNoLeaks(async () => {
      const pending = maskedHistograms({ x });
      pending.release();
      await expect(pending).rejects.toThrow(/released/);
    });
    x.dispose();
  });
});

test('2^24 + 1 elements are 2^24 + 1', async () => {
  const size = 2 ** 24 + 1;
  await expectNoLeaks(async () => {
    const x = tf.fill([size], 1);
    const histogram = (await maskedHistograms({ x })).x;
    x.dispose();
    expect([...histogram]).toEqual([{ value: 1, count: size }]);
  });
});
