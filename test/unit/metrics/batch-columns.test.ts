/** Names of columns: a misspelt one is refused with the name that it means, what no metric reads is told. */
import * as tf from '@tensorflow/tfjs-core';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';

import { ShapeError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import {
  type VerlTensors,
  batchFromVerl,
  computeGroupMetrics,
  computeRolloutCorrection,
  computeStepMetrics,
  computeStepState,
  correctedStep,
  groupMoments,
} from '../../../src/metrics/index.js';

await initBackend('cpu');
const grid = tf.ones([2, 3]);
const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);

afterEach(() => {
  warn.mockClear();
});

afterAll(() => {
  warn.mockRestore();
  grid.dispose();
});

describe('a misspelt column is refused with the name that it means', () => {
  test.each([
    ['response_msk', 'response_mask'],
    ['responseMask', 'response_mask'],
    ['attention_msk', 'attention_mask'],
    ['advantage', 'advantages'],
    ['retruns', 'returns'],
    ['value', 'values'],
    ['entropy', 'entropys'],
    ['old_logprobs', 'old_log_probs'],
    ['ref_log_probs', 'ref_log_prob'],
    ['token_level_score', 'token_level_scores'],
    ['rollout_is_weight', 'rollout_is_weights'],
    ['sum_pi_squard', 'sum_pi_squared'],
    ['prompt_lengths', 'prompt_length'],
  ])('%s: %s', (wrong, right) => {
    const attempt = () => batchFromVerl({ response_mask: grid, [wrong]: grid });
    expect(attempt).toThrow(ValueError);
    expect(attempt).toThrow(`batchFromVerl: ${wrong}: `);
    expect(attempt).toThrow(`write ${right}`);
  });

  test.each([
    ['num_turns', '__num_turns__'],
    ['tool_call_count', 'tool_call_counts'],
    ['global_token_nums', 'global_token_num'],
  ])('also among lists, %s: %s', (wrong, right) => {
    const attempt = () => batchFromVerl({ response_mask: grid }, { [wrong]: [1, 2] });
    expect(attempt).toThrow(ValueError);
    expect(attempt).toThrow(`write ${right}`);
  });

  test('unless it holds nothing', () => {
    expect(batchFromVerl({ response_mask: grid, response_msk: null } as VerlTensors)).toBeDefined();
  });
});

test('a column in the wrong record is refused with the right one', () => {
  const turns = { __num_turns__: tf.ones([2]) } as VerlTensors;
  expect(() => batchFromVerl(turns)).toThrow(/a list in nonTensor/);
  expect(() => batchFromVerl({}, { advantages: [1, 2] } as object)).toThrow(/a tensor among the tensors/);
});

describe('a column that no metric reads', () => {
  const others = { response_mask: grid, input_ids: grid, novelty: grid } as VerlTensors;

  test('is told to onSkipped, which of verl or not', () => {
    const skipped: [string, string][] = [];
    const onSkipped = (column: string, reason: string) => skipped.push([column, reason]);
    batchFromVerl(others, { uid: ['a', 'b'], my_list: [1, 2] } as object, { onSkipped });
    expect(skipped).toEqual([
      ['input_ids', 'no metric reads it'],
      ['novelty', 'no column of this name is known'],
      ['uid', 'no metric reads it'],
      ['my_list', 'no column of this name is known'],
    ]);
    expect(warn).not.toHaveBeenCalled();
  });

  test('is warned of once where there is no onSkipped, unless verl has it too', () => {
    for (let i = 0; i < 3; i++) batchFromVerl(others, { uid: ['a', 'b'] });
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0]).toEqual([
      expect.stringMatching(/no metric reads "novelty";/),
      { type: 'TensortallyWarning', code: 'TENSORTALLY_UNKNOWN_COLUMN' },
    ]);
  });

  test('is remembered for some names only, however many there are', () => {
    for (let i = 0; i < 300; i++) batchFromVerl({ [`column ${i} of mine`]: grid });
    expect(warn.mock.calls.length).toBeLessThanOrEqual(100);
  });
});

