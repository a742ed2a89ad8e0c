/** `logitsStatistics` against the float64 reference on every backend: sizes, scales, ranks, and what is not finite. */

import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { logitsStatistics } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import {
  expectLogits,
  expectReference,
  normalCase,
  numbersOf,
  referenceOf,
  statisticsOf,
  tensorsOf,
} from '../support/logits-cases.js';
import { seeded } from '../support/random.js';

const backend = await testBackend();

/** One row of `logits` for each of its labels. */
function everyLabel(logits: readonly number[], temperature = 1) {
  const labels = logits.map((_, c) => c);
  return {
    shape: [logits.length, logits.length],
    logits: labels.flatMap(() => logits),
    labels,
    temperature,
  };
}

const LOWEST = -3.4028234663852886e38;

describe('sizes of the vocabulary', () => {
  test.each([1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 1023, 1025])('%i', (cols) =>
    expectReference(normalCase([7, cols], seeded(cols)), `V = ${cols}`),
  );

  test.each([
    [3, 32_000],
    [2, 32_003],
    [1, 50_257],
    [1, 151_936],
  ])('%i × %i', (rows, cols) => expectReference(normalCase([rows, cols], seeded(cols)), `V = ${cols}`));

  test('more rows than one dimension of a dispatch takes', () =>
    expectReference(normalCase([66_000, 2], seeded(3)), '66 000 rows'));

  test('more rows than are computed at once', () =>
    // Rows of 600 KB: a chunk of 16 MiB ends after 27 of them.
    backend === 'webgpu'
      ? expectReference(normalCase([3, 65_536], seeded(4)), 'few rows')
      : expectReference(normalCase([60, 151_936], seeded(4)), 'many rows'));
});

describe('shapes', () => {
  test.each([[[9]], [[4, 9]], [[2, 3, 9]], [[2, 1, 3, 9]]])('%j', async (shape) => {
    await expectReference(normalCase(shape, seeded(9)), `shape ${shape.join()}`);
  });

  test.each([[[0, 5]], [[3, 0, 5]], [[0, 1]]])('no rows: %j', async (shape) => {
    const numbers = await statisticsOf({ shape, logits: [], labels: [] });
    expect(numbers.logProbs).toHaveLength(0);
  });

  test('labels may be float32', () => {
    const golden = normalCase([5, 11], seeded(10));
    return expectReference({ ...golden, labelDtype: 'float32' }, 'float32 labels');
  });

  test('logits and labels may be casts, whose buffers hold the other type', async () => {
    const integers = tf.tensor2d([1, 5, -2, 0, 3, 3], [2, 3], 'int32');
    const floats = tf.tensor1d([2, 0]);
    const logits = tf.cast(integers, 'float32');
    const labels = tf.cast(floats, 'int32');
    const numbers = await numbersOf({ ...logitsStatistics(logits, labels) }, [2]);
    const golden = { shape: [2, 3], logits: [1, 5, -2, 0, 3, 3], labels: [2, 0] };
    expectLogits(numbers, referenceOf(golden), 'casts');
    tf.dispose([integers, floats, logits, labels]);
  });
});

describe('temperature', () => {
  test.each([0.1, 0.6, 0.7, 1.5, 2, 10])('%f', (temperature) =>
    expectReference(normalCase([4, 501], seeded(11), { temperature }), `temperature ${temperature}`),
  );

  test.each([1e-30, 1e-6, 1e6, 1e30])('%f: the ends of the range', async (temperature) => {
    await expectReference(everyLabel([1, 1.5, 1.5, -3, 0], temperature), 'ordinary logits');
    await expectReference(everyLabel([1e30, -1e30, 3e38, LOWEST, 0], temperature), 'huge logits');
  });
});

