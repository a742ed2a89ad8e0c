/**
 * Ownership and timing of `maskedMoments` on every backend: when it launches, when it reads, what it keeps alive,
 * and that it leaves the caller's tidy and autodiff alone.
 */

import '@tensorflow/tfjs';
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { collect, maskedMoments, retainTensor } from '../../src/kernels/index.js';
import type { Moments } from '../../src/rows/moments.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { fieldsOf } from '../support/contract.js';
import { alive, expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor, tidied } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();
/** Backends whose results have to be transferred; the others compute in the host's memory. */
const readBacksOfOne = hasDevice() ? 1 : 0;

function inputs(size = 1000): { values: tf.Tensor; mask: tf.Tensor } {
  const random = seeded(size);
  return {
    values: deviceTensor({
      shape: [4, size / 4],
      values: Float32Array.from({ length: size }, () => normal(random)),
    }),
    mask: deviceTensor({
      shape: [4, size / 4],
      values: Uint8Array.from({ length: size }, () => (random() < 0.6 ? 1 : 0)),
      dtype: 'bool',
    }),
  };
}

describe('determinism', () => {
  test.each([1000, 40_000])('the same %i elements give the same bits', async (size) => {
    const { values, mask } = inputs(size);
    const first = await maskedMoments(values, mask);
    const [again, once] = await collect(maskedMoments(values, mask), maskedMoments({ values }, mask));
    const fresh = inputs(size);
    const rebuilt = await maskedMoments(fresh.values, fresh.mask);
    expect(fieldsOf(again)).toEqual(fieldsOf(first));
    expect(fieldsOf(once.values)).toEqual(fieldsOf(first));
    expect(fieldsOf(rebuilt)).toEqual(fieldsOf(first));
    tf.dispose([values, mask, fresh]);
  });
});

describe('lifetime', () => {
  test('inputs may be disposed and their memory reused right after the call', async () => {
    const { values, mask } = inputs();
    const expected = fieldsOf(await maskedMoments(values, mask));
    const pending = maskedMoments(values, mask);
    tf.dispose([values, mask]);
    const noise = [1, 2, 3].map(() =>
      deviceTensor({ shape: [4, 250], values: new Float32Array(1000).fill(7) }),
    );
    expect(fieldsOf(await pending)).toEqual(expected);
    tf.dispose(noise);
  });

  test('inputs are left as they were', async () => {
    const { values, mask } = inputs();
    const before = Array.from(await values.data());
    await maskedMoments(values, mask);
    expect(values.isDisposed).toBe(false);
    expect(Array.from(await values.data())).toEqual(before);
    tf.dispose([values, mask]);
  });

  test('a call inside tf.tidy can be awaited outside of it', async () => {
    const { values, mask } = inputs();
    const expected = fieldsOf(await maskedMoments(values, mask));
    const moments = await expectNoLeaks(() => {
      const pending = tidied(() => maskedMoments(tf.add(values, 0), mask));
      return pending.then();
    });
    expect(fieldsOf(moments)).toEqual(expected);
    tf.dispose([values, mask]);
  });

  test('release() frees what an unread result holds; reading it then fails', async () => {
    const { values, mask } = inputs();
    await expectNoLeaks(async () => {
      const pending = maskedMoments(values, mask);
      pending.release();
      pending.release();
      if (readBacksOfOne > 0) await expect(pending.then()).rejects.toThrow('released');
    });
    tf.dispose([values, mask]);
  });

  test('many unread results, released, leave nothing', async () => {
    const { values, mask } = inputs();
    await expectNoLeaks(() => {
      const pending = Array.from({ length: 50 }, () => maskedMoments(values, mask));
      for (const one of pending) one.release();
      return Promise.resolve();
    });
    tf.dispose([values, mask]);
  });

  test('retainTensor outlives dispose and tidy without a copy, and releases once', async () => {
    const before = alive();
    const retained = tidied(() => {
      const x = deviceTensor({ shape: [3], values: [1, 2, 6] });
      const kept = retainTensor(x);
      expect(kept.tensor.dataId).toBe(x.dataId);
      x.dispose();
      return kept;
    });
    const { sum } = await maskedMoments(retained.tensor);
    expect(sum).toBe(9);
    retained.release();
    retained.release();
    expect(alive()).toEqual(before);
  });
});