describe('weights', () => {
  test('are taken under the name under which they come out', async () => {
    const logs = { old_log_probs: grid, rollout_log_probs: grid };
    const { isWeights, responseMask } = await computeRolloutCorrection(
      batchFromVerl({ ...logs, response_mask: grid }),
      { rolloutIs: 'token' },
    );
    const batch = batchFromVerl({ ...logs, response_mask: responseMask, isWeights });
    expect(batch.rolloutIsWeights).toBe(isWeights);
    tf.dispose([isWeights, responseMask]);
  });

  test('under both names are refused, unless they are the same', () => {
    const other = tf.zeros([2, 3]);
    const both = { response_mask: grid, isWeights: grid };
    expect(batchFromVerl({ ...both, rollout_is_weights: grid }).rolloutIsWeights).toBe(grid);
    expect(() => batchFromVerl({ ...both, rollout_is_weights: other })).toThrow(/isWeights.*another tensor/);
    other.dispose();
  });
});

describe('one number per row, where tokens have more, is refused with what helps:', () => {
  const steps = tf.ones([2]);
  afterAll(() => {
    steps.dispose();
  });

  test.each(['token_level_scores', 'token_level_rewards'])('%s with how to make scores of tokens', (name) => {
    const attempt = () => batchFromVerl({ response_mask: grid, [name]: steps });
    expect(attempt).toThrow(ShapeError);
    expect(attempt).toThrow(`put each number on the last token of its row, e.g. ${name}: tf.where(`);
  });

  test('the remedy does what it says', async () => {
    const [scores, lastToken] = [tf.tensor1d([0.5, NaN]), tf.tensor1d([2, 0], 'int32')];
    const placed = tf.where(tf.cast(tf.oneHot(lastToken, 3), 'bool'), tf.reshape(scores, [-1, 1]), 0);
    expect(Array.from(await placed.data())).toEqual([0, 0, 0.5, NaN, 0, 0]);
    expect(batchFromVerl({ response_mask: grid, token_level_scores: placed }).tokenLevelScores).toBe(placed);
  });

  test('others with padding, or one step a row', () => {
    const attempt = () => batchFromVerl({ token_level_rewards: steps, returns: grid, advantages: steps });
    expect(attempt).toThrow(/token_level_rewards: expected \[batch, response\] = \[2, 3\], got \[2\]/);
    expect(() => batchFromVerl({ response_mask: grid, advantages: steps })).toThrow(
      /for one step a row all of them as \[batch\]/,
    );
  });
});

describe('a list whose length cannot be one is refused before it is copied', () => {
  const batch = batchFromVerl({ response_mask: grid, token_level_rewards: grid, token_level_scores: grid });

  test.each([{ length: 1e9 }, { length: -1 }, { length: NaN }, { length: 0.5 }])('%o', async (list) => {
    const given = list as never;
    const groups = { groups: given };
    const rolloutCorrection = { rolloutIs: 'token' } as const;
    await expect(computeStepMetrics(batch, groups)).rejects.toThrow('options.groups');
    await expect(computeStepState(batch, groups)).rejects.toThrow('options.groups');
    await expect(
      correctedStep(
        { ...batch, oldLogProbs: grid, rolloutLogProbs: grid },
        { groups: given, rolloutCorrection },
      ),
    ).rejects.toThrow('options.groups');
    await expect(computeGroupMetrics(batch, given)).rejects.toThrow('groups');
    expect(() => groupMoments(given, given)).toThrow('groupMoments: values');
    expect(() => groupMoments([1, 2], given)).toThrow('groupMoments: groups');
    for (const column of ['global_token_num', '__num_turns__', 'tool_call_counts'] as const) {
      expect(() => batchFromVerl({ response_mask: grid }, { [column]: given })).toThrow(column);
    }
    for (const column of ['prompt_length', 'response_length'] as const) {
      expect(() => batchFromVerl({ response_mask: grid, [column]: given })).toThrow(column);
    }
  });
});