describe('scales', () => {
  test.each([-10_000, -1000, 1000, 10_000])('an offset of %i', (mean) =>
    expectReference(normalCase([6, 777], seeded(12), { mean }), `offset ${mean}`),
  );

  test.each([0.01, 0.5, 10, 100, 10_000])('a spread of %f', (std) =>
    expectReference(normalCase([6, 777], seeded(13), { std }), `spread ${std}`),
  );

  test.each([1, 64, 1000, 32_000, 151_936])('equal logits: the entropy is ln %i', async (cols) => {
    const { entropy, sumPiSquared, maxProb } = await statisticsOf({
      shape: [1, cols],
      logits: new Float32Array(cols).fill(-2.7),
      labels: [cols - 1],
    });
    expect(entropy).toBeCloseToReference([Math.log(cols)], { abs: 4e-6, rel: 4e-6 });
    expect(sumPiSquared).toBeCloseToReference([1 / cols], { rel: 4e-6 });
    expect(maxProb).toBeCloseToReference([1 / cols], { rel: 4e-6 });
  });

  test.each([0.3, 1.1, 7.7, 12.3])('one logit stands out of a flat rest by %f', (above) => {
    // All exponentials but one are equal, so errors of summation have one sign.
    const cols = 151_936;
    const logits = new Float32Array(cols).fill(0.1);
    logits[cols / 2] = 0.1 + above;
    return expectReference({ shape: [1, cols], logits, labels: [cols / 2] }, `above by ${above}`);
  });

  test.each([5, -5, 17, -17])('a slow slope over %i', (range) => {
    // The running maximum changes with every block, or never.
    const cols = 100_000;
    const logits = Float32Array.from({ length: cols }, (_, c) => (c * range) / cols);
    return expectReference({ shape: [1, cols], logits, labels: [7] }, 'slope');
  });

  test.each([1, -1])('a steep slope, rising or falling (%i)', (sign) => {
    const cols = 20_000;
    const logits = Float32Array.from({ length: cols }, (_, c) => (sign * c) / 20);
    return expectReference({ shape: [1, cols], logits, labels: [cols - 40] }, 'slope');
  });

  test.each([-5000, -800, -720, -30])('a vocabulary whose first part lies %i from the rest', (below) => {
    const cols = 20_000;
    const logits = Float32Array.from({ length: cols }, (_, c) => (c < 12_000 ? below : 0) + Math.sin(c));
    return expectReference({ shape: [1, cols], logits, labels: [19_999] }, 'step');
  });

  test('a sure thing', async () => {
    await expectReference(everyLabel([0, 0, 80]), 'sure');
    const { entropy, logProbs } = await statisticsOf(everyLabel([-200, 100, -50, 99.99]));
    for (const h of entropy) expect(h).toBeGreaterThanOrEqual(0);
    for (const p of logProbs) expect(p).toBeLessThanOrEqual(0);
  });

  test('logits near the ends of float32', async () => {
    await expectReference(everyLabel([3e38, -3e38, 0]), 'a log-probability beyond float32 is -Infinity');
    await expectReference(everyLabel([3e38, -3e38, 0], 4), 'a temperature brings it back');
    await expectReference(everyLabel([LOWEST, LOWEST, LOWEST]), 'all the lowest number: uniform');
    await expectReference(everyLabel([LOWEST, 1, LOWEST, 2]), 'the lowest number as a mask');
    await expectReference(everyLabel([1e-40, 2e-40, -1e-40, 0]), 'denormals');
  });
});

