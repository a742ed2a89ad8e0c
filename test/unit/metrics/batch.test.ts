/** What a batch is made of, and what it refuses. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  DisposedTensorError,
  DtypeError,
  MissingInputError,
  ShapeError,
  ValueError,
} from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import {
  type RolloutBatch,
  batchFromVerl,
  computeDataMetrics,
  computeStepMetrics,
  computeThroughputMetrics,
  computeTimingMetrics,
} from '../../../src/metrics/index.js';

await initBackend('cpu');

/** Two rows, two prompt columns, three response columns. */
function tensors(): Record<string, tf.Tensor> {
  const grid = () => tf.tensor2d([1, 2, 3, 4, 5, 6], [2, 3]);
  return {
    attention_mask: tf.ones([2, 5], 'int32'),
    response_mask: tf.tensor2d([1, 1, 0, 1, 1, 1], [2, 3], 'int32'),
    token_level_scores: grid(),
    token_level_rewards: grid(),
    advantages: grid(),
    returns: grid(),
    values: grid(),
    input_ids: tf.ones([2, 5], 'int32'),
  };
}

function without(missing: string): Record<string, tf.Tensor> {
  return Object.fromEntries(Object.entries(tensors()).filter(([name]) => name !== missing));
}

describe('batchFromVerl', () => {
  test('takes T from response_mask and ignores what no metric uses', () => {
    const given = tensors();
    const batch = batchFromVerl(given, { __num_turns__: [1, 2] });
    expect(batch).toMatchObject({ batchSize: 2, responseWidth: 3, numTurns: [1, 2] });
    expect(batch.advantages).toBe(given.advantages);
    expect(batch).not.toHaveProperty('input_ids');
  });

  test('takes T from responses, then from the option', () => {
    const attention_mask = tf.ones([2, 5], 'int32');
    const responses = tf.ones([2, 4], 'int32');
    expect(batchFromVerl({ attention_mask, responses }).responseWidth).toBe(4);
    expect(batchFromVerl({ attention_mask }, {}, { responseWidth: 2 }).responseWidth).toBe(2);
  });

  test.each([
    [
      'a tensor of another width',
      { advantages: tf.ones([2, 4]) },
      ShapeError,
      /advantages.*\[2, 3\].*\[2, 4\]/,
    ],
    ['a tensor of another batch', { returns: tf.ones([3, 3]) }, ShapeError, /returns/],
    ['a tensor of another rank', { values: tf.ones([6]) }, ShapeError, /values.*\[6\]/],
    ['an attention mask narrower than T', { attention_mask: tf.ones([2, 2]) }, ShapeError, /attention_mask/],
    ['a string tensor', { advantages: tf.tensor2d(['a'], [1, 1]) }, DtypeError, /dtype string/],
    [
      'an array',
      { advantages: [[1, 2, 3]] as unknown as tf.Tensor },
      DtypeError,
      /a plain array.*tf\.tensor/,
    ],
  ])('refuses %s', (_what, wrong, kind, message) => {
    const attempt = () => batchFromVerl({ ...tensors(), ...wrong });
    expect(attempt).toThrow(kind);
    expect(attempt).toThrow(message);
  });

  test('refuses a disposed tensor', () => {
    const given = tensors();
    given.values!.dispose();
    expect(() => batchFromVerl(given)).toThrow(DisposedTensorError);
  });

  test('refuses a column of another length', () => {
    const attempt = () => batchFromVerl(tensors(), { tool_call_counts: [1, 2, 3] });
    expect(attempt).toThrow(/tool_call_counts.*one number per row, 2, got 3/);
  });
});

