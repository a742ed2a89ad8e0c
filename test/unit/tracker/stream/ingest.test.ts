/** The controller's end: each delta counts once, and the health of the stream says what did not come. */
import { describe, expect, test } from 'vitest';
import { KeyConflictError, ValueError } from '../../../../src/errors.js';
import { liftRow } from '../../../../src/rows/row.js';
import { StatsTracker } from '../../../../src/tracker/index.js';
import { decodeDelta } from '../../../../src/tracker/stream/wire/delta-reader.js';
import { encodeDelta } from '../../../../src/tracker/stream/wire/delta.js';
import { StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { DeltaError } from '../../../../src/tracker/stream/errors.js';
import { InProcessTransport } from '../../../../src/tracker/stream/in-process-transport.js';
import { StreamIngest, type StreamIngestOptions } from '../../../../src/tracker/stream/ingest.js';
import { SEQUENCE_WINDOW } from '../../../../src/tracker/stream/workers/sequence-window.js';
import { Mailbox, deltasOf, recordsOf } from './workers.js';

/** An ingest with a clock that the test moves. */
function ingestAt(options: StreamIngestOptions = {}): {
  ingest: StreamIngest;
  advance: (seconds: number) => void;
} {
  let now = 1000;
  const ingest = new StreamIngest({ ...options, clock: () => now });
  return { ingest, advance: (seconds) => (now += seconds) };
}

const reward = (mean: number, count: number): Record<string, number> => ({
  'rollout/reward': mean,
  'rollout/reward__count': count,
});

describe('an export', () => {
  test('is what one tracker with all records would export, in sorted order', async () => {
    const ingest = new StreamIngest();
    const tracker = new StatsTracker();
    for (const [i, scores] of [[1, 2, 3], [10], [0.1, 0.2]].entries()) {
      const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: `w${i}` });
      for (const score of scores) {
        for (const recorder of [emitter, tracker]) {
          recorder.scalar({ 'rollout/score': score });
          recorder.scalar({ 'rollout/best': score }, { reduceType: 'max' });
          recorder.counter({ 'rollout/accepted': 1, 'rollout/rejected': 0 });
        }
      }
      await emitter.flush();
    }
    const exported = ingest.export();
    expect(Object.keys(exported)).toEqual(Object.keys(exported).sort());
    const records = Object.fromEntries(
      Object.entries(exported).filter(([key]) => !key.startsWith('stream/')),
    );
    const whole = await tracker.export();
    expect(Object.keys(records)).toEqual(Object.keys(whole));
    for (const [key, value] of Object.entries(whole))
      expect(records[key]).toBeCloseToReference(value, { rel: 1e-15 });
  });

  test('forgets what it exported unless told otherwise', async () => {
    const ingest = new StreamIngest();
    for (const delta of await deltasOf([1, 2])) ingest.receive(delta);
    expect(recordsOf(ingest, false)).toEqual(reward(1.5, 2));
    expect(recordsOf(ingest)).toEqual(reward(1.5, 2));
    expect(recordsOf(ingest)).toEqual({});
  });

  test('leaves out means of nothing, and keeps sums of nothing', async () => {
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    const empty = { ...liftRow(0), count: 0, min: Infinity, max: -Infinity };
    emitter.merge([
      { key: 'n_tokens', reduction: 'denominator', row: empty },
      { key: 'total', reduction: 'sum', row: empty },
      { key: 'loss', reduction: 'avg_min_max', row: empty },
    ]);
    await emitter.flush();
    expect(recordsOf(ingest)).toEqual({ n_tokens: 0, total: 0 });
  });

  test('takes no invalid options', () => {
    const ingest = new StreamIngest();
    expect(() => ingest.export({ policyVersion: 'new' as never })).toThrow(ValueError);
    expect(() => ingest.rows({ reset: 1 as never })).toThrow(ValueError);
    expect(() => new StreamIngest({ expectedWorkers: -1 })).toThrow('expectedWorkers');
    expect(() => new StreamIngest({ maxPolicyVersions: 0 })).toThrow('maxPolicyVersions');
  });
});

