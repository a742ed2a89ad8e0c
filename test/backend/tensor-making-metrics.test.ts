/** Functions of the metrics that make tensors, or take bare ones: beyond what the golden cases say of them. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { DisposedTensorError, DtypeError, ShapeError, ValueError } from '../../src/errors.js';
import {
  batchFromVerl,
  computeMoeMetrics,
  computeRolloutCorrection,
  maskedWhiten,
  responseMaskFromEos,
} from '../../src/metrics/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

describe('whitening', () => {
  test('of values far from 0 has mean 0 and variance 1', async () => {
    await expectNoLeaks(async () => {
      const numbers = Array.from({ length: 64 }, (_, i) => Math.fround(30_000 + Math.sin(i)));
      const mean = numbers.reduce((sum, x) => sum + x, 0) / 64;
      const variance = numbers.reduce((sum, x) => sum + (x - mean) ** 2, 0) / 63;
      const values = deviceTensor({ shape: [4, 16], values: numbers });
      const whitened = await maskedWhiten(values);
      const expected = numbers.map((x) => (x - mean) / Math.sqrt(variance));
      expect(Array.from(await whitened.data())).toBeCloseToReference(expected, { rel: 1e-4, abs: 1e-4 });
      tf.dispose([values, whitened]);
    });
  });

  test('without a spread, or of one value, is 0, or undefined', async () => {
    const values = deviceTensor({ shape: [3], values: [2, 2, 5] });
    const [two, one] = [
      [1, 1, 0],
      [1, 0, 0],
    ].map((mask) => deviceTensor({ shape: [3], values: mask }));
    const [equal, alone] = [await maskedWhiten(values, two), await maskedWhiten(values, one)];
    expect(Array.from(await equal.data()).slice(0, 2)).toEqual([0, 0]);
    expect(Array.from(await alone.data())).toEqual([NaN, NaN, NaN]);
    tf.dispose([values, two!, one!, equal, alone]);
  });

  test('reads the moments once, and leaves nothing behind when it refuses', async () => {
    const values = deviceTensor({ shape: [2, 2], values: [1, 2, 3, 4] });
    const mask = deviceTensor({ shape: [2], values: [1, 1] });
    let whitened: tf.Tensor | undefined;
    const reads = await countReadBacks(backend, async () => {
      whitened = await maskedWhiten(values);
    });
    if (hasDevice()) expect(reads).toBe(1);
    whitened!.dispose();
    await expectNoLeaks(async () => {
      await expect(maskedWhiten(values, mask)).rejects.toThrow(ShapeError);
    });
    tf.dispose([values, mask]);
    await expect(maskedWhiten(values)).rejects.toThrow(DisposedTensorError);
  });
});

describe('the mask of a response', () => {
  test('is all 1 where no token ends it, whatever the ids are held as', async () => {
    for (const dtype of ['int32', 'float32'] as const) {
      await expectNoLeaks(async () => {
        const ids = deviceTensor({ shape: [2, 3], dtype, values: [5, 6, 7, 9, 9, 5] });
        const mask = responseMaskFromEos(ids, [9]);
        expect(Array.from(await mask.data())).toEqual([1, 1, 1, 1, 0, 0]);
        tf.dispose([ids, mask]);
      });
    }
  });

  test('is empty for an empty batch, and refused for ids that are no matrix', () => {
    const [none, flat] = [tf.zeros([0, 4], 'int32'), tf.zeros([4], 'int32')];
    const mask = responseMaskFromEos(none, 1);
    expect(mask.shape).toEqual([0, 4]);
    expect(() => responseMaskFromEos(flat, 1)).toThrow(ShapeError);
    expect(() => responseMaskFromEos(none, [])).toThrow(ValueError);
    expect(() => responseMaskFromEos(none, [1.5])).toThrow(/1\.5/);
    tf.dispose([none, flat, mask]);
  });
});

describe('loads of experts', () => {
  const experts = (values: readonly number[]): tf.Tensor =>
    deviceTensor({ shape: [1, values.length, 1, 1], dtype: 'int32', values: [...values] });
  const ones = (cols: number): tf.Tensor =>
    deviceTensor({ shape: [1, cols], values: Array(cols).fill(1) as number[] });

  test('an expert that there is not is refused, unless no selected token has it', async () => {
    const [routed, mask] = [experts([0, 1, 7, 0]), ones(4)];
    await expect(computeMoeMetrics(routed, mask, { numExperts: 2 })).rejects.toThrow(
      /numExperts.*the number 2/s,
    );
    const without = deviceTensor({ shape: [1, 4], values: [1, 1, 0, 1] });
    const metrics = await computeMoeMetrics(routed, without, { numExperts: 2 });
    expect(metrics['rollout/moe/max_vio/layer_0']).toBe(0);
    tf.dispose([routed, mask, without]);
  });

  test('one read-back, and nothing left behind', async () => {
    await expectNoLeaks(async () => {
      const [routed, mask] = [experts([0, 1, 1, 0]), ones(3)];
      const reads = await countReadBacks(backend, () => computeMoeMetrics(routed, mask, { numExperts: 2 }));
      if (hasDevice()) expect(reads).toBe(1);
      tf.dispose([routed, mask]);
    });
  });

  test('what does not fit is refused', async () => {
    const [routed, mask, wide] = [experts([0, 1]), ones(2), ones(3)];
    await expect(computeMoeMetrics(routed, wide, { numExperts: 2 })).rejects.toThrow(ShapeError);
    await expect(computeMoeMetrics(mask, mask, { numExperts: 2 })).rejects.toThrow(ShapeError);
    const floats = tf.zeros([1, 2, 1, 1]);
    await expect(computeMoeMetrics(floats, mask, { numExperts: 2 })).rejects.toThrow(DtypeError);
    tf.dispose([routed, mask, wide, floats]);
  });
});

test('policies that agree diverge by 0, not by −0', async () => {
  const tensors = Object.fromEntries(
    ['old_log_probs', 'rollout_log_probs', 'response_mask'].map((name) => [
      name,
      deviceTensor({ shape: [1, 2], values: name === 'response_mask' ? [1, 1] : [0, 0] }),
    ]),
  );
  const { metrics, responseMask } = await computeRolloutCorrection(batchFromVerl(tensors));
  tf.dispose([tensors, responseMask]);
  const negative = Object.entries(metrics).filter(([, value]) => Object.is(value, -0));
  expect(negative).toEqual([]);
});
