/** AReaL's form of a batch: whole sequences, whose responses begin where their masks say. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { MissingInputError, ShapeError, ValueError } from '../../src/errors.js';
import {
  type ArealTensors,
  batchFromAreal,
  computeDataMetrics,
  computeDebugMetrics,
  StepState,
  computeStepMetrics,
  computeStepState,
  semanticsNames,
} from '../../src/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';

await testBackend();

/** Prompts of 3 and 4 tokens, responses of 4 each, padding to 8. */
const ATTENTION = [1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1];
const LOSS = [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1];
const mask = (values: readonly number[], rows = 2): tf.Tensor =>
  tf.tensor(values, [rows, values.length / rows], 'bool');

function sequences(more: Partial<ArealTensors> = {}): ArealTensors {
  const attention_mask = mask(ATTENTION);
  const logprobs = tf.mul(tf.cast(mask(LOSS), 'float32'), -0.5);
  return { attention_mask, loss_mask: mask(LOSS), logprobs, rewards: tf.tensor1d([1, 3]), ...more };
}

async function numbersOf(tensor: unknown): Promise<number[]> {
  return Array.from(await (tensor as tf.Tensor).data());
}

describe('lengths', () => {
  test.each(semanticsNames)('are those of prompt and response, under %s', async (semantics) => {
    const batch = batchFromAreal(sequences({ advantages: tf.ones([2, 8]) }));
    const metrics = await computeDataMetrics(batch, { useCritic: false, semantics });
    expect(metrics).toMatchObject({
      'response_length/mean': 4,
      'response_length/max': 4,
      'prompt_length/mean': 3.5,
      'prompt_length/max': 4,
      'response/aborted_ratio': 0,
      'critic/score/mean': 2,
      'critic/score/max': 3,
      'critic/rewards/mean': 2,
    });
    batch.dispose();
  });

  test('have no cap where none is given: the width holds prompts, too', async () => {
    const batch = batchFromAreal(sequences({ advantages: tf.ones([2, 8]) }));
    const options = { useCritic: false };
    const whole = ['response_length/clip_ratio', 'response_length_non_aborted/clip_ratio'] as const;
    const open = await computeDataMetrics(batch, options);
    expect(whole.map((key) => open[key])).toEqual([NaN, NaN]);
    const capped = await computeDataMetrics(batch, { ...options, maxResponseLength: 4 });
    expect(whole.map((key) => capped[key])).toEqual([1, 1]);
    const byModel = await computeDataMetrics(batch, { ...options, maxModelLength: 8 });
    expect(whole.map((key) => byModel[key])).toEqual([0.5, 0.5]);
    const state = StepState.fromBytes((await computeStepState(batch)).toBytes());
    expect(whole.map((key) => StepState.merge([state, state]).metrics()[key])).toEqual([NaN, NaN]);
    batch.dispose();
  });

  test('of several turns: what lies between them is response', async () => {
    const loss_mask = mask([0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0]);
    const batch = batchFromAreal(sequences({ loss_mask }));
    expect(await numbersOf(batch.promptLength)).toEqual([2, 4]);
    expect(await numbersOf(batch.responseLength)).toEqual([5, 4]);
    batch.dispose();
  });

  test('of a row whose loss mask was cleared are told by versions; without them there is no response', async () => {
    const loss_mask = mask([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    const plain = batchFromAreal(sequences({ loss_mask }));
    expect(await numbersOf(plain.responseLength)).toEqual([0, 4]);
    const versions = tf.tensor2d([-1, -1, -1, 7, 7, 8, 8, -1, -1, -1, -1, -1, 7, 7, 7, 7], [2, 8], 'int32');
    const known = batchFromAreal(sequences({ loss_mask, versions }));
    expect(await numbersOf(known.responseLength)).toEqual([4, 4]);
    plain.dispose();
    known.dispose();
  });

  test('of six rows are those of their masks, where versions that mark no prompt are left out', async () => {
    const prompts = [2, 3, 4, 2, 3, 3];
    const responses = [6, 5, 4, 4, 3, 4];
    const cells = (of: (row: number, place: number) => boolean): tf.Tensor =>
      mask(
        Array.from({ length: 48 }, (_, i) => Number(of(Math.floor(i / 8), i % 8))),
        6,
      );
    const ends = prompts.map((prompt, row) => prompt + responses[row]!);
    const attention_mask = cells((row, place) => place < ends[row]!);
    const loss_mask = cells((row, place) => place >= prompts[row]! && place < ends[row]!);
    const given = { attention_mask, loss_mask, rewards: tf.ones([6]), advantages: tf.ones([6, 8]) };
    const lengths = async (versions?: tf.Tensor): Promise<unknown[]> => {
      const batch = batchFromAreal({ ...given, versions });
      const metrics = await computeDataMetrics(batch, { useCritic: false });
      batch.dispose();
      return [metrics['response_length/mean'], metrics['prompt_length/mean']];
    };
    const byMasks = [expect.closeTo(26 / 6, 5), expect.closeTo(17 / 6, 5)]; // 4.33 and 2.83
    expect(await lengths()).toEqual(byMasks);
    const marked = tf.where(loss_mask, tf.ones([6, 8]), tf.fill([6, 8], -1));
    expect(await lengths(marked)).toEqual(byMasks);
    // By the versions alone, everything is response; a warning tells of it.
    expect(await lengths(tf.ones([6, 8]))).toEqual([expect.closeTo(43 / 6, 5), 0]);
  });

  test('count with padding on the left, and masks that are rolled', async () => {
    const left = batchFromAreal(
      sequences({
        attention_mask: mask([0, 1, 1, 1, 1, 0, 1, 1, 1, 1], 2),
        loss_mask: mask([0, 0, 0, 1, 1, 0, 0, 1, 1, 1], 2),
        logprobs: null,
      }),
    );
    expect(await numbersOf(left.promptLength)).toEqual([2, 1]);
    expect(await numbersOf(left.responseLength)).toEqual([2, 3]);
    const rolled = [0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0];
    const batch = batchFromAreal(sequences({ loss_mask: mask(rolled) }), { isRolled: true });
    expect(await numbersOf(batch.promptLength)).toEqual([3, 4]);
    expect(await numbersOf(batch.responseLength)).toEqual([4, 4]);
    left.dispose();
    batch.dispose();
  });
});

describe('columns', () => {
  test('of a forward pass are moved to the tokens that they are about', async () => {
    // Place t of prox_logp is about token t + 1.
    const prox = [9, 9, -1, -2, -3, -4, 9, 9, 9, 9, 9, -5, -6, -7, -8, 9];
    const logprobs = tf.tensor2d([9, 9, 9, -1, -2, -3, -4, 9, 9, 9, 9, 9, -5, -6, -7, -8], [2, 8]);
    const given = sequences({ prox_logp: tf.tensor2d(prox, [2, 8]), logprobs });
    const batch = batchFromAreal(given);
    expect((await computeDebugMetrics(batch))['training/rollout_probs_diff_max']).toBe(0);
    batch.dispose();
    const rolled = batchFromAreal({ ...given, loss_mask: mask(LOSS) }, { isRolled: true });
    expect((await computeDebugMetrics(rolled))['training/rollout_probs_diff_max']).toBeGreaterThan(0);
    rolled.dispose();
  });

  test('with advantages beside them have to be said to be rolled or not', () => {
    const both = sequences({ prox_logp: tf.ones([2, 8]), advantages: tf.ones([2, 8]) });
    expect(() => batchFromAreal(both)).toThrow(MissingInputError);
    expect(() => batchFromAreal(both)).toThrow(/options\.isRolled.*compute_advantages/);
    for (const isRolled of [true, false]) batchFromAreal(both, { isRolled }).dispose();
  });

  test('that do not exist, or do not fit, are refused', () => {
    expect(() => batchFromAreal(sequences({ loss_msk: tf.ones([2, 8]) } as object))).toThrow(ValueError);
    const strange = sequences({ loss_msk: tf.ones([2, 8]), versoins: tf.ones([2, 8]), fields: 1 } as object);
    expect(() => batchFromAreal(strange)).toThrow(
      /tensors\.loss_msk, tensors\.versoins, tensors\.fields.*columns that do not exist.*loss_mask for loss_msk, versions for versoins/,
    );
    expect(() => batchFromAreal(strange)).not.toThrow(/option/);
    expect(() => batchFromAreal(sequences({ logprobs: tf.ones([2, 7]) }))).toThrow(ShapeError);
    expect(() => batchFromAreal({ ...sequences(), loss_mask: undefined } as never)).toThrow(/loss_mask/);
    expect(() => batchFromAreal(sequences({ rewards: tf.ones([3]) }))).toThrow(/rewards.*\[2, 8\], or \[2\]/);
  });
});

test('everything of a step, leaving nothing behind', async () => {
  await expectNoLeaks(async () => {
    const given = tf.tidy(() => ({ ...sequences({ advantages: tf.ones([2, 8]) }) }) as tf.NamedTensorMap);
    const batch = batchFromAreal(given as unknown as ArealTensors);
    const metrics = await computeStepMetrics(batch, { groups: ['a', 'a'], timing: { gen: 1 } });
    expect(metrics).toMatchObject({ 'response_length/mean': 4, 'timing_per_token_ms/gen': 125 });
    expect(metrics['prompt_length/clip_ratio']).toBeNaN();
    batch.dispose();
    tf.dispose(given);
  });
});