describe('metrics refuse', () => {
  test.each([
    'response_mask',
    'token_level_scores',
    'token_level_rewards',
    'advantages',
    'returns',
    'values',
  ])('data metrics without %s, by name', async (name) => {
    const rest = without(name);
    const batch = batchFromVerl(rest, {}, { responseWidth: 3 });
    const refused = computeDataMetrics(batch);
    await expect(refused).rejects.toThrow(MissingInputError);
    await expect(refused).rejects.toThrow(new RegExp(`${name}.*put ${name} into the batch`));
  });

  test('data metrics without anything that tells lengths', async () => {
    const rest = without('attention_mask');
    await expect(computeDataMetrics(batchFromVerl(rest))).rejects.toThrow(/attention_mask.*prompt_length/);
  });

  test('a batch whose tensors were disposed after it was made', async () => {
    const given = tensors();
    const batch = batchFromVerl(given);
    given.advantages!.dispose();
    await expect(computeDataMetrics(batch)).rejects.toThrow(DisposedTensorError);
  });

  test('a hand-made batch that does not fit together', async () => {
    const batch: RolloutBatch = { ...batchFromVerl(tensors()), returns: tf.ones([2, 2]) };
    await expect(computeDataMetrics(batch)).rejects.toThrow(ShapeError);
  });

  test('unknown semantics, by name, with those that exist', async () => {
    const refused = computeDataMetrics(batchFromVerl(tensors()), { semantics: 'verl' as 'recommended' });
    await expect(refused).rejects.toThrow(ValueError);
    await expect(refused).rejects.toThrow(/recommended, verl-2026-08, verl-2026-01.*'verl'/);
  });

  test.each([0, -1, NaN])('a cap of %d tokens', async (maxResponseLength) => {
    const refused = computeDataMetrics(batchFromVerl(tensors()), { maxResponseLength });
    await expect(refused).rejects.toThrow(ValueError);
  });

  test('times that are no numbers', async () => {
    const batch = batchFromVerl(tensors());
    await expect(computeTimingMetrics(batch, { gen: '3' as unknown as number })).rejects.toThrow(
      /timingRaw\.gen/,
    );
    await expect(computeTimingMetrics(batch, undefined as never)).rejects.toThrow(MissingInputError);
  });

  test('throughput without the time of the step, or with an invalid number of GPUs', async () => {
    const batch = batchFromVerl(tensors());
    await expect(computeThroughputMetrics(batch, { gen: 1 }, 1)).rejects.toThrow(/timingRaw\.step/);
    await expect(computeThroughputMetrics(batch, { step: 1 }, -1)).rejects.toThrow(ValueError);
    await expect(computeThroughputMetrics(batch, { step: 1 }, NaN)).rejects.toThrow(ValueError);
  });
});

describe('metrics give', () => {
  test('clip ratios against a configured cap, whatever the padding', async () => {
    const given = tensors();
    const padded = { ...given, attention_mask: tf.tensor2d([1, 1, 1, 1, 0, 1, 1, 1, 1, 0], [2, 5], 'int32') };
    const batch = batchFromVerl(padded);
    expect(await computeDataMetrics(batch)).toMatchObject({ 'response_length/clip_ratio': 0 });
    expect(await computeDataMetrics(batch, { maxResponseLength: 2 })).toMatchObject({
      'response_length/clip_ratio': 1,
    });
  });

  test('tokens from length columns on the device, exactly, also beyond float32', async () => {
    const batch = batchFromVerl({
      prompt_length: tf.tensor1d([16777217, 1], 'int32'),
      response_length: tf.tensor1d([3, 16777217], 'int32'),
    });
    expect(await computeThroughputMetrics(batch, { step: 2 }, 1)).toEqual({
      'perf/total_num_tokens': 16777217 + 1 + 3 + 16777217,
      'perf/time_per_step': 2,
      'perf/throughput': (16777217 + 1 + 3 + 16777217) / 2,
    });
  });

  test('plain numbers: NaN where undefined, for a batch without rows too', async () => {
    const empty = Object.fromEntries(
      Object.keys(tensors()).map((name) => [name, tf.zeros([0, name === 'attention_mask' ? 5 : 3])]),
    );
    const metrics = await computeDataMetrics(batchFromVerl(empty));
    expect(metrics['critic/score/mean']).toBeNaN();
    expect(metrics['response/aborted_ratio']).toBeNaN();
    expect(Object.values(metrics).every((value) => typeof value === 'number')).toBe(true);
  });
});

describe('columns hold numbers', () => {
  test.each([
    ['BigInts, as int64 columns come', BigInt64Array.of(1n, 2n) as unknown as number[], /a bigint at 0/],
    ['text', ['1', '2'] as unknown as number[], /the text '1' at 0/],
    ['booleans', [1, true] as unknown as number[], /a boolean at 1/],
    ['nulls', [1, null] as unknown as number[], /null at 1/],
    ['one number', 3 as unknown as number[], /got the number 3/],
  ])('%s are refused', (_what, column, message) => {
    for (const name of ['__num_turns__', 'tool_call_counts', 'prompt_length', 'global_token_num']) {
      const attempt = () => batchFromVerl(tensors(), { [name]: column });
      expect(attempt).toThrow(DtypeError);
      expect(attempt).toThrow(message);
    }
  });

  test('a tensor where an array belongs is refused', () => {
    const turns = tf.tensor1d([1, 2]) as unknown as number[];
    expect(() => batchFromVerl(tensors(), { __num_turns__: turns })).toThrow(/__num_turns__.*got a tensor/);
  });
});

