/** Functions of the metrics that make tensors, or take bare ones: beyond what the golden cases say of them. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  DisposedTensorError,
  DtypeError,
  ShapeError,
  TensortallyError,
  ValueError,
} from '../../src/errors.js';
import { momentsTables } from '../../src/kernels/index.js';
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

  test.each<[string, readonly number[]]>([
    ['beyond what float32 counts', [100_000_001, 100_000_002, 100_000_003]],
    ['across a boundary of their parts', [65_535, 65_536, 65_537, 65_537]],
    ['around 0', [-70_000, -1, 0, 1, 70_001]],
    ['at the ends of int32', [2 ** 31 - 1, 2 ** 31 - 2, 2 ** 31 - 3, 2 ** 31 - 64, 2 ** 31 - 65]],
    ['from one end to the other', [2 ** 31 - 1, -(2 ** 31), 0, 12_345]],
  ])('of integers %s keeps their differences', async (_where, numbers) => {
    const mean = numbers.reduce((sum, x) => sum + x, 0) / numbers.length;
    const variance = numbers.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (numbers.length - 1);
    const values = deviceTensor({ shape: [numbers.length], dtype: 'int32', values: [...numbers] });
    const whitened = await maskedWhiten(values);
    const expected = numbers.map((x) => (x - mean) / Math.sqrt(variance + 1e-8));
    expect(Array.from(await whitened.data())).toBeCloseToReference(expected, { rel: 1e-5, abs: 1e-6 });
    tf.dispose([values, whitened]);
  });

  test.each<[string, readonly number[]]>([
    ['as far from each other as float32 reaches', [3e38, -3e38, 1e38, 0]],
    ['near its end', [3e38, 2.9e38, 3.1e38]],
    ['whose squares it does not have', [1e30, -1e30, 3e30]],
  ])('of numbers %s', async (_what, given) => {
    const numbers = given.map(Math.fround);
    const mean = numbers.reduce((sum, x) => sum + x / numbers.length, 0);
    const variance = numbers.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (numbers.length - 1);
    const values = deviceTensor({ shape: [numbers.length], values: numbers });
    const [whitened, kept] = [
      await maskedWhiten(values),
      await maskedWhiten(values, undefined, { shiftMean: false }),
    ];
    const expected = numbers.map((x) => (x - mean) / Math.sqrt(variance));
    expect(Array.from(await whitened.data())).toBeCloseToReference(expected, { rel: 1e-4, abs: 1e-5 });
    expect(Array.from(await kept.data())).toBeCloseToReference(
      numbers.map(() => mean),
      { rel: 1e-5 },
    );
    tf.dispose([values, whitened, kept]);
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

  test('is refused for ids that would become others', () => {
    const grid = (dtype: 'int32' | 'float32' | 'bool'): tf.Tensor => tf.zeros([1, 2], dtype);
    const [ints, floats, flags] = [grid('int32'), grid('float32'), grid('bool')];
    for (const wrong of [2 ** 24, 2 ** 31, 2 ** 32 + 7, -(2 ** 31) - 1]) {
      expect(() => responseMaskFromEos(ints, [0, wrong])).toThrow(ValueError);
      expect(() => responseMaskFromEos(ints, wrong)).toThrow(`the number ${wrong}`);
    }
    expect(() => responseMaskFromEos(floats, 2 ** 24)).toThrow(ValueError);
    expect(() => responseMaskFromEos(flags, 1)).toThrow(DtypeError);
    expect(() => responseMaskFromEos(ints, [])).toThrow('got an empty list');
    // eslint-disable-next-line no-sparse-arrays -- a hole is no id
    expect(() => responseMaskFromEos(ints, [, 1] as number[])).toThrow('got undefined');
    tf.dispose([ints, floats, flags]);
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

  test('a negative expert is an expert that is wrong, not a number of experts', async () => {
    const [routed, mask] = [experts([-1, 1, 0, 1]), ones(4)];
    const refusal = expect(computeMoeMetrics(routed, mask, { numExperts: 2 })).rejects;
    await refusal.toThrow(ValueError);
    await refusal.toThrow(/computeMoeMetrics: routedExperts: .*negative one, 1 times/);
    tf.dispose([routed, mask]);
  });

  test('more experts than can be counted are refused', async () => {
    const [routed, mask] = [experts([0, 1]), ones(2)];
    for (const numExperts of [2 ** 22 + 1, 3e8, 2 ** 31, 2 ** 40]) {
      const refusal = expect(computeMoeMetrics(routed, mask, { numExperts })).rejects;
      await refusal.toThrow(ValueError);
      await refusal.toThrow(/options\.numExperts.*at most 4194304/s);
    }
    tf.dispose([routed, mask]);
  });

  test('the last token counts where others follow it, e.g. tool output', async () => {
    // The third token is what the policy wrote last; experts saw it if the fourth was sampled or given.
    const [routed, mask] = [
      experts([0, 0, 1, 1, 1]),
      deviceTensor({ shape: [1, 5], values: [1, 1, 1, 0, 0] }),
    ];
    const busiest = async (attended?: readonly number[]): Promise<number | undefined> => {
      const attentionMask =
        attended && deviceTensor({ shape: [1, attended.length], dtype: 'int32', values: [...attended] });
      const metrics = await computeMoeMetrics(routed, mask, { numExperts: 2, attentionMask });
      attentionMask?.dispose();
      return metrics['rollout/moe/max_vio/layer_0'];
    };
    expect(await busiest()).toBe(1);
    expect(await busiest([1, 1, 1, 0, 0])).toBe(1);
    expect(await busiest([1, 1, 1, 1, 0])).toBeCloseTo(1 / 3, 6);
    expect(await busiest([0, 1, 1, 1, 1])).toBeCloseTo(1 / 3, 6);
    tf.dispose([routed, mask]);
  });

  test('an attention mask over prompt and response is read at its end; another shape is refused', async () => {
    const [routed, mask] = [experts([5, 5, 0, 1, 1]), ones(3)];
    const attentionMask = deviceTensor({ shape: [1, 5], values: [0, 1, 1, 1, 1] });
    const metrics = await computeMoeMetrics(routed, mask, { numExperts: 2, attentionMask });
    expect(metrics['rollout/moe/max_vio/layer_0']).toBe(0);
    const short = ones(2);
    await expect(computeMoeMetrics(routed, mask, { numExperts: 2, attentionMask: short })).rejects.toThrow(
      /options\.attentionMask/,
    );
    tf.dispose([routed, mask, attentionMask, short]);
  });

  test('a mask [N] is that of one step a row', async () => {
    const routed = deviceTensor({ shape: [4, 2, 1, 1], dtype: 'int32', values: [0, 0, 1, 1, 0, 0, 1, 1] });
    const [column, flat] = [[4, 1], [4]].map((shape) => deviceTensor({ shape, values: [1, 1, 1, 0] }));
    // With the token before, which is prompt; the last token of a row is what no expert saw.
    const attentionMask = deviceTensor({ shape: [4, 2], values: [1, 1, 1, 1, 1, 1, 1, 1] });
    for (const more of [{}, { attentionMask }, { attentionMask: flat! }]) {
      const options = { numExperts: 2, ...more };
      expect(await computeMoeMetrics(routed, flat!, options)).toEqual(
        await computeMoeMetrics(routed, column!, options),
      );
    }
    const rank3 = tf.reshape(flat!, [4, 1, 1]);
    await expect(computeMoeMetrics(routed, rank3, { numExperts: 2 })).rejects.toThrow(ShapeError);
    tf.dispose([routed, column!, flat!, attentionMask, rank3]);
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

test('maskedWhiten and momentsTables refuse what they cannot take in their own name', async () => {
  const [values, narrow, text] = [tf.ones([2, 3]), tf.ones([2, 2]), tf.tensor1d(['a'])];
  for (const [where, call] of [
    ['maskedWhiten', () => maskedWhiten(values, narrow)],
    ['maskedWhiten', () => maskedWhiten(text)],
    ['maskedWhiten', () => maskedWhiten({ values } as never)],
    ['maskedWhiten', () => maskedWhiten(values, null as never)],
    ['momentsTables', () => momentsTables({ values, narrow })],
    ['momentsTables', () => momentsTables({ values }, narrow)],
  ] as const) {
    const refusal: unknown = await (async () => call())().catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(TensortallyError);
    expect((refusal as TensortallyError).where).toBe(where);
  }
});
