/** The worker's end: what it records, when it flushes, and how it ends. Delivery itself is in `delivery.test.ts`. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { KeyConflictError, ValueError } from '../../../../src/errors.js';
import { liftRow } from '../../../../src/rows/row.js';
import { StatsTracker } from '../../../../src/tracker/index.js';
import { decodeDelta } from '../../../../src/tracker/stream/wire/delta-reader.js';
import { StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { StreamError } from '../../../../src/tracker/stream/errors.js';
import { InProcessTransport } from '../../../../src/tracker/stream/in-process-transport.js';
import { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import type { StreamRow } from '../../../../src/tracker/stream/wire/schema.js';
import type { DeltaAck } from '../../../../src/tracker/stream/transport.js';
import { Mailbox, recordsOf, transport } from './workers.js';

const accepted: DeltaAck = { status: 'accepted' };

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe('recording', () => {
  test('is atomic: a call that is refused has recorded nothing', async () => {
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    emitter.scalar({ a: 1 });
    expect(() => {
      emitter.scalar({ a: 3, b: null as unknown as number });
    }).toThrow(ValueError);
    expect(() => {
      emitter.counter({ n: 1, a: 1 });
    }).toThrow(KeyConflictError);
    expect(() => {
      emitter.counter({ n: 1, m: -1 });
    }).toThrow('m: expected a finite number from 0, got the number -1; record measurements with scalar()');
    expect(() => {
      emitter.merge([
        { key: 'r', reduction: 'avg', row: liftRow(1) },
        { key: 's', reduction: 'avg', row: { ...liftRow(1), count: -1 } },
      ]);
    }).toThrow(ValueError);
    await emitter.flush();
    expect(recordsOf(ingest)).toEqual({ a: 1, a__count: 1 });
  });

  test.each<[string, (emitter: StreamEmitter) => void]>([
    [
      'a name that another key exports',
      (e) => {
        e.counter({ a__count: 1 });
      },
    ],
    [
      'another reduction',
      (e) => {
        e.scalar({ a: 1 }, { reduceType: 'max' });
      },
    ],
    [
      'two reductions in one call',
      (e) => {
        e.merge((['sum', 'avg'] as const).map((reduction) => ({ key: 'x', reduction, row: liftRow(1) })));
      },
    ],
    [
      'a name twice in one call',
      (e) => {
        e.merge(['y', 'y__count'].map((key) => ({ key, reduction: 'scalar', row: liftRow(1) }) as const));
      },
    ],
  ])('refuses %s', (_what, record) => {
    const emitter = new StreamEmitter(new Mailbox(), { workerId: 'w' });
    emitter.scalar({ a: 1 });
    expect(() => {
      record(emitter);
    }).toThrow(KeyConflictError);
    expect(emitter.status().waitingRows).toBe(1);
  });

  test.each<[string, (emitter: StreamEmitter) => void]>([
    [
      'more keys than maxKeys',
      (e) => {
        e.scalar({ b: 1, c: 1 });
      },
    ],
    [
      'an empty key',
      (e) => {
        e.scalar({ '': 1 });
      },
    ],
    [
      'a key that UTF-8 cannot write',
      (e) => {
        e.scalar({ '\ud800': 1 });
      },
    ],
    [
      'a reduction that does not travel',
      (e) => {
        e.merge([{ key: 'b', reduction: 'last', row: liftRow(1) } as never]);
      },
    ],
    [
      'a denominator of numbers',
      (e) => {
        e.scalar({ b: 1 }, { reduceType: 'denominator' as never });
      },
    ],
    [
      'half a policy version',
      (e) => {
        e.scalar({ a: 1 }, { policyVersion: 0.5 });
      },
    ],
  ])('refuses %s', (_what, record) => {
    const emitter = new StreamEmitter(new Mailbox(), { workerId: 'w', maxKeys: 2 });
    emitter.scalar({ a: 1 });
    expect(() => {
      record(emitter);
    }).toThrow(ValueError);
  });

  test('refuses a key that is too long when it is recorded, in bytes of UTF-8, and delivers the rest', async () => {
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    const longest = 'é'.repeat(511) + 'xx';
    emitter.counter({ [longest]: 1 });
    expect(() => {
      emitter.counter({ n: 1, ['é'.repeat(512) + 'x']: 1 });
    }).toThrow('expected a key of at most 1024 bytes of UTF-8, got 1025 bytes');
    emitter.counter({ m: true });
    await emitter.close();
    expect(recordsOf(ingest)).toEqual({ m: 1, [longest]: 1 });
  });

  test('takes rows whose counts are sums of weights', async () => {
    const tracker = new StatsTracker();
    const weighted = [
      [1, 0.1],
      [3, 0.2],
      [NaN, 0.3],
      [Infinity, 0.7],
    ] as const;
    for (const [x, weight] of weighted) tracker.scalar({ all: x }, { weight });
    for (const [x, weight] of weighted.slice(0, 2)) tracker.scalar({ finite: x }, { weight });
    for (const [x, weight] of weighted.slice(2)) tracker.scalar({ broken: x }, { weight });
    // 0.1 + 0.2 is more than its parts, 0.7 + 0.1 is less.
    tracker.scalar({ more: NaN, less: NaN }, { weight: 0.1 });
    tracker.scalar({ more: Infinity }, { weight: 0.2 });
    tracker.scalar({ less: Infinity }, { weight: 0.7 });
    const expected = await tracker.export({ reset: false });
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    emitter.merge(await tracker.rows());
    await emitter.flush();
    expect(recordsOf(ingest)).toEqual(expected);
    expect(expected.finite__count).toBe(0.1 + 0.2);
  });

  test('takes booleans, and counts integers exactly beyond 2^24', async () => {
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    emitter.scalar({ ok: true });
    emitter.scalar({ ok: false });
    emitter.counter({ tokens: 2 ** 53 - 2 });
    emitter.counter({ tokens: 1 });
    await emitter.flush();
    expect(recordsOf(ingest)).toEqual({ ok: 0.5, ok__count: 2, tokens: 2 ** 53 - 1 });
  });
});

describe('the timer', () => {
  test('flushes every flushIntervalMs and stops with close', async () => {
    vi.useFakeTimers();
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), {
      workerId: 'w',
      flushIntervalMs: 500,
    });
    emitter.scalar({ a: 1 });
    await vi.advanceTimersByTimeAsync(499);
    expect(recordsOf(ingest)).toEqual({});
    await vi.advanceTimersByTimeAsync(1);
    expect(recordsOf(ingest)).toEqual({ a: 1, a__count: 1 });
    await emitter.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('does not keep the process alive', () => {
    const unref = vi.spyOn(
      Object.getPrototypeOf(setInterval(() => 0, 1e6).unref()) as NodeJS.Timeout,
      'unref',
    );
    const emitter = new StreamEmitter(new Mailbox(), { workerId: 'w', flushIntervalMs: 500 });
    expect(unref).toHaveBeenCalledTimes(1);
    return emitter.close();
  });

  test('warns once per outage, or calls onError each time', async () => {
    vi.useFakeTimers();
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const errors: Error[] = [];
    let isDown = true;
    const send = (): DeltaAck => {
      if (isDown) throw new Error('down');
      return accepted;
    };
    const silent = new StreamEmitter(transport(send), { workerId: 'w', flushIntervalMs: 10 });
    const heard = new StreamEmitter(transport(send), {
      ...{ workerId: 'w', flushIntervalMs: 10 },
      onError: (error) => {
        errors.push(error);
        throw new Error('a handler that fails');
      },
    });
    silent.scalar({ a: 1 });
    await vi.advanceTimersByTimeAsync(30);
    expect(warnings).toHaveBeenCalledTimes(1);
    isDown = false;
    await vi.advanceTimersByTimeAsync(10);
    isDown = true;
    silent.scalar({ a: 1 });
    await vi.advanceTimersByTimeAsync(10);
    expect(warnings).toHaveBeenCalledTimes(2);
    heard.scalar({ a: 1 });
    isDown = true;
    await vi.advanceTimersByTimeAsync(20);
    expect(errors).toHaveLength(2);
    expect(errors[0]).toBeInstanceOf(StreamError);
    isDown = false;
    await Promise.all([silent.close(), heard.close()]);
  });
});

describe('close', () => {
  test('delivers what is left, says that it was the last, and refuses further records', async () => {
    const mailbox = new Mailbox();
    const emitter = new StreamEmitter(mailbox, { workerId: 'w' });
    emitter.scalar({ a: 1 });
    emitter.scalar({ a: 2 }, { policyVersion: 3 });
    await emitter.close();
    await emitter.close();
    expect(mailbox.deltas.map((delta) => decodeDelta(delta).isFinal)).toEqual([false, true]);
    expect(() => {
      emitter.scalar({ a: 1 });
    }).toThrow(StreamError);
  });

  test('says so with an empty delta when nothing is left', async () => {
    const mailbox = new Mailbox();
    await new StreamEmitter(mailbox, { workerId: 'w' }).close();
    expect(decodeDelta(mailbox.deltas[0]!)).toMatchObject({ isFinal: true, keyCount: 0, positions: [] });
  });

  test('that fails can be called again', async () => {
    const ingest = new StreamIngest();
    let failures = 2;
    const emitter = new StreamEmitter(
      transport((delta) => {
        if (failures-- > 0) throw new Error('down');
        return ingest.receive(delta);
      }),
      { workerId: 'w' },
    );
    emitter.scalar({ a: 1 });
    await expect(emitter.close()).rejects.toThrow(StreamError);
    await expect(emitter.close()).rejects.toThrow(StreamError);
    await emitter.close();
    expect(ingest.health()).toMatchObject({ merged: 1, silentWorkers: [], oldestAgeSeconds: undefined });
    expect(recordsOf(ingest)).toEqual({ a: 1, a__count: 1 });
  });
});

describe('emitters of one process', () => {
  test('have epochs of their own, so that two of one name are not taken for one', async () => {
    vi.useFakeTimers();
    const mailbox = new Mailbox();
    for (let i = 0; i < 5; i++) await new StreamEmitter(mailbox, { workerId: 'w' }).close();
    const epochs = mailbox.deltas.map((delta) => decodeDelta(delta).epoch);
    expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
    expect(epochs).toHaveLength(5);
  });

  test('refuse invalid options and transports', () => {
    const make =
      (given: object, sender: unknown = new Mailbox()) =>
      () =>
        new StreamEmitter(sender as Mailbox, { workerId: 'w', ...given });
    for (const workerId of ['', '\udfff', 'x'.repeat(1025)]) expect(make({ workerId })).toThrow(ValueError);
    for (const sendTimeoutMs of [0, -1, 0.5, 2 ** 31]) expect(make({ sendTimeoutMs })).toThrow(ValueError);
    expect(make({ maxKeys: 70_000 })).toThrow('an integer from 1 to 65535');
    expect(make({}, { send: () => accepted, delivery: 'maybe' })).toThrow(
      "transport.delivery: expected 'direct'",
    );
  });

  test('merge rows that another stream has collected', async () => {
    const [leaf, root] = [new StreamIngest(), new StreamIngest()];
    const worker = new StreamEmitter(new InProcessTransport(leaf), { workerId: 'w' });
    worker.scalar({ a: 1 });
    worker.scalar({ a: 3 });
    await worker.flush();
    const rows: StreamRow[] = leaf.rows();
    expect(rows).toMatchObject([
      { key: 'a', reduction: 'scalar', row: { count: 2, sum: 4, m2: 2, min: 1, max: 3 } },
    ]);
    const relay = new StreamEmitter(new InProcessTransport(root), { workerId: 'leaf-0' });
    relay.merge(rows);
    await relay.flush();
    expect(recordsOf(root)).toEqual({ a: 2, a__count: 2 });
    expect(leaf.rows()).toEqual([]);
  });
});