describe('deltas', () => {
  test('share nothing: a NaN in one is not in the next', async () => {
    const ingest = new StreamIngest();
    for (const delta of await deltasOf([NaN, 1, Infinity, 2])) ingest.receive(delta);
    expect(ingest.rows()[0]!.row).toMatchObject({ count: 4, nan: 1, posInf: 1, negInf: 0, sum: 3, max: 2 });
  });

  test('that come again are merged once and counted as duplicates', async () => {
    const ingest = new StreamIngest();
    const deltas = await deltasOf([1, 2, 3]);
    for (const delta of [...deltas, ...deltas]) expect(ingest.receive(delta)).toEqual({ status: 'accepted' });
    expect(ingest.export()).toMatchObject({
      ...reward(2, 3),
      'stream/merged': 3,
      'stream/duplicates': 3,
      'stream/missing': 0,
    });
    for (const delta of deltas) ingest.receive(delta);
    expect(recordsOf(ingest)).toEqual({});
  });

  test('that do not come are missing while they may, and lost when they no longer can', async () => {
    const ingest = new StreamIngest();
    const deltas = await deltasOf(Array.from({ length: 40 }, (_, i) => i));
    ingest.receive(deltas[0]!);
    ingest.receive(deltas[3]!);
    expect(ingest.export()).toMatchObject({ 'stream/missing': 2, 'stream/lost': 0 });
    ingest.receive(deltas[2]!);
    expect(ingest.health()).toMatchObject({ missing: 1, lost: 0 });
    ingest.receive(deltas[1 + SEQUENCE_WINDOW]!);
    expect(ingest.health()).toMatchObject({ missing: SEQUENCE_WINDOW - 3, lost: 1 });
    ingest.receive(deltas[1]!);
    expect(ingest.health()).toMatchObject({ stale: 1, merged: 2 });
    expect(ingest.export()).toMatchObject({ 'stream/lost': 1, 'stream/stale': 1 });
    expect(ingest.export()).toMatchObject({ 'stream/lost': 0, 'stream/stale': 0 });
  });

  test('lost before the first one that comes are missed, too', async () => {
    const ingest = new StreamIngest();
    const deltas = await deltasOf([1, 2, 3]);
    ingest.receive(deltas[2]!);
    expect(ingest.health().missing).toBe(2);
    ingest.receive(deltas[0]!);
    expect(ingest.health().missing).toBe(1);
  });

  test('are told apart by worker, so equal numbers of two workers both count', async () => {
    const ingest = new StreamIngest();
    for (const workerId of ['a', 'b'])
      for (const delta of await deltasOf([1], { workerId })) ingest.receive(delta);
    expect(ingest.export()).toMatchObject({
      ...reward(1, 2),
      'stream/workers_seen': 2,
      'stream/duplicates': 0,
    });
  });

  test('of a worker that was restarted count from 1 again; late ones of its last life still count', async () => {
    const ingest = new StreamIngest();
    const first = await deltasOf([1, 2, 3], { epoch: 10 });
    const second = await deltasOf([10, 20], { epoch: 11 });
    for (const delta of [first[0]!, first[2]!, second[0]!, first[1]!, first[0]!, second[0]!, second[1]!]) {
      ingest.receive(delta);
    }
    expect(ingest.export()).toMatchObject({
      ...reward(36 / 5, 5),
      'stream/workers_seen': 1,
      'stream/duplicates': 2,
      'stream/missing': 0,
      'stream/lost': 0,
    });
  });

  test('of two lives ago are stale, and what was missing of them is lost', async () => {
    const ingest = new StreamIngest();
    const lives = await Promise.all([1, 2, 3].map((epoch) => deltasOf([1, 2], { epoch })));
    ingest.receive(lives[0]![1]!);
    for (const life of lives.slice(1)) ingest.receive(life[0]!);
    expect(ingest.health()).toMatchObject({ missing: 0, lost: 1 });
    ingest.receive(lives[0]![0]!);
    expect(ingest.export()).toMatchObject({ 'stream/stale': 1, 'stream/merged': 3 });
  });

  test('of a life before the first that was heard of count', async () => {
    const ingest = new StreamIngest();
    for (const epoch of [7, 5, 6]) for (const delta of await deltasOf([1], { epoch })) ingest.receive(delta);
    expect(ingest.health()).toMatchObject({ merged: 3, stale: 0 });
    for (const delta of await deltasOf([1], { epoch: 5 })) ingest.receive(delta);
    expect(ingest.health()).toMatchObject({ merged: 3, stale: 1 });
  });

  test('that are none are refused and counted', async () => {
    const ingest = new StreamIngest();
    const [delta] = await deltasOf([1]);
    const answer = ingest.receive(delta!.subarray(0, 20));
    expect(answer).toMatchObject({ status: 'refused', error: expect.any(DeltaError) as DeltaError });
    expect(ingest.export()).toMatchObject({ 'stream/refused': 1, 'stream/merged': 0 });
    expect(() => ingest.receive('delta' as never)).toThrow(ValueError);
  });

  test('with a key that contradicts the stream lose that key alone', async () => {
    const ingest = new StreamIngest();
    const emitters = ['old', 'new'].map(
      (workerId) => new StreamEmitter(new InProcessTransport(ingest), { workerId }),
    );
    emitters[0]!.scalar({ tools: 2, reward: 1 });
    await emitters[0]!.flush();
    emitters[1]!.counter({ tools: 7 });
    emitters[1]!.scalar({ reward: 3, 'stream/lost': 1 });
    await expect(emitters[1]!.flush()).rejects.toThrow(KeyConflictError);
    emitters[1]!.scalar({ reward: 5 });
    await emitters[1]!.flush();
    expect(ingest.export()).toMatchObject({
      ...{ tools: 2, tools__count: 1, reward: 3, reward__count: 3 },
      'stream/refused': 1,
      'stream/merged': 3,
      'stream/lost': 0,
      'stream/missing': 0,
    });
  });

  test('with more keys than maxKeys lose what is too much', async () => {
    const ingest = new StreamIngest({ maxKeys: 2 });
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    for (const key of ['a', 'b', 'c']) emitter.scalar({ [key]: 1 });
    await expect(emitter.flush()).rejects.toThrow('at most 2 different keys');
    expect(recordsOf(ingest)).toEqual({ a: 1, a__count: 1, b: 1, b__count: 1 });
  });
});

