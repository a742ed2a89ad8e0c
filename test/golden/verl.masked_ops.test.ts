/**
 * Golden masked sums, means, variances, whitening and end-of-response masks, on the backend of this project.
 *
 * verl's masked mean of nothing is 0 and its variance of fewer than two elements raises; both are undefined here.
 */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { type Moments, channelMoments, expression, maskedMoments } from '../../src/kernels/index.js';
import { maskedWhiten, responseMaskFromEos } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { type GoldenCase, decodeInputs, isRefusal, loadGolden, referenceOf } from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { goldenTensors } from '../support/tensors.js';

await testBackend();
const { cases } = loadGolden('verl.masked_ops');

/** What the peer's functions are called here. */
const STATISTICS: Readonly<Record<string, (moments: Moments, golden: GoldenCase) => number>> = {
  masked_sum: ({ sum }) => sum,
  masked_mean: ({ mean }) => mean,
  masked_var: (moments, { options }) => moments.variance(options.unbiased === false ? 0 : 1),
};

/** A mask of fractions is a weight there and selects here: a weighted mean is one of channels, see below. */
const WEIGHTED = 'weights';

const reduced = cases.filter(({ id, options }) => String(options.op) in STATISTICS && id !== WEIGHTED);
const casesOf = (op: string): GoldenCase[] => cases.filter(({ options }) => options.op === op);

test('the suite has all its cases, and none is left out', () => {
  expect(cases).toHaveLength(25);
  const tested = [
    ...reduced,
    ...cases.filter(({ id }) => id === WEIGHTED),
    ...casesOf('masked_whiten'),
    ...casesOf('response_mask_from_eos'),
  ];
  expect(tested.map(({ id }) => id).sort()).toEqual(cases.map(({ id }) => id).sort());
});

/** The numbers of the peer, however they are nested; NaN where it raises. */
function peerNumbers(golden: GoldenCase): readonly number[] {
  if (golden.expectedError !== undefined) return [NaN];
  const reference = referenceOf(golden, 'verl');
  if (reference === undefined || isRefusal(reference)) throw new Error(`${golden.id} has no numbers`);
  return ([reference.value!] as unknown[]).flat(3) as number[];
}

test.each(reduced)('golden masked operation: $id', async (golden) => {
  const { values, mask } = goldenTensors(decodeInputs(golden.inputs));
  const moments =
    golden.options.axis === null
      ? [await maskedMoments(values!, mask)]
      : await maskedMoments(values!, mask, { axis: -1 });
  tf.dispose([values!, mask!]);
  const statistic = STATISTICS[String(golden.options.op)]!;
  const isMean = golden.options.op === 'masked_mean';
  const expected = peerNumbers(golden).map((peer, i) => (isMean && moments[i]!.count === 0 ? NaN : peer));
  expect(moments.map((one) => statistic(one, golden))).toBeCloseToReference(expected, golden.tolerance);
});

test('golden masked operation: a mask of weights, as a weighted mean', async () => {
  const golden = cases.find(({ id }) => id === WEIGHTED)!;
  const { values, mask } = goldenTensors(decodeInputs(golden.inputs));
  const { weighted, weights } = await channelMoments(
    { weighted: expression.multiply('x', 'w'), weights: 'w' },
    { x: values!, w: mask! },
    mask,
  );
  tf.dispose([values!, mask!]);
  expect([weighted.sum / weights.sum]).toBeCloseToReference(peerNumbers(golden), golden.tolerance);
});

test.each(casesOf('masked_whiten'))('golden whitening: $id', async (golden) => {
  await expectNoLeaks(async () => {
    const { values, mask } = goldenTensors(decodeInputs(golden.inputs));
    const { shape } = values!;
    const pending = maskedWhiten(values!, mask, {
      shiftMean: golden.options.shift_mean as boolean | undefined,
    });
    tf.dispose([values!, mask!]);
    const whitened = await pending;
    expect(whitened.shape).toEqual(shape);
    const expected = peerNumbers(golden);
    expect(Array.from(await whitened.data())).toBeCloseToReference(expected, golden.tolerance);
    whitened.dispose();
  });
});

test.each(casesOf('response_mask_from_eos'))('golden end of the response: $id', async (golden) => {
  await expectNoLeaks(async () => {
    const { ids } = goldenTensors(decodeInputs(golden.inputs));
    const mask = responseMaskFromEos(ids!, golden.options.eos as number | number[]);
    ids!.dispose();
    expect(mask.dtype).toBe('bool');
    expect(Array.from(await mask.data())).toEqual(peerNumbers(golden));
    mask.dispose();
  });
});
