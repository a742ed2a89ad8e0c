/** Timings: seconds of an injected clock, recorded once, also when the body fails. */
import { describe, expect, it } from 'vitest';
import { KeyConflictError, ValueError } from '../../../src/errors.js';
import { StatsTracker } from '../../../src/tracker/index.js';

function timed(name?: string): { tracker: StatsTracker; pass: (seconds: number) => void } {
  let now = 100;
  return {
    tracker: new StatsTracker(name, { clock: () => now }),
    pass: (seconds) => {
      now += seconds;
    },
  };
}

describe('timing', () => {
  it('records from its start to its disposal, once', async () => {
    const { tracker, pass } = timed();
    const running = tracker.timing('rollout');
    pass(1.5);
    running[Symbol.dispose]();
    pass(10);
    running[Symbol.dispose]();
    expect(await tracker.export()).toEqual({ 'timeperf/rollout': 1.5, 'timeperf/rollout__count': 1 });
  });

  it('keeps its key whatever the tracker is called and whatever scope is open', async () => {
    const { tracker, pass } = timed('rollout');
    tracker.scope('a', () => {
      tracker.child('b').recordTiming('x', () => {
        pass(2);
      });
    });
    expect(await tracker.export()).toEqual({ 'timeperf/x': 2, 'timeperf/x__count': 1 });
  });

  it('ends with the block of its `using`, also when that throws', async () => {
    const { tracker, pass } = timed();
    const body = (fails: boolean) => {
      using running = tracker.timing('x');
      pass(2);
      expect(Symbol.dispose in running).toBe(true);
      if (fails) throw new Error('boom');
    };
    body(false);
    expect(() => {
      body(true);
    }).toThrow('boom');
    expect(await tracker.export()).toEqual({ 'timeperf/x': 2, 'timeperf/x__count': 2 });
  });

  it('refuses a key that is no text or is something else already, before anything runs', () => {
    const { tracker } = timed();
    tracker.scalar({ 'timeperf/x__count': 1 });
    let ran = false;
    expect(() => {
      tracker.recordTiming('x', () => {
        ran = true;
      });
    }).toThrow(KeyConflictError);
    expect(() => tracker.timing(5 as unknown as string)).toThrow(ValueError);
    expect(ran).toBe(false);
  });

  it('runs on a monotonic clock in seconds by default', async () => {
    const tracker = new StatsTracker();
    const start = performance.now();
    tracker.recordTiming('x', () => {
      while (performance.now() < start + 2);
    });
    const bound = (performance.now() - start) / 1000;
    const { 'timeperf/x': seconds } = await tracker.export();
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(bound);
  });
});

describe('recordTiming', () => {
  it('returns the result, and for a promise runs until it settles', async () => {
    const { tracker, pass } = timed();
    let finish!: (value: string) => void;
    const result = tracker.recordTiming('x', () => new Promise<string>((resolve) => (finish = resolve)));
    pass(3);
    expect(await tracker.export()).toEqual({});
    finish('done');
    expect(await result).toBe('done');
    expect(tracker.recordTiming('x', () => 5)).toBe(5);
    expect(await tracker.export()).toEqual({ 'timeperf/x': 1.5, 'timeperf/x__count': 2 });
  });

  it('records what throws or rejects, and passes the error on', async () => {
    const { tracker, pass } = timed();
    const boom = new Error('boom');
    expect(() =>
      tracker.recordTiming('x', () => {
        pass(1);
        throw boom;
      }),
    ).toThrow(boom);
    await expect(
      tracker.recordTiming('x', () => {
        pass(3);
        return Promise.reject(boom);
      }),
    ).rejects.toBe(boom);
    expect(await tracker.export()).toEqual({ 'timeperf/x': 2, 'timeperf/x__count': 2 });
  });
});