describe('columns count something', () => {
  const names = ['__num_turns__', 'tool_call_counts', 'prompt_length', 'response_length', 'global_token_num'];

  test.each(names)('%s', (name) => {
    for (const wrong of [-1, NaN, Infinity]) {
      expect(() => batchFromVerl({}, { [name]: [3, wrong] })).toThrow(ValueError);
      expect(() => batchFromVerl({}, { [name]: [3, wrong] })).toThrow(
        new RegExp(`${name}.*${wrong} at 1`, 's'),
      );
    }
    expect(batchFromVerl({}, { [name]: [0, 3] })).toBeDefined();
  });

  test.each(['prompt_length', 'response_length', 'global_token_num'])('%s, and no half tokens', (name) => {
    expect(() => batchFromVerl({}, { [name]: [3, 1.5] })).toThrow(
      new RegExp(`${name}: expected whole.*1.5 at 1`),
    );
  });

  test('responses that fit into their part of the batch, wherever their lengths are', async () => {
    const given = { response_mask: tf.ones([2, 3]) };
    const columns = { prompt_length: [1, 9], response_length: [3, 4] };
    expect(() => batchFromVerl(given, columns)).toThrow(/response_length.*0 to 3.*4 at 1/);
    expect(() => batchFromVerl(given, columns)).toThrow(ValueError);
    const onDevice = Object.fromEntries(Object.entries(columns).map(([name, xs]) => [name, tf.tensor1d(xs)]));
    const timing = computeTimingMetrics(batchFromVerl({ ...given, ...onDevice }), { gen: 1 });
    await expect(timing).rejects.toThrow(/response_length.*0 to 3.*4 at 1/);
    expect(batchFromVerl({}, columns)).toBeDefined();
    tf.dispose([given, onDevice]);
  });

  test('also those on a device, once they are read', async () => {
    const columns = { prompt_length: tf.tensor1d([1, NaN]), response_length: tf.tensor1d([1, 2]) };
    await expect(computeTimingMetrics(batchFromVerl(columns), { gen: 1 })).rejects.toThrow(
      /prompt_length.*NaN at 1/s,
    );
    tf.dispose(columns);
  });
});

describe('length columns count under the semantics that know them', () => {
  test.each([
    ['recommended', 12],
    ['verl-2026-08', 12],
    ['verl-2026-01', 6],
  ] as const)('%s', async (semantics, tokens) => {
    const tensors = { attention_mask: tf.ones([2, 3]), response_mask: tf.ones([2, 2]) };
    const batch = batchFromVerl(tensors, { prompt_length: [5, 5], response_length: [1, 1] });
    const single = await computeThroughputMetrics(batch, { step: 1 }, 1, { semantics });
    expect(single['perf/total_num_tokens']).toBe(tokens);
    const step = await computeStepMetrics(batch, { timing: { step: 1 }, nGpus: 1, semantics });
    expect(step['perf/total_num_tokens']).toBe(tokens);
    tf.dispose(tensors);
  });
});

describe('misspelled options are refused, with those that there are', () => {
  const batch = batchFromVerl({});

  test.each<[string, () => unknown, RegExp]>([
    [
      'computeDataMetrics',
      () => computeDataMetrics(batch, { useCrtic: true } as object),
      /useCrtic.*useCritic/s,
    ],
    [
      'computeTimingMetrics',
      () => computeTimingMetrics(batch, {}, { sematics: 1 } as object),
      /sematics.*semantics/s,
    ],
    [
      'computeThroughputMetrics',
      () => computeThroughputMetrics(batch, { step: 1 }, 1, { nGPUs: 1 } as object),
      /nGPUs.*semantics/s,
    ],
    [
      'batchFromVerl',
      () => Promise.resolve().then(() => batchFromVerl({}, {}, { width: 1 } as object)),
      /width.*responseWidth/s,
    ],
  ])('%s', async (_name, call, says) => {
    await expect(call()).rejects.toThrow(ValueError);
    await expect(call()).rejects.toThrow(says);
  });

  test('an option that is undefined is left out, whatever its name', async () => {
    const timing = computeTimingMetrics(batchFromVerl({}, { prompt_length: [1], response_length: [1] }), {}, {
      sematics: undefined,
    } as object);
    expect(await timing).toEqual({});
  });
});

describe('the response width', () => {
  test.each([-3, 2.5, NaN, '4' as unknown as number])('%s is refused', (responseWidth) => {
    const attempt = () => batchFromVerl({ attention_mask: tf.ones([3, 6]) }, {}, { responseWidth });
    expect(attempt).toThrow(ValueError);
    expect(attempt).toThrow(/responseWidth.*whole number/);
  });

  test('that is wider than the attention mask is refused', () => {
    const attempt = () => batchFromVerl({ attention_mask: tf.ones([3, 6]) }, {}, { responseWidth: 7 });
    expect(attempt).toThrow(ShapeError);
  });

  test('is not taken from a cube', () => {
    expect(() => batchFromVerl({ responses: tf.ones([3, 1, 1]) })).toThrow(ShapeError);
  });
});
