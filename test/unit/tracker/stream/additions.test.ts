/** New keys travel alone, to a controller that has the others. */
import { describe, expect, test } from 'vitest';
import { decodeDelta } from '../../../../src/tracker/stream/wire/delta-reader.js';
import { encodeDelta } from '../../../../src/tracker/stream/wire/delta.js';
import { StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import { Mailbox, recordsOf, transport } from './workers.js';

const keyOf = (i: number): string => `rollout/tool_${String(i).padStart(5, '0')}/calls_per_episode`;

describe('deltas of a worker with new keys', () => {
  test('to the controller itself name each key once, however many flushes there are', async () => {
    const ingest = new StreamIngest();
    const sent: Uint8Array[] = [];
    const emitter = new StreamEmitter(
      transport((delta) => {
        sent.push(delta);
        return ingest.receive(delta);
      }),
      { workerId: 'w' },
    );
    const keys = Array.from({ length: 600 }, (_, i) => keyOf((i * 7919) % 600));
    for (const key of keys) {
      emitter.counter({ [key]: 1 });
      await emitter.flush();
    }
    expect(sent).toHaveLength(keys.length);
    const names = sent.reduce((total, bytes) => total + (decodeDelta(bytes).definitions?.length ?? 0), 0);
    expect(names).toBe(keys.length);
    // Two bits a key, a row, one name.
    const bytes = sent.reduce((total, delta) => total + delta.length, 0);
    expect(bytes).toBeLessThan(keys.length * (keys.length / 8 + 200));
    expect(recordsOf(ingest)).toEqual(Object.fromEntries([...keys].sort().map((key) => [key, 1])));
  });

  test('to a broker name the keys of their own rows, and can come in any order or not at all', async () => {
    const mailbox = new Mailbox();
    const emitter = new StreamEmitter(mailbox, { workerId: 'w' });
    for (let i = 0; i < 20; i++) {
      emitter.counter({ [keyOf(i)]: 1 });
      await emitter.flush();
    }
    for (const bytes of mailbox.deltas)
      expect(decodeDelta(bytes)).toMatchObject({ keyCount: 1, parent: undefined });
    const ingest = new StreamIngest();
    for (const bytes of mailbox.deltas.filter((_, i) => i % 3 > 0).reverse()) {
      expect(ingest.receive(bytes)).toEqual({ status: 'accepted' });
    }
    expect(Object.keys(recordsOf(ingest))).toHaveLength(13);
  });

  test('to a controller that has forgotten the schema come again with all keys', async () => {
    let ingest = new StreamIngest();
    const emitter = new StreamEmitter(
      transport((delta) => ingest.receive(delta)),
      { workerId: 'w' },
    );
    emitter.counter({ b: 1 });
    await emitter.flush();
    ingest = new StreamIngest({ joinsMidway: true });
    emitter.counter({ a: 1, b: 1 });
    await emitter.flush();
    emitter.counter({ c: 5, a: 1 });
    await emitter.flush();
    expect(ingest.health()).toMatchObject({ merged: 2, refused: 0 });
    expect(recordsOf(ingest)).toEqual({ a: 2, b: 1, c: 5 });
  });

  test('lose nothing where a controller forgets, before the delta that adds keys, the schema that it adds to', async () => {
    const ingest = new StreamIngest({ maxSchemas: 1 });
    const answers: string[] = [];
    const received: string[] = [];
    const emitter = new StreamEmitter(
      transport((delta) => {
        const answer = ingest.receive(delta);
        answers.push(answer.status);
        received.push(`${decodeDelta(delta).parent === undefined ? 'all' : 'new'} keys`);
        return answer;
      }),
      { workerId: 'w' },
    );
    const other = new StreamEmitter(
      transport((delta) => ingest.receive(delta)),
      { workerId: 'other' },
    );
    emitter.counter({ a: 1 });
    await emitter.flush();
    other.counter({ x: 7 });
    await other.flush();
    emitter.counter({ a: 1, b: 3 });
    await emitter.flush();
    expect(answers).toEqual(['accepted', 'unknown_schema', 'accepted']);
    expect(received).toEqual(['all keys', 'new keys', 'all keys']);
    expect(ingest.health()).toMatchObject({ merged: 3, refused: 0, lost: 0, duplicates: 0 });
    expect(recordsOf(ingest)).toEqual({ a: 2, b: 3, x: 7 });
  });

  test('are refused where their keys do not fit those of the parent', async () => {
    const sent: Uint8Array[] = [];
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(
      transport((delta) => {
        sent.push(delta);
        return ingest.receive(delta);
      }),
      { workerId: 'w' },
    );
    for (const key of ['a', 'b']) {
      emitter.counter({ [key]: 1 });
      await emitter.flush();
    }
    const second = decodeDelta(sent[1]!);
    expect(second).toMatchObject({ keyCount: 2, definitions: [{ key: 'b', reduction: 'counter' }] });
    const other = new StreamIngest({ joinsMidway: true });
    expect(other.receive(sent[1]!)).toEqual({ status: 'unknown_schema' });
    other.receive(sent[0]!);
    expect(other.receive(encodeDelta({ ...second, keyCount: 3 })).status).toBe('refused');
    expect(other.receive(sent[1]!)).toEqual({ status: 'accepted' });
    expect(encodeDelta(second)).toEqual(sent[1]);
  });
});