describe('the health of a stream', () => {
  test('counts the workers that reported since the last export, of those expected', async () => {
    const { ingest } = ingestAt({ expectedWorkers: ['a', 'b', 'c', 'a'] });
    const [a1, a2] = await deltasOf([1, 2], { workerId: 'a' });
    const [x1] = await deltasOf([3], { workerId: 'x' });
    for (const delta of [a1!, a2!, x1!]) ingest.receive(delta);
    expect(ingest.health()).toMatchObject({ workersSeen: 2, workersExpected: 3, silentWorkers: ['b', 'c'] });
    expect(ingest.export()).toMatchObject({ 'stream/workers_seen': 2, 'stream/workers_expected': 3 });
    expect(ingest.health()).toMatchObject({ workersSeen: 0, silentWorkers: ['a', 'b', 'c', 'x'] });
    expect(new StreamIngest({ expectedWorkers: 5 }).export()['stream/workers_expected']).toBe(5);
    expect(new StreamIngest().export()).not.toHaveProperty('stream/workers_expected');
  });

  test('tells how long the quietest worker was not heard of', async () => {
    const { ingest, advance } = ingestAt();
    expect(ingest.export()).not.toHaveProperty('stream/oldest_age_seconds');
    const [a1, a2] = await deltasOf([1, 2], { workerId: 'a' });
    const [b1] = await deltasOf([1], { workerId: 'b' });
    ingest.receive(a1!);
    advance(5);
    ingest.receive(b1!);
    advance(2);
    expect(ingest.health().oldestAgeSeconds).toBe(7);
    // A repetition is the work of the transport: it does not prove that the worker lives.
    ingest.receive(a1!);
    expect(ingest.health().oldestAgeSeconds).toBe(7);
    ingest.receive(a2!);
    expect(ingest.export()['stream/oldest_age_seconds']).toBe(2);
  });

  test('counts the age of an expected worker that was never heard of from the start', async () => {
    const { ingest, advance } = ingestAt({ expectedWorkers: ['a', 'b'] });
    advance(3);
    for (const delta of await deltasOf([1], { workerId: 'a' })) ingest.receive(delta);
    advance(1);
    expect(ingest.health().oldestAgeSeconds).toBe(4);
  });

  test('does not wait for workers that have closed, until they start again', async () => {
    const { ingest, advance } = ingestAt();
    const life = async (epoch: number, close: boolean): Promise<void> => {
      const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w', epoch });
      emitter.scalar({ a: 1 });
      await (close ? emitter.close() : emitter.flush());
    };
    await life(1, true);
    ingest.export();
    advance(100);
    expect(ingest.health()).toMatchObject({ oldestAgeSeconds: undefined, silentWorkers: [] });
    await life(2, false);
    advance(9);
    expect(ingest.health().oldestAgeSeconds).toBe(9);
  });

  test('forgets workers by name, and on a reset those that were silent for too long', async () => {
    const { ingest, advance } = ingestAt({ forgetAfterSeconds: 60 });
    for (const workerId of ['a', 'b', 'c']) {
      const deltas = await deltasOf([1, 2], { workerId });
      ingest.receive(deltas[1]!);
      advance(40);
    }
    ingest.forget('b');
    expect(ingest.health()).toMatchObject({ missing: 2, lost: 1 });
    ingest.export();
    expect(ingest.health()).toMatchObject({
      missing: 1,
      lost: 1,
      silentWorkers: ['c'],
      oldestAgeSeconds: 40,
    });
  });
});

