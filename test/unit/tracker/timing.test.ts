/** Timings: seconds of an injected clock, recorded once, also when the body fails. */
import { describe, expect, it } from 'vitest';
import { KeyConflictError, ValueError } from '../../../src/errors.js';
import { StatsTracker } from '../../../src/tracker/index.js';
import { CaughtWarnings } from './warnings.js';

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

describe('what the timed function does', () => {
  const boom = new Error('boom');

  /** Makes `timeperf/x` something else, so that the timing which runs cannot be recorded. */
  function occupy(tracker: StatsTracker): void {
    tracker.counter({ 'timeperf/x': 1 });
  }

  function expectOneLoss(warnings: CaughtWarnings): void {
    expect(warnings.of('TENSORTALLY_TIMING_LOST')).toHaveLength(1);
    expect(warnings.count).toBe(1);
    warnings.stop();
  }

  it.each<[string, (tracker: StatsTracker) => unknown]>([
    ['a value', () => 5],
    ['undefined', () => undefined],
    ['a promise', () => Promise.resolve(5)],
    [
      'a thenable',
      () => ({
        then: (resolve: (x: number) => void) => {
          resolve(5);
        },
      }),
    ],
  ])('is what comes of it, not the refusal of its key, for %s', async (_what, result) => {
    const { tracker } = timed();
    const warnings = new CaughtWarnings();
    const given = tracker.recordTiming('x', () => {
      occupy(tracker);
      return result(tracker);
    });
    expect(await given).toBe(await result(tracker));
    expect(await tracker.export()).toEqual({ 'timeperf/x': 1 });
    expectOneLoss(warnings);
  });

  it('is what it throws or rejects with', async () => {
    const { tracker } = timed();
    const warnings = new CaughtWarnings();
    expect(() =>
      tracker.recordTiming('x', () => {
        occupy(tracker);
        throw boom;
      }),
    ).toThrow(boom);
    tracker.dispose();
    for (const rejected of [
      () => Promise.reject(boom),
      () => ({
        then: (_: unknown, reject: (e: Error) => void) => {
          reject(boom);
        },
      }),
    ]) {
      const given = tracker.recordTiming('x', () => {
        occupy(tracker);
        return rejected();
      });
      await expect(given).rejects.toBe(boom);
      tracker.dispose();
    }
    expectOneLoss(warnings);
  });

  it('is what a block of `using` throws', () => {
    const { tracker } = timed();
    const warnings = new CaughtWarnings();
    const block = () => {
      using running = tracker.timing('x');
      expect(Symbol.dispose in running).toBe(true);
      occupy(tracker);
      throw boom;
    };
    expect(block).toThrow(boom);
    expectOneLoss(warnings);
  });

  it('is what comes of it where the clock fails, or the result has a `then` that does', () => {
    let calls = 0;
    const tracker = new StatsTracker('', {
      clock: () => {
        if (++calls % 2 === 0) throw new Error('no time');
        return 0;
      },
    });
    const warnings = new CaughtWarnings();
    expect(tracker.recordTiming('x', () => 5)).toBe(5);
    const odd = Object.defineProperty({}, 'then', {
      get: () => {
        throw boom;
      },
    });
    expect(tracker.recordTiming('x', () => odd)).toBe(odd);
    expectOneLoss(warnings);
  });

  it('never begins under a key that is too long', () => {
    const { tracker } = timed();
    const ran = () => expect.fail('ran');
    expect(() => tracker.recordTiming('k'.repeat(10_001), ran)).toThrow(ValueError);
  });
});
