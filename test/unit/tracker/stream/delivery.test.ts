/** Everything that was recorded is delivered at least once, in bounded memory, with few bytes. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { KeyConflictError } from '../../../../src/errors.js';
import { decodeDelta } from '../../../../src/tracker/stream/wire/delta-reader.js';
import { StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { StreamError } from '../../../../src/tracker/stream/errors.js';
import { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import type { DeltaAck } from '../../../../src/tracker/stream/transport.js';
import { Mailbox, recordsOf, transport } from './workers.js';

const accepted: DeltaAck = { status: 'accepted' };

/** A promise and its ends. */
function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (error: Error) => void } {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('flush', () => {
  test('sends nothing when nothing was recorded, and one delta for any number of records', async () => {
    const mailbox = new Mailbox();
    const emitter = new StreamEmitter(mailbox, { workerId: 'w' });
    await emitter.flush();
    expect(mailbox.deltas).toHaveLength(0);
    for (let i = 0; i < 1000; i++) emitter.scalar({ a: i });
    await emitter.flush();
    expect(mailbox.deltas).toHaveLength(1);
    expect(emitter.status()).toEqual({
      waitingRows: 0,
      unacknowledged: 0,
      delivered: 1,
      failures: 0,
      refused: 0,
    });
  });

  test('that fails keeps the delta with its number and content; the next one repeats it before anything new', async () => {
    const sent: Uint8Array[] = [];
    let isDown = true;
    const emitter = new StreamEmitter(
      transport((delta) => {
        sent.push(delta);
        if (isDown) throw new Error('ECONNREFUSED');
        return accepted;
      }),
      { workerId: 'w' },
    );
    emitter.scalar({ a: 1 });
    const failure = await emitter.flush().catch((error: unknown) => error as StreamError);
    expect(failure).toBeInstanceOf(StreamError);
    expect((failure as StreamError).message).toContain('ECONNREFUSED');
    expect((failure as StreamError).cause).toBeInstanceOf(Error);
    emitter.scalar({ a: 5 });
    await expect(emitter.flush()).rejects.toThrow(StreamError);
    emitter.scalar({ a: 7 });
    isDown = false;
    await emitter.flush();
    expect(sent[1]).toEqual(sent[0]);
    expect(sent[2]).toEqual(sent[0]);
    const last = decodeDelta(sent[3]!);
    expect(last.seq).toBe(2);
    expect(last.rows.row(0)).toMatchObject({ count: 2, sum: 12 });
    expect(sent).toHaveLength(4);
    expect(emitter.status()).toMatchObject({ delivered: 2, failures: 2, unacknowledged: 0 });
  });

  test('during an outage holds one delta and one row per key, however much is recorded', async () => {
    const emitter = new StreamEmitter(
      transport(() => {
        throw new Error('down');
      }),
      { workerId: 'w' },
    );
    for (let round = 0; round < 50; round++) {
      for (let i = 0; i < 100; i++) emitter.scalar({ a: i, b: i });
      await expect(emitter.flush()).rejects.toThrow(StreamError);
    }
    expect(emitter.status()).toMatchObject({ waitingRows: 2, unacknowledged: 1, failures: 50 });
  });

  test('serves calls that are made while it runs together, and covers what each has recorded', async () => {
    const gates = [deferred<DeltaAck>(), deferred<DeltaAck>()];
    const sent: Uint8Array[] = [];
    const emitter = new StreamEmitter(
      transport((delta) => gates[sent.push(delta) - 1]!.promise),
      { workerId: 'w' },
    );
    emitter.scalar({ a: 1 });
    const first = emitter.flush();
    await vi.waitFor(() => {
      expect(sent).toHaveLength(1);
    });
    emitter.scalar({ a: 2 });
    const second = emitter.flush();
    emitter.scalar({ a: 3 });
    const third = emitter.flush();
    gates[0]!.resolve(accepted);
    await first;
    gates[1]!.resolve(accepted);
    await Promise.all([second, third]);
    expect(sent.map((delta) => decodeDelta(delta).rows.row(0).count)).toEqual([1, 2]);
  });

  test('keeps the process alive for an answer only while somebody waits for it', async () => {
    vi.useFakeTimers();
    const deadlines = vi.spyOn(globalThis, 'setTimeout');
    const silent = transport(() => new Promise<DeltaAck>(() => undefined));
    const emitter = new StreamEmitter(silent, {
      ...{ workerId: 'w', flushIntervalMs: 1000, sendTimeoutMs: 5000 },
      onError: () => undefined,
    });
    emitter.scalar({ a: 1 });
    await vi.advanceTimersByTimeAsync(1000);
    expect(deadlines).toHaveBeenCalledTimes(1);
    const deadline = deadlines.mock.results[0]!.value as NodeJS.Timeout;
    expect(deadline.hasRef()).toBe(false);
    const asked = emitter.flush();
    expect(deadline.hasRef()).toBe(true);
    const failed = expect(asked).rejects.toThrow(StreamError);
    await vi.advanceTimersByTimeAsync(20_000);
    await failed;
    deadlines.mockRestore();
  });

  test('gives up waiting for an answer after sendTimeoutMs, tells the transport, and ignores a late answer', async () => {
    vi.useFakeTimers();
    const gate = deferred<DeltaAck>();
    const signals: AbortSignal[] = [];
    let answers = 0;
    const emitter = new StreamEmitter(
      transport((_delta, { signal }) => {
        signals.push(signal);
        return answers++ === 0 ? gate.promise : accepted;
      }),
      { workerId: 'w', sendTimeoutMs: 250 },
    );
    emitter.scalar({ a: 1 });
    const flushed = expect(emitter.flush()).rejects.toThrow('none within 250 ms');
    await vi.advanceTimersByTimeAsync(249);
    expect(signals[0]!.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await flushed;
    expect(signals[0]!.aborted).toBe(true);
    await emitter.flush();
    gate.reject(new Error('late'));
    await vi.advanceTimersByTimeAsync(0);
    expect(emitter.status()).toMatchObject({ delivered: 1, failures: 1, unacknowledged: 0 });
    expect(vi.getTimerCount()).toBe(0);
  });

  test.each([undefined, null, {}, { status: 'ok' }, { status: 'refused' }])(
    'takes %j for no answer',
    async (ack) => {
      const emitter = new StreamEmitter(
        transport(() => ack as DeltaAck),
        { workerId: 'w' },
      );
      emitter.scalar({ a: 1 });
      await expect(emitter.flush()).rejects.toThrow("an answer with status 'accepted'");
      expect(emitter.status().unacknowledged).toBe(1);
    },
  );

  test('drops what the controller refuses for good, says why, and goes on', async () => {
    const refusal = new KeyConflictError({ where: 'w', expected: 'e', received: 'r', remedy: 'm' });
    const answers: DeltaAck[] = [{ status: 'refused', error: refusal }, accepted];
    const emitter = new StreamEmitter(
      transport(() => answers.shift()!),
      { workerId: 'w' },
    );
    emitter.scalar({ a: 1 });
    await expect(emitter.flush()).rejects.toBe(refusal);
    emitter.scalar({ a: 2 });
    await emitter.flush();
    expect(emitter.status()).toMatchObject({ refused: 1, delivered: 1, unacknowledged: 0 });
  });

  test('that nobody waits for leaves no unhandled rejection', async () => {
    const unhandled: unknown[] = [];
    const listener = (error: unknown): void => {
      unhandled.push(error);
    };
    process.on('unhandledRejection', listener);
    try {
      const emitter = new StreamEmitter(
        transport(() => Promise.reject(new Error('down'))),
        { workerId: 'w' },
      );
      emitter.scalar({ a: 1 });
      void emitter.flush();
      void emitter.flush();
      await expect(emitter.flush()).rejects.toThrow(StreamError);
      // Node reports unhandled rejections after the microtasks, before the next timer.
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', listener);
    }
  });
});

describe('names on the wire', () => {
  test('go once, and again when keys are added; values alone otherwise', async () => {
    const named: boolean[] = [];
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(
      transport((delta) => {
        named.push(decodeDelta(delta).definitions !== undefined);
        return ingest.receive(delta);
      }),
      { workerId: 'w' },
    );
    for (const key of ['a', 'a', 'b', 'a', 'b']) {
      emitter.scalar({ [key]: 1 });
      await emitter.flush();
    }
    expect(named).toEqual([true, false, true, false, false]);
    expect(recordsOf(ingest)).toEqual({ a: 1, a__count: 3, b: 1, b__count: 2 });
  });

  test('go again when a controller asks, as one that was restarted does', async () => {
    let ingest = new StreamIngest();
    const emitter = new StreamEmitter(
      transport((delta) => ingest.receive(delta)),
      { workerId: 'w' },
    );
    emitter.scalar({ a: 1 });
    await emitter.flush();
    ingest = new StreamIngest({ joinsMidway: true });
    emitter.scalar({ a: 3 });
    await emitter.flush();
    expect(ingest.export()).toMatchObject({ a: 3, a__count: 1, 'stream/missing': 0, 'stream/lost': 0 });
    expect(emitter.status()).toMatchObject({ delivered: 2, failures: 0 });
  });

  test('go with every delta to a broker, which cannot ask', async () => {
    const mailbox = new Mailbox();
    const emitter = new StreamEmitter(mailbox, { workerId: 'w' });
    for (const a of [1, 2]) {
      emitter.scalar({ a });
      await emitter.flush();
    }
    const ingest = new StreamIngest();
    for (const delta of mailbox.deltas.reverse()) expect(ingest.receive(delta)).toEqual(accepted);
    expect(recordsOf(ingest)).toEqual({ a: 1.5, a__count: 2 });
  });

  test('asked for again and again are a failure, not a loop', async () => {
    const emitter = new StreamEmitter(
      transport(() => ({ status: 'unknown_schema' })),
      { workerId: 'w' },
    );
    emitter.scalar({ a: 1 });
    await expect(emitter.flush()).rejects.toThrow('that its schema is not known');
  });
});