describe('policy versions', () => {
  test('are exported one by one or together, and forgotten alike', async () => {
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    emitter.scalar({ r: 1 }, { policyVersion: 7 });
    emitter.scalar({ r: 5 }, { policyVersion: 8 });
    emitter.scalar({ r: 9 });
    await emitter.flush();
    expect(ingest.policyVersions()).toEqual([7, 8]);
    expect(ingest.export({ reset: false })).toMatchObject({ r: 5, r__count: 3 });
    expect(ingest.export({ policyVersion: 7 })).toMatchObject({ r: 1, r__count: 1 });
    expect(ingest.export({ policyVersion: 7 })).not.toHaveProperty('r');
    expect(ingest.policyVersions()).toEqual([8]);
    expect(ingest.export()).toMatchObject({ r: 7, r__count: 2 });
    expect(ingest.policyVersions()).toEqual([]);
  });

  test('leave the health of the stream to the export that forgets the last of them', async () => {
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    emitter.scalar({ r: 1 }, { policyVersion: 7 });
    emitter.scalar({ r: 5 }, { policyVersion: 8 });
    await emitter.flush();
    const seen = { 'stream/workers_seen': 1 };
    expect(ingest.export({ policyVersion: 7 })).toMatchObject({ ...seen, r: 1 });
    expect(ingest.export({ policyVersion: 8 })).toMatchObject({ ...seen, r: 5 });
    expect(ingest.export()).toMatchObject({ 'stream/workers_seen': 0, 'stream/merged': 0 });
  });

  test('without a row are none that an export could have', async () => {
    const mailbox = new Mailbox();
    await new StreamEmitter(mailbox, { workerId: 'w' }).close();
    const ingest = new StreamIngest();
    ingest.receive(encodeDelta({ ...decodeDelta(mailbox.deltas[0]!), policyVersion: 5 }));
    expect(ingest.health().merged).toBe(1);
    expect(ingest.policyVersions()).toEqual([]);
  });

  test('that nobody exports join the records without one, oldest first, so that memory is bounded', async () => {
    const ingest = new StreamIngest({ maxPolicyVersions: 2 });
    const mailbox = new Mailbox();
    const emitter = new StreamEmitter(mailbox, { workerId: 'w', maxPolicyVersions: 3 });
    for (const policyVersion of [5, 6, 4, 3, 7]) emitter.scalar({ r: policyVersion }, { policyVersion });
    expect(emitter.status().waitingRows).toBe(4);
    await emitter.flush();
    expect(mailbox.deltas).toHaveLength(4);
    for (const delta of mailbox.deltas) ingest.receive(delta);
    expect(ingest.policyVersions()).toEqual([6, 7]);
    expect(ingest.export({ policyVersion: 6 })).toMatchObject({ r: 6, r__count: 1 });
    expect(ingest.export()).toMatchObject({ r: 19 / 4, r__count: 4 });
  });
});
