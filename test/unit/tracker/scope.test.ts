/** Scopes: paths follow the asynchronous context and nothing else. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ValueError } from '../../../src/errors.js';
import { StatsTracker } from '../../../src/tracker/index.js';

async function names(tracker: StatsTracker): Promise<string[]> {
  return Object.keys(await tracker.export()).filter((name) => !name.endsWith('__count'));
}

describe('scope', () => {
  it('returns what its function returns, a promise included', async () => {
    const tracker = new StatsTracker();
    expect(tracker.scope('a', () => 7)).toBe(7);
    const result = tracker.scope('a', async () => {
      await nextTurn();
      return 8;
    });
    expect(result).toBeInstanceOf(Promise);
    expect(await result).toBe(8);
  });

  it('is open after an await inside and closed outside while the function is still running', async () => {
    const tracker = new StatsTracker();
    const running = tracker.scope('a', async () => {
      await nextTurn();
      tracker.scalar({ inside: 1 });
    });
    tracker.scalar({ outside: 1 });
    await running;
    tracker.scalar({ after: 1 });
    expect(await names(tracker)).toEqual(['a/inside', 'after', 'outside']);
  });

  it('is kept by a task that nobody awaits', async () => {
    const tracker = new StatsTracker();
    let task: Promise<void> | undefined;
    tracker.scope('a', () => {
      task = (async () => {
        await nextTurn();
        tracker.scalar({ late: 1 });
      })();
    });
    tracker.scope('b', () => {
      tracker.scalar({ x: 1 });
    });
    await task;
    expect(await names(tracker)).toEqual(['a/late', 'b/x']);
  });

  it('ends when its function throws, at once or later', async () => {
    const tracker = new StatsTracker();
    const boom = new Error('boom');
    expect(() =>
      tracker.scope('a', () => {
        throw boom;
      }),
    ).toThrow(boom);
    await expect(
      tracker.scope('b', async () => {
        await nextTurn();
        throw boom;
      }),
    ).rejects.toBe(boom);
    tracker.scalar({ x: 1 });
    expect(await names(tracker)).toEqual(['x']);
  });

  it('nests, drops slashes at the ends and refuses names that are no text', async () => {
    const tracker = new StatsTracker('/root/');
    tracker.scope('/a/b/', () => {
      tracker.scope('c', () => {
        tracker.scalar({ x: 1 });
      });
      tracker.scope('//', () => {
        tracker.scalar({ y: 1 });
      });
    });
    expect(await names(tracker)).toEqual(['root/a/b/c/x', 'root/a/b/y']);
    expect(() => tracker.scope(undefined as unknown as string, () => 0)).toThrow(ValueError);
    expect(() => tracker.child(3 as unknown as string)).toThrow(ValueError);
    expect(() => new StatsTracker(null as unknown as string)).toThrow(ValueError);
  });

  it('of one tracker does not reach into another', async () => {
    const one = new StatsTracker('one');
    const two = new StatsTracker('two');
    one.scope('a', () => {
      two.scope('b', () => {
        one.scalar({ x: 1 });
        two.scalar({ x: 1 });
      });
    });
    expect(await names(one)).toEqual(['one/a/x']);
    expect(await names(two)).toEqual(['two/b/x']);
  });
});

describe('disableScope', () => {
  it('records under bare names and gives the scope back, also after a throw', async () => {
    const tracker = new StatsTracker('root');
    tracker.scope('a', () => {
      expect(() =>
        tracker.disableScope(() => {
          tracker.scalar({ bare: 1 });
          tracker.scope('b', () => {
            tracker.scalar({ x: 1 });
          });
          throw new Error('boom');
        }),
      ).toThrow('boom');
      tracker.scalar({ y: 1 });
    });
    expect(await names(tracker)).toEqual(['b/x', 'bare', 'root/a/y']);
  });
});

describe('child', () => {
  it('is bound to the path where it was made, whatever scope is open when it records', async () => {
    const tracker = new StatsTracker('root');
    const update = tracker.scope('ppo', () => tracker.child('update'));
    tracker.scope('elsewhere', () => {
      update.scalar({ x: 1 });
      update.scope('deep', () => {
        update.scalar({ x: 1 });
        tracker.scalar({ y: 1 });
        update.child('er').scalar({ x: 1 });
      });
    });
    expect(await names(tracker)).toEqual([
      'root/elsewhere/y',
      'root/ppo/update/deep/er/x',
      'root/ppo/update/deep/x',
      'root/ppo/update/x',
    ]);
  });
});
