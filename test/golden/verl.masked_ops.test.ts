/**
 * Golden masked sums, means and variances, on the backend of this project.
 *
 * verl's masked mean of nothing is 0 and its variance of fewer than two elements raises; both are undefined here. Of
 * the suite, `masked_whiten` and `response_mask_from_eos` are functions that the package does not have, and a
 * fractional mask is a weight there, a selection here.
 */
import { expect, test } from 'vitest';

import { type Moments, maskedMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { type GoldenCase, decodeInputs, isRefusal, loadGolden, referenceOf } from '../support/golden.js';
import { goldenTensors } from '../support/tensors.js';

await testBackend();
const { cases } = loadGolden('verl.masked_ops');

/** What the peer's functions are called here. */
const STATISTICS: Readonly<Record<string, (moments: Moments, golden: GoldenCase) => number>> = {
  masked_sum: ({ sum }) => sum,
  masked_mean: ({ mean }) => mean,
  masked_var: (moments, { options }) => moments.variance(options.unbiased === false ? 0 : 1),
};

const shared = cases.filter(({ id, options }) => String(options.op) in STATISTICS && id !== 'weights');

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(25);
  expect(shared).toHaveLength(18);
});

/** The numbers of the peer, one or one per row; NaN where it raises. */
function peerNumbers(golden: GoldenCase): readonly number[] {
  if (golden.expectedError !== undefined) return [NaN];
  const reference = referenceOf(golden, 'verl');
  if (reference === undefined || isRefusal(reference)) throw new Error(`${golden.id} has no numbers`);
  return [reference.value!].flat();
}

test.each(shared)('golden masked operation: $id', async (golden) => {
  const { values, mask } = goldenTensors(decodeInputs(golden.inputs));
  const moments =
    golden.options.axis === null
      ? [await maskedMoments(values!, mask)]
      : await maskedMoments(values!, mask, { axis: -1 });
  values!.dispose();
  mask!.dispose();
  const statistic = STATISTICS[String(golden.options.op)]!;
  const isMean = golden.options.op === 'masked_mean';
  const expected = peerNumbers(golden).map((peer, i) => (isMean && moments[i]!.count === 0 ? NaN : peer));
  expect(moments.map((one) => statistic(one, golden))).toBeCloseToReference(expected, golden.tolerance);
});
