/** Scopes where they could leak or get lost: generators, timers, events, other threads, any interleaving of tasks. */
import { EventEmitter } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { MessageChannel, Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StatsTracker } from '../../../src/tracker/index.js';

async function names(tracker: StatsTracker): Promise<string[]> {
  return Object.keys(await tracker.export()).filter((name) => !name.endsWith('__count'));
}

describe('a scope', () => {
  it('is that of the caller inside a generator, which runs where it is asked', async () => {
    const tracker = new StatsTracker();
    function* steps(): Generator<void> {
      tracker.scalar({ first: 1 });
      yield;
      tracker.scalar({ second: 1 });
    }
    const running = tracker.scope('made', () => steps());
    tracker.scope('a', () => running.next());
    tracker.scope('b', () => running.next());
    tracker.scalar({ after: 1 });
    expect(await names(tracker)).toEqual(['a/first', 'after', 'b/second']);
  });

  it('opened around a yield closes with its function, not with the generator', async () => {
    const tracker = new StatsTracker();
    function* steps(): Generator<void> {
      for (const name of ['x', 'y']) {
        tracker.scope(name, () => {
          tracker.scalar({ inside: 1 });
        });
        yield;
        tracker.scalar({ between: 1 });
      }
    }
    for (const step of steps()) {
      expect(step).toBeUndefined();
      tracker.scalar({ caller: 1 });
    }
    expect(await names(tracker)).toEqual(['between', 'caller', 'x/inside', 'y/inside']);
  });

  it('of an async generator is that of whoever drives it', async () => {
    const tracker = new StatsTracker();
    async function* steps(): AsyncGenerator<number> {
      for (let i = 0; i < 2; i++) {
        await nextTurn();
        tracker.scalar({ x: i });
        yield i;
      }
    }
    await tracker.scope('driver', async () => {
      for await (const i of steps()) tracker.scalar({ seen: i });
    });
    expect(await names(tracker)).toEqual(['driver/seen', 'driver/x']);
  });

  it('follows timers, immediates, microtasks and ports that are set inside', async () => {
    const tracker = new StatsTracker();
    const done: Promise<void>[] = [];
    const once = (name: string, set: (callback: () => void) => void) => {
      const ended = new Promise<void>((resolve) => {
        set(() => {
          tracker.scalar({ [name]: 1 });
          resolve();
        });
      });
      done.push(ended);
    };
    tracker.scope('a', () => {
      once('timeout', (callback) => setTimeout(callback, 0));
      once('immediate', (callback) => setImmediate(callback));
      once('microtask', queueMicrotask);
      once('tick', (callback) => {
        process.nextTick(callback);
      });
    });
    tracker.scalar({ outside: 1 });
    await Promise.all(done);
    expect(await names(tracker)).toEqual(['a/immediate', 'a/microtask', 'a/tick', 'a/timeout', 'outside']);
  });

  it('of an event is that of who emits it, not of who listens', async () => {
    const tracker = new StatsTracker();
    const events = new EventEmitter();
    tracker.scope('listener', () => {
      events.on('step', () => {
        tracker.scalar({ x: 1 });
      });
    });
    tracker.scope('emitter', () => {
      events.emit('step');
    });
    expect(await names(tracker)).toEqual(['emitter/x']);
  });

  it('does not cross into another thread, nor come back from one', async () => {
    const tracker = new StatsTracker();
    const worker = new Worker(
      "require('node:worker_threads').parentPort.on('message', (port) => port.postMessage(1))",
      {
        eval: true,
      },
    );
    const answered = tracker.scope('asking', () => {
      const { port1, port2 } = new MessageChannel();
      const answer = new Promise<void>((resolve) => {
        port1.once('message', () => {
          port1.close();
          resolve();
        });
      });
      worker.postMessage(port2, [port2]);
      return answer.then(() => {
        tracker.scalar({ answered: 1 });
      });
    });
    tracker.scope('meanwhile', () => {
      tracker.scalar({ x: 1 });
    });
    await answered;
    await worker.terminate();
    tracker.scalar({ after: 1 });
    expect(await names(tracker)).toEqual(['after', 'asking/answered', 'meanwhile/x']);
  });

  it('that is left by a throw inside another scope leaves that one as it was', async () => {
    const tracker = new StatsTracker();
    await tracker.scope('outer', async () => {
      for (const fails of [true, false]) {
        const inner = tracker.scope('inner', async () => {
          await nextTurn();
          if (fails) throw new Error('boom');
          tracker.scalar({ x: 1 });
        });
        await inner.catch(() => undefined);
        tracker.scalar({ y: 1 });
      }
    });
    expect(await names(tracker)).toEqual(['outer/inner/x', 'outer/y']);
  });
});

/** What a task does between two turns. */
type Move = { readonly enter: string } | { readonly record: true } | { readonly start: readonly Move[] };

const moves: fc.Arbitrary<readonly Move[]> = fc.letrec<{ moves: readonly Move[] }>((tie) => ({
  moves: fc.array(
    fc.oneof(
      { maxDepth: 2, withCrossShrink: true },
      { weight: 3, arbitrary: fc.constant<Move>({ record: true }) },
      { weight: 3, arbitrary: fc.constantFrom('a', 'b', 'c').map((enter): Move => ({ enter })) },
      { weight: 1, arbitrary: tie('moves').map((start): Move => ({ start })) },
    ),
    { maxLength: 5 },
  ),
})).moves;

describe('any number of tasks, interleaved in any order', () => {
  it('each record under the scopes that its own task has open', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(moves, { minLength: 1, maxLength: 4 }), fc.scheduler(), async (tasks, s) => {
        const tracker = new StatsTracker();
        const expected = new Map<string, number>();
        const running: Promise<void>[] = [];
        const play = async (todo: readonly Move[], path: string): Promise<void> => {
          const [move, ...rest] = todo;
          if (move === undefined) return;
          await s.schedule(Promise.resolve());
          if ('record' in move) {
            tracker.counter({ n: 1 });
            expected.set(`${path}n`, (expected.get(`${path}n`) ?? 0) + 1);
          } else if ('start' in move) {
            running.push(play(move.start, path));
          } else {
            // The rest of the task happens inside; nobody outside waits for what it starts.
            await tracker.scope(move.enter, () => play(rest, `${path}${move.enter}/`));
            return;
          }
          await play(rest, path);
        };
        running.push(...tasks.map((todo) => play(todo, '')));
        await s.waitIdle();
        await Promise.all(running);
        const sorted = [...expected].sort(([a], [b]) => (a < b ? -1 : 1));
        expect(await tracker.export()).toEqual(Object.fromEntries(sorted));
      }),
      { numRuns: 100 },
    );
  });
});
