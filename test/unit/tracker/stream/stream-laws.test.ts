/**
 * Laws of a stream: what arrives, in whatever order and however often, is counted once, and how records are spread over
 * workers, deltas and controllers does not matter.
 *
 * Samples are integers, so sums and counts are exact in any order and have to be equal.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { StreamError } from '../../../../src/tracker/stream/errors.js';
import { InProcessTransport } from '../../../../src/tracker/stream/in-process-transport.js';
import { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import { SEQUENCE_WINDOW } from '../../../../src/tracker/stream/workers/sequence-window.js';
import { deltasOf, recordsOf, transport } from './workers.js';

const integers = (maxLength: number): fc.Arbitrary<number[]> =>
  fc.array(fc.integer({ min: -1e6, max: 1e6 }), { maxLength });

function totalOf(values: readonly number[]): Record<string, number> {
  if (values.length === 0) return {};
  return {
    'rollout/reward': values.reduce((a, b) => a + b, 0) / values.length,
    'rollout/reward__count': values.length,
  };
}

describe('a stream', () => {
  test('counts whatever arrives once, in any order, and misses exactly what does not', async () => {
    const arrivals = fc.record({
      lives: fc.array(integers(SEQUENCE_WINDOW), { minLength: 1, maxLength: 5 }),
      seed: fc.infiniteStream(fc.nat(1000)),
    });
    await fc.assert(
      fc.asyncProperty(arrivals, async ({ lives, seed }) => {
        const random = (): number => seed.next().value as number;
        // Workers 0 and 1 with up to two lives each, worker 2 with one: as many as are remembered.
        const sent = (
          await Promise.all(
            lives.map(async (values, i) => {
              const deltas = await deltasOf(values, { workerId: `w${i % 3}`, epoch: i + 1 });
              return deltas.map((delta, at) => ({ life: i, at, value: values[at]!, delta }));
            }),
          )
        ).flat();
        const copies = sent.flatMap((one) =>
          Array.from({ length: [0, 1, 1, 1, 3][random() % 5]! }, () => one),
        );
        const arriving = copies
          .map((one) => ({ one, key: random() }))
          .sort((a, b) => a.key - b.key)
          .map(({ one }) => one);
        const ingest = new StreamIngest();
        for (const { delta } of arriving) expect(ingest.receive(delta)).toEqual({ status: 'accepted' });
        const arrived = new Set(arriving);
        const missing = lives.reduce((total, _values, life) => {
          const came = [...arrived].filter((one) => one.life === life).map(({ at }) => at);
          return total + (came.length === 0 ? 0 : Math.max(...came) + 1 - came.length);
        }, 0);
        expect(ingest.health()).toMatchObject({
          merged: arrived.size,
          duplicates: arriving.length - arrived.size,
          missing,
          lost: 0,
          stale: 0,
        });
        expect(recordsOf(ingest)).toEqual(totalOf([...arrived].map(({ value }) => value)));
      }),
      { numRuns: 150 },
    );
  });

  test('delivers everything once over a transport that loses, repeats, delays and answers in vain', async () => {
    const faults = fc.array(fc.constantFrom('fine', 'lost', 'unanswered', 'repeated', 'late'), {
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(integers(40), faults, fc.boolean(), async (values, script, restarts) => {
        let ingest = new StreamIngest();
        const late: Uint8Array[] = [];
        const emitter = new StreamEmitter(
          transport((delta) => {
            const fault = script.shift() ?? 'fine';
            if (fault === 'lost') throw new Error('lost on the way');
            if (fault === 'late') {
              late.push(delta);
              throw new Error('not there yet');
            }
            const answer = ingest.receive(delta);
            if (fault === 'repeated') ingest.receive(delta);
            if (fault === 'unanswered') throw new Error('the answer was lost');
            for (const old of late.splice(0)) ingest.receive(old);
            return answer;
          }),
          { workerId: 'w' },
        );
        let before: Record<string, number> = {};
        for (const [i, reward] of values.entries()) {
          emitter.scalar({ 'rollout/reward': reward });
          if (i % 3 === 0) await emitter.flush().catch(asStreamError);
          if (restarts && i === 20) {
            // A controller that stops takes what it exported along; what was not acknowledged goes to the next one.
            await flushUntilDone(emitter);
            before = recordsOf(ingest);
            ingest = new StreamIngest({ joinsMidway: true });
          }
        }
        await flushUntilDone(emitter);
        for (const old of late) ingest.receive(old);
        const after = recordsOf(ingest);
        const count = (before['rollout/reward__count'] ?? 0) + (after['rollout/reward__count'] ?? 0);
        expect(count).toBe(values.length);
        if (!restarts) expect(after).toEqual(totalOf(values));
        expect(ingest.health()).toMatchObject({ missing: 0, lost: 0, stale: 0 });
      }),
      { numRuns: 200 },
    );
  });

  test('does not show how records are spread over workers, flushes and levels of controllers', async () => {
    const spread = fc.array(
      fc.record({ value: fc.integer({ min: -1000, max: 1000 }), worker: fc.nat(5), flush: fc.boolean() }),
      { maxLength: 60 },
    );
    await fc.assert(
      fc.asyncProperty(spread, async (records) => {
        const root = new StreamIngest();
        const leaves = [new StreamIngest(), new StreamIngest()];
        const relays = leaves.map(
          (_, i) => new StreamEmitter(new InProcessTransport(root), { workerId: `leaf-${i}` }),
        );
        const workers = Array.from(
          { length: 6 },
          (_, i) => new StreamEmitter(new InProcessTransport(leaves[i % 2]!), { workerId: `w${i}` }),
        );
        const relay = async (i: number): Promise<void> => {
          relays[i]!.merge(leaves[i]!.rows());
          await relays[i]!.flush();
        };
        for (const { value, worker, flush } of records) {
          workers[worker]!.scalar({ 'rollout/reward': value });
          workers[worker]!.scalar({ 'rollout/range': value }, { reduceType: 'avg_min_max' });
          workers[worker]!.counter({ 'rollout/samples': 1 });
          if (flush) await workers[worker]!.flush();
          if (flush && value % 3 === 0) await relay(worker % 2);
        }
        await Promise.all(workers.map((worker) => worker.close()));
        await relay(0);
        await relay(1);
        const values = records.map(({ value }) => value);
        const whole = totalOf(values);
        const expected =
          values.length === 0
            ? {}
            : {
                ...whole,
                'rollout/range/avg': whole['rollout/reward'],
                'rollout/range/min': Math.min(...values),
                'rollout/range/max': Math.max(...values),
                'rollout/samples': values.length,
              };
        expect(recordsOf(root)).toEqual(expected);
      }),
      { numRuns: 100 },
    );
  });
});

function asStreamError(error: unknown): void {
  expect(error).toBeInstanceOf(StreamError);
}

/** The script of faults is finite, so the last flush succeeds. */
async function flushUntilDone(emitter: StreamEmitter): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    await emitter.flush().catch(asStreamError);
    const { waitingRows, unacknowledged } = emitter.status();
    if (waitingRows + unacknowledged === 0) return;
  }
  throw new Error('the stream is not delivered');
}