describe('read-backs', () => {
  test('launching reads nothing from a device', async () => {
    const { values, mask } = inputs();
    const launched: { release(): void }[] = [];
    const reads = await countReadBacks(backend, () => {
      launched.push(maskedMoments(values, mask), maskedMoments(values, mask, { axis: -1 }));
      return Promise.resolve();
    });
    if (readBacksOfOne > 0) expect(reads).toBe(0);
    for (const pending of launched) pending.release();
    tf.dispose([values, mask]);
  });

  test('awaiting one result reads once', async () => {
    const { values, mask } = inputs();
    const pending = maskedMoments(values, mask);
    expect(await countReadBacks(backend, () => pending.then())).toBe(readBacksOfOne);
    tf.dispose([values, mask]);
  });

  test('collect() reads any number of results once', async () => {
    const { values, mask } = inputs();
    const other = inputs(2000);
    const pending = [
      maskedMoments(values, mask),
      maskedMoments(values, mask, { axis: -1 }),
      maskedMoments({ a: values, b: values }, mask),
      maskedMoments(other.values, other.mask),
    ] as const;
    expect(await countReadBacks(backend, () => collect(...pending))).toBe(readBacksOfOne);
    tf.dispose([values, mask, other]);
  });

  test('a result awaited twice is read once and is the same object', async () => {
    const { values, mask } = inputs();
    const pending = maskedMoments(values, mask);
    const reads = await countReadBacks(backend, async () => {
      const [first, second] = await Promise.all([pending, pending]);
      expect(second).toBe(first);
      expect(await pending).toBe(first);
    });
    expect(reads).toBe(readBacksOfOne);
    tf.dispose([values, mask]);
  });

  test('collect() after an await does not read the awaited one again', async () => {
    const { values, mask } = inputs();
    const pending = maskedMoments(values, mask);
    const first = await pending;
    const reads = await countReadBacks(backend, async () => {
      const [again] = await collect(pending);
      expect(fieldsOf(again)).toEqual(fieldsOf(first));
    });
    expect(reads).toBe(0);
    tf.dispose([values, mask]);
  });

  test('results are read in any order, also long after other work', async () => {
    const { values, mask } = inputs();
    const a = maskedMoments(values, mask);
    const b = maskedMoments(values, mask, { axis: -1 });
    const y = tf.matMul(values, values, false, true);
    const rows = await b;
    await y.data();
    const all = await a;
    expect(rows.count.reduce((x, z) => x + z)).toBe(all.count);
    tf.dispose([values, mask, y]);
  });
});

describe('autodiff', () => {
  test('a statistic inside tf.grad does not disturb the gradient', async () => {
    const x = deviceTensor({ shape: [4], values: [1, 2, 3, 4] });
    const mask = deviceTensor({ shape: [4], values: [1, 0, 1, 1], dtype: 'bool' });
    const seen: PromiseLike<Moments>[] = [];
    const gradient = tf.grad((input) => {
      const squares = tf.mul(input, input);
      seen.push(maskedMoments(squares, mask), maskedMoments(input, mask));
      return tf.sum(squares);
    })(x);
    expect(Array.from(await gradient.data())).toEqual([2, 4, 6, 8]);
    const [ofSquares, ofInput] = await Promise.all(seen);
    expect(ofSquares?.mean).toBeCloseToReference((1 + 9 + 16) / 3, { rel: 1e-6 });
    expect(ofInput?.mean).toBeCloseToReference(8 / 3, { rel: 1e-6 });
    tf.dispose([x, mask, gradient]);
  });

  test('an optimizer step around a statistic trains as without it', async () => {
    const w = tf.variable(deviceTensor({ shape: [2], values: [1, -1] }));
    const optimizer = tf.train.sgd(0.5);
    const holder: { pending?: PromiseLike<Moments> } = {};
    const cost = optimizer.minimize(
      () => {
        holder.pending = maskedMoments(w);
        return tf.sum<tf.Scalar>(tf.square(w));
      },
      true,
      [w],
    );
    expect((await holder.pending!).max).toBe(1);
    expect(Array.from(await w.data())).toEqual([0, 0]);
    cost?.dispose();
    optimizer.dispose();
    w.dispose();
  });
});
