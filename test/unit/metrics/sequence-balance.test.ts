/** The balance of sequence lengths: where its lengths come from, and what is no partition. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';

import { MissingInputError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { batchFromVerl, computeSequenceBalanceMetrics } from '../../../src/metrics/index.js';

beforeAll(async () => {
  await initBackend('cpu');
});

function balance(lengths: number[], partitions: number[][]): Promise<Record<string, number>> {
  return computeSequenceBalanceMetrics(batchFromVerl({}, { global_token_num: lengths }), partitions);
}

test('ranks that do not divide the rows get slices that differ by one', async () => {
  // In order: [1], [2, 4], [8, 16].
  expect(await balance([1, 2, 4, 8, 16], [[4], [3], [0, 1, 2]])).toEqual({
    'global_seqlen/min': 1,
    'global_seqlen/max': 24,
    'global_seqlen/minmax_diff': 23,
    'global_seqlen/balanced_min': 7,
    'global_seqlen/balanced_max': 16,
    'global_seqlen/mean': 31 / 3,
  });
});

test('more ranks than rows leave ranks without tokens', async () => {
  expect(await balance([5], [[], [0]])).toMatchObject({
    'global_seqlen/min': 0,
    'global_seqlen/balanced_min': 0,
    'global_seqlen/balanced_max': 5,
  });
});

test.each([
  ['ranks without end', { length: 1e9 }],
  ['rows without end', [{ length: 1e9 }, [0]]],
  ['less than no rank', { length: -1 }],
  ['less than no row', [[0, 1], { length: -1 }]],
  ['half a row', [[0, 1], { length: 0.5 }]],
])('%s are refused before they are copied', async (_what, partitions) => {
  await expect(balance([5, 6], partitions as never)).rejects.toThrow(ValueError);
});

describe('without global_token_num', () => {
  test('the lengths are those of the attention mask, prompt and response', async () => {
    const attention_mask = tf.tensor2d(
      [
        [0, 1, 1, 0],
        [1, 1, 1, 1],
      ],
      [2, 4],
      'int32',
    );
    const batch = batchFromVerl({ attention_mask }, {}, { responseWidth: 2 });
    expect(await computeSequenceBalanceMetrics(batch, [[1], [0]])).toEqual({
      'global_seqlen/min': 2,
      'global_seqlen/max': 4,
      'global_seqlen/minmax_diff': 2,
      'global_seqlen/balanced_min': 2,
      'global_seqlen/balanced_max': 4,
      'global_seqlen/mean': 3,
    });
    attention_mask.dispose();
  });

  test('and without anything that tells them is refused', async () => {
    const refused = computeSequenceBalanceMetrics({ batchSize: 1 }, [[0]]);
    await expect(refused).rejects.toThrow(MissingInputError);
  });
});

test.each([
  ['no rank', [], 'no rank'],
  ['a row that is not there', [[0, 1], [2]], 'the number 2'],
  ['a row twice', [[0, 1], [1]], 'row 1 for rank 0 and for rank 1'],
  ['a row for nobody', [[0], []], '1 of 2 rows'],
])('partitions with %s are refused', async (_what, partitions, received) => {
  const refusal = expect(balance([3, 4], partitions)).rejects;
  await refusal.toThrow(ValueError);
  await refusal.toThrow(received);
});
