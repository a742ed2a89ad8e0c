/** What a callback returns is begun where the callback ran: lazy thenables record in its scope and context. */
import { describe, expect, it } from 'vitest';
import { Pending, collect } from '../../../src/kernels/index.js';
import { StatsTracker, TrackerRegistry, rolloutScope, withRollout } from '../../../src/tracker/index.js';

/** A query of some library: does its work when it is awaited, and not before. */
class Lazy<T> implements PromiseLike<T> {
  readonly #work: () => T | Promise<T>;

  constructor(work: () => T | Promise<T>) {
    this.#work = work;
  }

  then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return new Promise<T>((resolve) => {
      resolve(this.#work());
    }).then(onFulfilled, onRejected);
  }
}

/** The same as a subclass of Promise. */
class LazyPromise<T> extends Promise<T> {
  work: (() => T) | undefined;

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return Promise.resolve(this.work!()).then(onFulfilled, onRejected);
  }
}

const recording = (record: () => number): PromiseLike<number>[] => [
  new Lazy(record),
  new Lazy(async () => {
    await Promise.resolve();
    return record();
  }),
  Object.assign(new LazyPromise<number>(() => undefined), { work: record }),
];

describe('a lazy thenable', () => {
  it('records in the scope that it was returned from', async () => {
    const tracker = new StatsTracker();
    const record = (): number => {
      tracker.scalar({ k: 1 });
      return 5;
    };
    for (const lazy of recording(record)) {
      expect(await tracker.scope('a', () => lazy)).toBe(5);
      expect(await tracker.child('b').scope('c', () => tracker.scope('d', () => lazy))).toBe(5);
    }
    expect(await tracker.export()).toEqual({ 'a/k': 1, 'a/k__count': 3, 'd/k': 1, 'd/k__count': 3 });
  });

  it('records at the root where scopes are disabled, and in the rollout that it belongs to', async () => {
    const tracker = new StatsTracker('t');
    const record = (): number => {
      tracker.scalar({ [rolloutScope()]: 1 });
      return 5;
    };
    for (const lazy of recording(record)) {
      expect(await tracker.scope('a', () => tracker.disableScope(() => lazy))).toBe(5);
      expect(await withRollout({ isEval: true }, () => lazy)).toBe(5);
    }
    expect(await tracker.export()).toMatchObject({ rollout__count: 3, 't/eval-rollout__count': 3 });
  });

  it('records in the scopes of a registry and of a timing, and rejects as it does', async () => {
    const tracker = new TrackerRegistry().get('');
    const boom = new Error('boom');
    const failing = new Lazy<number>(() => {
      tracker.scalar({ k: 1 });
      throw boom;
    });
    await expect(tracker.scope('a', () => tracker.recordTiming('x', () => failing))).rejects.toBe(boom);
    await expect(tracker.scope('a', () => failing)).rejects.toBe(boom);
    const odd: PromiseLike<number> = {
      then: () => {
        throw boom;
      },
    };
    await expect(tracker.scope('a', () => odd)).rejects.toBe(boom);
    expect(await tracker.export()).toMatchObject({ 'a/k__count': 2 });
  });
});

describe('what is no lazy thenable', () => {
  it('is returned as it is: promises, results that wait on a device, and all else', async () => {
    const tracker = new StatsTracker();
    const promise = Promise.resolve(1);
    const pending = Pending.of(2);
    for (const value of [promise, pending, 5, undefined, null, { then: 1 }]) {
      expect(tracker.scope('a', () => value)).toBe(value);
      expect(tracker.disableScope(() => value)).toBe(value);
      expect(withRollout({ isEval: true }, () => value)).toBe(value);
    }
    expect(await collect(tracker.scope('a', () => pending))).toEqual([2]);
  });
});
