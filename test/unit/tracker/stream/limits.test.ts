/** What an ingest takes at most of whom, and that it says so: by the answer, by a typed reason and by a count. */
import { describe, expect, test } from 'vitest';
import { ValueError } from '../../../../src/errors.js';
import { liftRow } from '../../../../src/rows/row.js';
import { decodeDelta } from '../../../../src/tracker/stream/wire/delta-reader.js';
import { encodeDelta } from '../../../../src/tracker/stream/wire/delta.js';
import { StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { StreamError } from '../../../../src/tracker/stream/errors.js';
import { StreamIngest, type StreamIngestOptions } from '../../../../src/tracker/stream/ingest.js';
import { SEQUENCE_JUMP } from '../../../../src/tracker/stream/workers/worker-roster.js';
import { Mailbox, deltasOf, recordsOf, transport } from './workers.js';

/** A delta as another worker life would have numbered it. */
function renumbered(
  bytes: Uint8Array,
  numbers: { seq?: number; epoch?: number; workerId?: string },
): Uint8Array {
  return encodeDelta({ ...decodeDelta(bytes), ...numbers });
}

/** A delta of these keys, 1 each. */
async function deltaOf(keys: readonly string[], workerId = 'w', maxKeyBytes = 16_383): Promise<Uint8Array> {
  const mailbox = new Mailbox();
  const emitter = new StreamEmitter(mailbox, { workerId, maxKeys: 65_535, maxKeyBytes });
  emitter.merge(keys.map((key) => ({ key, reduction: 'counter', row: liftRow(1) })));
  await emitter.flush();
  return mailbox.deltas[0]!;
}

describe('an ingest refuses', () => {
  test('keys that are too long, and merges the others of the same delta', async () => {
    const ingest = new StreamIngest();
    const answer = ingest.receive(await deltaOf(['é'.repeat(513), 'short', 'x'.repeat(1024)]));
    expect(answer).toMatchObject({ status: 'refused', error: expect.any(ValueError) as ValueError });
    expect(ingest.health()).toMatchObject({ refused: 1, refusedRows: 1, merged: 1 });
    expect(recordsOf(ingest)).toEqual({ short: 1, ['x'.repeat(1024)]: 1 });
    const wide = new StreamIngest({ maxKeyBytes: 1026 });
    expect(wide.receive(await deltaOf(['é'.repeat(513)]))).toEqual({ status: 'accepted' });
  });

  test('keys that are too many, with one reason for all of them, and counts the rows', async () => {
    const ingest = new StreamIngest({ maxKeys: 10 });
    const keys = Array.from({ length: 1000 }, (_, i) => `k${i}`);
    const answer = ingest.receive(await deltaOf(keys));
    if (answer.status !== 'refused') throw new Error(answer.status);
    expect(answer.error.message).toContain('at most 10 different keys');
    expect(ingest.export()).toMatchObject({ 'stream/refused': 1, 'stream/refused_rows': 990 });
    const again = ingest.receive(await deltaOf(keys, 'other'));
    expect((again as typeof answer).error).toBe(answer.error);
  });

  test('workers that are too many, until one is forgotten', async () => {
    const ingest = new StreamIngest({ maxWorkers: 2 });
    const deltas = await Promise.all(['a', 'b', 'c'].map((workerId) => deltasOf([1, 2], { workerId })));
    for (const [first] of deltas.slice(0, 2)) expect(ingest.receive(first!)).toEqual({ status: 'accepted' });
    expect(ingest.receive(deltas[2]![0]!)).toMatchObject({
      status: 'refused',
      error: expect.any(StreamError) as StreamError,
    });
    expect(ingest.export()).toMatchObject({
      'stream/refused_workers': 1,
      'stream/refused': 1,
      'stream/merged': 2,
    });
    ingest.forget('a');
    expect(ingest.receive(deltas[2]![0]!)).toEqual({ status: 'accepted' });
    // The one that was forgotten is now one too many.
    expect(ingest.receive(deltas[0]![1]!).status).toBe('refused');
    ingest.forget('c');
    expect(ingest.receive(deltas[0]![1]!)).toEqual({ status: 'accepted' });
    expect(ingest.health().lost).toBe(0);
  });

  test('ids of workers that are too long', async () => {
    const ingest = new StreamIngest();
    const [delta] = await deltasOf([1]);
    expect(ingest.receive(renumbered(delta!, { workerId: 'x'.repeat(1025) })).status).toBe('refused');
    expect(ingest.receive(renumbered(delta!, { workerId: 'x'.repeat(1024) })).status).toBe('accepted');
    expect(ingest.health().refusedWorkers).toBe(1);
  });

  test('a delta of another worker than the one who sent it', async () => {
    const ingest = new StreamIngest();
    const [delta] = await deltasOf([1], { workerId: 'a' });
    const answer = ingest.receive(delta!, { workerId: 'b' });
    expect(answer).toMatchObject({ status: 'refused', error: expect.any(StreamError) as StreamError });
    expect(ingest.health()).toMatchObject({ merged: 0, refusedWorkers: 1, workersSeen: 0 });
    expect(ingest.receive(delta!, { workerId: 'a' })).toEqual({ status: 'accepted' });
  });

  test.each([2 ** 53 - 1, SEQUENCE_JUMP + 2])(
    'a sequence number of %d after 1, which does not silence the worker',
    async (seq) => {
      const ingest = new StreamIngest();
      const [first, second, third] = await deltasOf([1, 2, 3]);
      ingest.receive(first!);
      expect(ingest.receive(renumbered(second!, { seq })).status).toBe('refused');
      for (const delta of [second!, third!]) expect(ingest.receive(delta)).toEqual({ status: 'accepted' });
      expect(ingest.health()).toMatchObject({ merged: 3, lost: 0, missing: 0, stale: 0, refusedWorkers: 1 });
    },
  );

  test('no number that is as far ahead as a store can lose deltas, nor the one after one that was refused', async () => {
    const ingest = new StreamIngest();
    const [first, second] = await deltasOf([1, 2]);
    ingest.receive(first!);
    expect(ingest.receive(renumbered(second!, { seq: SEQUENCE_JUMP + 1 })).status).toBe('accepted');
    const far = 10 * SEQUENCE_JUMP;
    expect(ingest.receive(renumbered(second!, { seq: far })).status).toBe('refused');
    expect(ingest.receive(renumbered(second!, { seq: far + 1 })).status).toBe('accepted');
    expect(ingest.receive(renumbered(second!, { seq: far + 2 })).status).toBe('accepted');
    expect(ingest.health().refusedWorkers).toBe(1);
  });
});

describe('an ingest', () => {
  test('says that a delta is stale, and the emitter tells whoever flushes', async () => {
    const ingest = new StreamIngest();
    const lives = await Promise.all([1, 2, 3].map((epoch) => deltasOf([1, 2], { epoch })));
    for (const life of lives) ingest.receive(life[0]!);
    expect(ingest.receive(lives[0]![1]!)).toEqual({ status: 'stale' });
    const emitter = new StreamEmitter(
      transport((delta) => ingest.receive(delta)),
      {
        workerId: 'rollout-0',
        epoch: 1,
      },
    );
    emitter.scalar({ 'rollout/reward': 1 });
    await expect(emitter.flush()).rejects.toThrow('give every worker an id of its own');
    expect(emitter.status()).toMatchObject({ delivered: 0, refused: 1, unacknowledged: 0 });
    expect(ingest.health().stale).toBe(2);
  });

  test('forgets schemas that were not used for longest, asks for them again and counts them', async () => {
    const ingest = new StreamIngest({ maxSchemas: 2 });
    const deltas = await Promise.all(['a', 'b', 'c'].map((key) => deltaOf([key], key)));
    const bare = (bytes: Uint8Array): Uint8Array =>
      encodeDelta({ ...decodeDelta(bytes), seq: 2 }, { definitions: false });
    ingest.receive(deltas[0]!);
    ingest.receive(deltas[1]!);
    expect(ingest.receive(bare(deltas[0]!))).toEqual({ status: 'accepted' });
    ingest.receive(deltas[2]!);
    expect(ingest.receive(bare(deltas[1]!))).toEqual({ status: 'unknown_schema' });
    expect(ingest.export()['stream/forgotten_schemas']).toBe(1);
    expect(ingest.export()['stream/forgotten_schemas']).toBe(0);
  });

  test('counts the policy versions that it had to fold', async () => {
    const ingest = new StreamIngest({ maxPolicyVersions: 2 });
    const [delta] = await deltasOf([1]);
    for (const seq of [1, 2, 3, 4]) {
      ingest.receive(encodeDelta({ ...decodeDelta(delta!), seq, policyVersion: seq }));
    }
    expect(ingest.export()['stream/folded_versions']).toBe(2);
  });

  test.each([-1, 0, NaN])('does not forget workers after %d seconds', (forgetAfterSeconds) => {
    expect(() => new StreamIngest({ forgetAfterSeconds })).toThrow(ValueError);
    expect(() => new StreamIngest({ forgetAfterSeconds: Infinity })).not.toThrow();
  });

  test('goes on with the numbers of a worker that it had forgotten', async () => {
    let now = 0;
    const ingest = new StreamIngest({ forgetAfterSeconds: 60, clock: () => now });
    const deltas = await deltasOf(Array.from({ length: 1002 }, () => 1));
    for (const delta of deltas.slice(0, 1000)) ingest.receive(delta);
    now = 100;
    ingest.export();
    expect(ingest.health().silentWorkers).toEqual([]);
    expect(ingest.receive(deltas[1001]!)).toEqual({ status: 'accepted' });
    expect(ingest.health()).toMatchObject({ lost: 0, missing: 1, merged: 1, workersSeen: 1 });
    expect(ingest.receive(deltas[1000]!)).toEqual({ status: 'accepted' });
    expect(ingest.receive(deltas[999]!)).toEqual({ status: 'stale' });
    expect(ingest.export()).toMatchObject({
      'rollout/reward__count': 2,
      'stream/lost': 0,
      'stream/missing': 0,
    });
  });

  test.each<[string, StreamIngestOptions]>([
    ['maxKeyBytes', { maxKeyBytes: 16_384 }],
    ['maxKeyBytes', { maxKeyBytes: 0 }],
    ['maxWorkers', { maxWorkers: 0 }],
    ['maxSchemas', { maxSchemas: 0.5 }],
  ])('takes no %s out of range', (option, options) => {
    expect(() => new StreamIngest(options)).toThrow(option);
  });
});