describe('what is not finite', () => {
  const inf = Infinity;

  test('-Infinity is probability 0, also that of the label', async () => {
    await expectReference(everyLabel([0, -inf, 1, -inf, -inf, 2, 0.5, -inf]), 'some');
    await expectReference(everyLabel([-inf, -inf, -7]), 'all but one');
    const { logProbs, entropy } = await statisticsOf(everyLabel([-inf, 0]));
    expect([...logProbs]).toEqual([-inf, 0]);
    expect([...entropy]).toEqual([0, 0]);
  });

  test('whole blocks of -Infinity, before and after the others', () => {
    const cols = 9000;
    const rows = [
      (c: number) => c === cols - 1,
      (c: number) => c === 0,
      (c: number) => c > 5000 && c < 5010,
      (c: number) => c % 3 === 1,
    ];
    const logits = rows.flatMap((holds) =>
      Array.from({ length: cols }, (_, c) => (holds(c) ? Math.sin(c) * 3 : -inf)),
    );
    return expectReference({ shape: [4, cols], logits, labels: [cols - 1, 0, 5005, 2] }, 'blocks');
  });

  test.each([5, 68, 9001])(
    'NaN and +Infinity, wherever they stand, are NaN for their row alone: V = %i',
    async (cols) => {
      const places = [0, 1, cols >> 1, cols - 2, cols - 1];
      const bad = [NaN, inf].flatMap((value) =>
        [0, -inf].flatMap((others) => places.map((place) => ({ value, others, place }))),
      );
      // Every second row is healthy.
      const rows = bad.flatMap(({ value, others, place }) => [
        Array.from({ length: cols }, (_, c) => (c === place ? value : others)),
        Array.from({ length: cols }, (_, c) => (c === place ? 2 : others)),
      ]);
      const labels = bad.flatMap(({ place }) => [place, place]);
      const golden = { shape: [rows.length, cols], logits: rows.flat(), labels };
      const numbers = await statisticsOf(golden);
      expectLogits(numbers, referenceOf(golden), 'rows');
      expect([...numbers.entropy].filter(Number.isNaN)).toHaveLength(bad.length);
    },
  );

  test('nothing but -Infinity is NaN', async () => {
    const numbers = await statisticsOf({ shape: [2, 6], logits: Array(12).fill(-inf), labels: [0, 5] });
    for (const values of Object.values(numbers)) expect([...values]).toEqual([NaN, NaN]);
  });

  test.each([1, 2, 4, 5, 2048, 2051, 4097, 9001])(
    'nothing but -Infinity is NaN in all four, between healthy rows and at any temperature: V = %i',
    async (cols) => {
      const logits = Array.from({ length: 5 * cols }, (_, i) =>
        Math.floor(i / cols) % 2 === 1 ? -inf : Math.sin(i),
      );
      for (const temperature of [1, 0.7, 1e-30, 1e30]) {
        const golden = { shape: [5, cols], logits, labels: [0, 0, 0, cols - 1, 0], temperature };
        const numbers = await statisticsOf(golden);
        for (const [name, values] of Object.entries(numbers)) {
          const found = [...values].map(Number.isNaN);
          expect(found, `${name} at temperature ${temperature}`).toEqual([false, true, false, true, false]);
        }
      }
    },
  );

  test('NaN with a payload is NaN, too', async () => {
    const logits = new Float32Array(8);
    new Uint32Array(logits.buffer).set([0x7fc00001, 0xffc01234, 0x7f800001], 2);
    const { logProbs } = await statisticsOf({ shape: [1, 8], logits, labels: [0] });
    expect([...logProbs]).toEqual([NaN]);
  });
});

describe('as an op among others', () => {
  const golden = normalCase([3, 40], seeded(20));

  test('equal inputs give equal bits', async () => {
    const large = normalCase([2, 20_001], seeded(21), { temperature: 0.7 });
    expect(await statisticsOf(large)).toEqual(await statisticsOf(large));
  });

  test('the inputs may be disposed in the next line, and results feed further ops', async () => {
    const [logits, labels] = tensorsOf(golden);
    const { logProbs, entropy, sumPiSquared, maxProb } = logitsStatistics(logits!, labels!);
    tf.dispose([logits!, labels!]);
    const twice = tf.add(logProbs, logProbs);
    const { logProbs: expected } = await statisticsOf(golden);
    expect([...(await twice.data())]).toEqual([...expected].map((x) => 2 * x));
    tf.dispose([logProbs, entropy, sumPiSquared, maxProb, twice]);
  });

  test('tf.tidy keeps what it returns and disposes the rest', async () => {
    const [logits, labels] = tensorsOf(golden);
    await expectNoLeaks(async () => {
      const entropy = tf.tidy(() => logitsStatistics(logits!, labels!).entropy);
      expect(entropy.isDisposed).toBe(false);
      const { entropy: expected } = await statisticsOf(golden);
      expect([...(await entropy.data())]).toEqual([...expected]);
      entropy.dispose();
    });
    tf.dispose([logits!, labels!]);
  });

  test('no gradient is claimed, and that of the caller is left as it is', async () => {
    await import('@tensorflow/tfjs'); // the gradients
    const [logits, labels] = tensorsOf(golden);
    const gradient = tf.grad((x) => {
      logitsStatistics(x, labels!).entropy.dispose();
      return tf.sum(tf.square(x));
    })(logits!);
    expect([...(await gradient.data())]).toEqual(Array.from(golden.logits, (z) => Math.fround(2 * z)));
    gradient.dispose();
    tf.dispose([logits!, labels!]);
  });

  test('runs where its inputs are, whatever backend is active', async () => {
    const other = backend === 'cpu' ? 'wasm' : 'cpu';
    await import(`@tensorflow/tfjs-backend-${other}`);
    const [logits, labels] = tensorsOf(golden);
    await tf.setBackend(other);
    const statistics = logitsStatistics(logits!, labels!);
    expect(tf.getBackend()).toBe(other);
    await tf.setBackend(backend);
    expectLogits(await numbersOf({ ...statistics }, [3]), referenceOf(golden), 'elsewhere');
    tf.dispose([logits!, labels!]);
  });
});
