/** What `StepState.fromBytes` takes: all that `toBytes` made, wherever it lies in memory, and nothing else. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ValueError } from '../../src/errors.js';
import {
  StepState,
  type StepStateOptions,
  batchFromVerl,
  computeStepState,
} from '../../src/metrics/index.js';
import { MOST_BYTES } from '../../src/metrics/step/header-scan.js';
import { testBackend } from '../support/backend.js';
import { openedOf, sealedOf } from '../support/sealed.js';
import { deviceTensor } from '../support/tensors.js';
import { runsOf } from '../support/long.js';

await testBackend();

const FIELDS = [
  ...(['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values'] as const),
  ...(['old_log_probs', 'log_probs', 'ref_log_prob', 'rollout_log_probs', 'sum_pi_squared'] as const),
];
const EVERYTHING: StepStateOptions = {
  groups: ['a', 7],
  rolloutCorrection: { rolloutIs: 'token', rolloutRs: 'token_k1', rolloutRsThreshold: '0.5_2' },
  maxResponseLength: Infinity,
};

async function bytesOf(options: StepStateOptions): Promise<Uint8Array> {
  const ones = deviceTensor({ shape: [2, 3], values: [1, 1, 1, 1, 1, 1] });
  const halves = deviceTensor({ shape: [2, 3], values: [0.5, 1, 0.25, 0.125, 1, 0.5] });
  const attention = deviceTensor({ shape: [2, 4], values: [1, 1, 1, 1, 1, 1, 1, 1] });
  const tensors = Object.fromEntries(FIELDS.map((name) => [name, halves]));
  const batch = batchFromVerl(
    { attention_mask: attention, response_mask: ones, ...tensors },
    { __num_turns__: [1, 2], tool_call_counts: [0, 3], global_token_num: [8] },
  );
  const state = computeStepState(batch, options);
  tf.dispose([ones, halves, attention]);
  return (await state).toBytes();
}

const whole = await bytesOf(EVERYTHING);
const small = await bytesOf({ families: ['groups', 'timing'], groups: ['a', 7] });

/** Whether the bytes are refused as they should be; anything but a ValueError is thrown on. */
function isRefused(bytes: Uint8Array): boolean {
  try {
    StepState.fromBytes(bytes);
    return false;
  } catch (error) {
    if (error instanceof ValueError) return true;
    throw error;
  }
}

test('bytes in memory that they share, as Buffers of Node have it', () => {
  const expected = StepState.fromBytes(whole).metrics();
  const tail = whole.subarray(100);
  const received = {
    pooled: Buffer.from(small),
    copied: Buffer.from(whole),
    joined: Buffer.concat([Buffer.from(whole.subarray(0, 100)), Buffer.from(tail)]),
    inside: Buffer.concat([Buffer.of(1, 2, 3), whole, tail]).subarray(3, 3 + whole.length),
    view: new Uint8Array(Buffer.concat([Buffer.of(1), whole])).subarray(1),
  };
  expect(received.pooled.buffer.byteLength).toBeGreaterThan(small.length);
  expect(StepState.fromBytes(received.pooled).toBytes()).toEqual(small);
  for (const bytes of [received.copied, received.joined, received.inside, received.view]) {
    expect(StepState.fromBytes(bytes).metrics()).toEqual(expected);
  }
});

test('a state without anything about its rows one by one comes back with their number', async () => {
  const batch = batchFromVerl({}, { global_token_num: [8] });
  const state = await computeStepState({ ...batch, batchSize: 5 }, { families: ['throughput'] });
  expect(StepState.fromBytes(state.toBytes()).rows).toBe(5);
  const timed = await bytesOf({ families: ['timing'] });
  expect(StepState.fromBytes(timed).toBytes()).toEqual(timed);
});

test('the header of a state of all families is far below what a header may have', () => {
  expect(8 * openedOf('stepState', whole).head.length).toBeLessThan(MOST_BYTES);
});

test('as many groups as rows, however long their names are, and families that are named twice', async () => {
  const options: StepStateOptions = { groups: ['"\\,'.repeat(50_000), 7], families: ['groups', 'groups'] };
  const bytes = await bytesOf(options);
  expect(StepState.fromBytes(bytes).toBytes()).toEqual(bytes);
});

test('a state keeps nothing of the bytes that it was made from', () => {
  const bytes = whole.slice();
  const state = StepState.fromBytes(bytes);
  const before = state.metrics();
  bytes.fill(0);
  expect(state.metrics()).toEqual(before);
});

describe('damaged bytes are refused', () => {
  test('every single bit that flips', () => {
    const bytes = small.slice();
    const taken: number[] = [];
    for (let bit = 0; bit < 8 * bytes.length; bit++) {
      bytes[bit >> 3]! ^= 1 << (bit & 7);
      if (!isRefused(bytes)) taken.push(bit);
      bytes[bit >> 3]! ^= 1 << (bit & 7);
    }
    expect(taken).toEqual([]);
    expect(isRefused(bytes)).toBe(false);
  });

  test('everything that is cut off, or too much', () => {
    const lengths = Array.from({ length: small.length }, (_, length) => length);
    expect(lengths.filter((length) => !isRefused(small.subarray(0, length)))).toEqual([]);
    expect(isRefused(Buffer.concat([small, new Uint8Array(8)]))).toBe(true);
  });

  test('any bytes that are others, in a state of all families', () => {
    const change = fc.record({ at: fc.nat(whole.length - 1), to: fc.nat(255) });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 5 }), (changes) => {
        const bytes = whole.slice();
        for (const { at, to } of changes) bytes[at] = to;
        expect(isRefused(bytes)).toBe(Buffer.compare(bytes, whole) !== 0);
      }),
      { numRuns: runsOf(300) },
    );
  });
});

/** Lists within lists. */
function nested(depth: number): unknown {
  let value: unknown = 0;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

interface Parts {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- what is written into a header here is wrong by design
  readonly header: any;
  readonly body: Float64Array;
}

/** The bytes with parts that are changed and a checksum that is right, as a program that knows the format makes them. */
function resealed(change: (parts: Parts) => void): Uint8Array {
  const { head, numbers } = openedOf('stepState', whole);
  const parts: Parts = { header: JSON.parse(new TextDecoder().decode(head)) as unknown, body: numbers };
  change(parts);
  return sealedOf('stepState', JSON.stringify(parts.header), parts.body);
}

test('bytes that are sealed again are taken if nothing was changed', () => {
  expect(StepState.fromBytes(resealed(() => undefined)).metrics()).toEqual(
    StepState.fromBytes(whole).metrics(),
  );
});

/* eslint-disable @typescript-eslint/no-unsafe-member-access -- see Parts */
test.each<[string, (parts: Parts) => void]>([
  ['invalid rows', ({ header }) => (header.rows = null)],
  ['rows below 0', ({ header }) => (header.rows = -3)],
  ['half a row', ({ header }) => (header.rows = 0.5)],
  ['fewer groups than rows', ({ header }) => (header.groups = ['sa'])],
  ['no groups', ({ header }) => delete header.groups],
  ['groups without a type', ({ header }) => (header.groups = ['a', 'b'])],
  ['a group that equals nothing', ({ header }) => (header.groups = ['sa', 'nx'])],
  ['a channel of no table', ({ header }) => (header.channels.data.score = 99)],
  ['a channel of half a table', ({ header }) => (header.channels.data.score = 0.5)],
  ['a channel too few', ({ header }) => delete header.channels.data.score],
  ['a channel too many', ({ header }) => (header.channels.groups.more = 0)],
  ['values without errors', ({ header }) => delete header.channels.data.errors],
  ['a criterion that is not asked for', ({ header }) => (header.channels.rolloutCorrection.k2 = 0)],
  ['a number made in no way', ({ header }) => (header.channels.kl['k1/mean'] = 0)],
  ['a family that there is not', ({ header }) => (header.channels.more = {})],
  ['no families', ({ header }) => (header.channels = null)],
  ['wanted families that are no list', ({ header }) => (header.families = 'data')],
  ['wanted families that there are not', ({ header }) => (header.families = ['datas'])],
  ['no options', ({ header }) => (header.options = null)],
  ['an option that there is not', ({ header }) => (header.options.semantic = 'x')],
  ['semantics that there are not', ({ header }) => (header.options.semantics = 'mine')],
  ['options of a family that are wrong', ({ header }) => (header.options.rolloutCorrection.rolloutIs = 'x')],
  ['an invalid cap', ({ header }) => (header.options.maxResponseLength = 0)],
  ['no reasons', ({ header }) => (header.skipped = null)],
  ['a width that is text', ({ header }) => (header.responseWidth = 'a')],
  ['more rows than there are', ({ header }) => header.rows++],
  ['tokens below 0', ({ header }) => (header.globalTokens = -5)],
  ['an invalid flag', ({ header }) => (header.hasNumTurns = 1)],
  ['lengths that nobody knows, and their metrics', ({ header }) => (header.unknownLengths = 'no')],
  ['something more', ({ header }) => (header.more = 1)],
  // body: a bit per row of the first table, then count, sum, m2, min and max of each.
  ['a count that is NaN', ({ body }) => (body[1] = NaN)],
  ['a count below 0', ({ body }) => (body[1] = -1)],
  ['half a count', ({ body }) => (body[1] = 0.5)],
  ['a count beyond counting', ({ body }) => (body[1] = 1e308)],
  ['elements that are not finite, of which there are none', ({ body }) => (body[0] = 5e-324)],
  ['a sum above that of its elements', ({ body }) => (body[2] = 1e6)],
  ['a sum that is NaN', ({ body }) => (body[2] = NaN)],
  ['deviations that its elements cannot have', ({ body }) => (body[3] = 1e6)],
  ['a table that no family has', ({ header }) => header.tables++],
  ['rows without end', ({ header }) => (header.rows = 2 ** 53 - 1)],
  ['tables without end', ({ header }) => (header.tables = 1e8)],
  ['options nested without end', ({ header }) => (header.options.policy = { deep: nested(3000) })],
  ['tokens that are NaN', ({ body }) => (body[body.length - 1] = NaN)],
  ['turns below 0', ({ body }) => (body[body.length - 5] = -1)],
])('%s: refused whatever the checksum says', (_what, change) => {
  expect(isRefused(resealed(change))).toBe(true);
});

test('a state keeps the thresholds that it was made with, pairs too', async () => {
  const thresholds: [number, number] = [0.5, 2];
  const options = (): StepStateOptions => ({
    ...EVERYTHING,
    rolloutCorrection: {
      ...{ rolloutIs: 'token', rolloutIsThreshold: thresholds },
      ...{ rolloutRs: 'token_k1', rolloutRsThreshold: thresholds },
    },
  });
  const expected = await bytesOf(options());
  const made = bytesOf(options());
  thresholds.fill(-1);
  expect(await made).toEqual(expected);
});
