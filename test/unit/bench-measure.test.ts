/** The paired harness, on a clock of its own: who runs when, what a ratio and its interval are, when it stops. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { heapKeptBy } from '../../bench/measure/heap.js';
import { type TimedWay, measureInterleaved, timedBy } from '../../bench/measure/interleaved.js';
import { median, medianInterval } from '../../bench/measure/order-statistics.js';

/** Ways whose runs take scripted milliseconds of a clock that only they move. */
class FakeMachine {
  now = 0;
  readonly log: string[] = [];
  readonly clock = (): number => this.now;

  /** @param take milliseconds of the n-th call, for one repeat */
  way(name: string, take: (call: number) => number, units?: number): TimedWay {
    let call = 0;
    return {
      time: (repeats) => {
        this.log.push(name);
        const ms = take(call++) * repeats;
        this.now += ms;
        return Promise.resolve(ms);
      },
      units,
    };
  }
}

/** Probability that X ≤ k for X ~ binomial(n, 1/2). */
function binomialTail(n: number, k: number): number {
  let [term, tail] = [2 ** -n, 0];
  for (let i = 0; i <= k; i++) {
    tail += term;
    term *= (n - i) / (i + 1);
  }
  return tail;
}

describe('the median', () => {
  test('is the middle of an odd number of values and between the two of an even one', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(median([])).toBeNaN();
  });

  test.each([
    [5, 1, 5],
    [6, 1, 6],
    [9, 2, 8],
    [20, 6, 15],
  ])('of %i values lies between the %ith and the %ith', (n, low, high) => {
    const values = Array.from({ length: n }, (_, i) => n - i);
    expect(medianInterval(values)).toEqual([low, high]);
  });

  test('has the narrowest interval that covers it with 95 %', () => {
    fc.assert(
      fc.property(fc.integer({ min: 6, max: 101 }), (n) => {
        const [low] = medianInterval(Array.from({ length: n }, (_, i) => i + 1));
        // The interval misses the median if fewer than `low` values lie on one of its sides.
        expect(2 * binomialTail(n, low - 1)).toBeLessThanOrEqual(0.05);
        expect(2 * binomialTail(n, low)).toBeGreaterThan(0.05);
      }),
    );
  });
});

describe('an interleaved measurement', () => {
  const effort = { minRounds: 3, budgetMs: 0 };

  test('lets the ways take turns and begins every round with another one', async () => {
    const machine = new FakeMachine();
    const ways = {
      ours: machine.way('a', () => 10),
      b: machine.way('b', () => 20),
      c: machine.way('c', () => 30),
    };
    const { rounds } = await measureInterleaved(ways, 'ours', { ...effort, clock: machine.clock });
    expect(rounds).toBe(3);
    expect(machine.log.slice(-9).join('')).toBe('abcbcacab');
  });

  test('reports ratios round by round, so that a drift of the machine does not show', async () => {
    const machine = new FakeMachine();
    const drift = (call: number): number => 1 + call / 4;
    const ways = {
      ours: machine.way('ours', (call) => 1000 * drift(call)),
      peer: machine.way('peer', (call) => 3000 * drift(call)),
    };
    const { rounds, ways: found } = await measureInterleaved(ways, 'ours', {
      minRounds: 9,
      budgetMs: 0,
      clock: machine.clock,
    });
    expect(rounds).toBe(9);
    expect(found.peer.ratio).toBeCloseTo(3, 12);
    expect(found.peer.ratioInterval[0]).toBeCloseTo(3, 12);
    expect(found.peer.ratioInterval[1]).toBeCloseTo(3, 12);
    expect(found.ours.ratio).toBe(1);
    expect(found.ours.intervalMs[0]).toBeLessThan(found.ours.medianMs);
  });

  test('is not moved by one round in which something else ran', async () => {
    const machine = new FakeMachine();
    const ways = {
      ours: machine.way('ours', () => 10),
      peer: machine.way('peer', (call) => (call === 5 ? 900 : 20)),
    };
    const found = await measureInterleaved(ways, 'ours', { minRounds: 9, budgetMs: 0, clock: machine.clock });
    expect(found.ways.peer).toMatchObject({ medianMs: 20, ratio: 2, ratioInterval: [2, 2] });
  });

  test('divides times by the units of work', async () => {
    const machine = new FakeMachine();
    const ways = {
      ours: machine.way('ours', () => 10, 100),
      big: machine.way('big', () => 60, 400),
    };
    const found = await measureInterleaved(ways, 'ours', { ...effort, clock: machine.clock });
    expect(found.ways.big).toMatchObject({ medianMs: 60, ratio: 1.5 });
  });

  test('repeats what is too short for a clock and reports one run', async () => {
    const machine = new FakeMachine();
    const asked: number[] = [];
    const short = machine.way('ours', () => 0.01);
    const ways = {
      ours: {
        time: (repeats: number) => {
          asked.push(repeats);
          return short.time(repeats);
        },
      },
    };
    const found = await measureInterleaved(ways, 'ours', { ...effort, clock: machine.clock });
    expect(asked.at(-1)).toBe(200);
    expect(found.ways.ours.medianMs).toBeCloseTo(0.01, 12);
  });

  test('warms a way up until two samples in a row agree, and does not count them', async () => {
    const machine = new FakeMachine();
    const ways = { ours: machine.way('ours', (call) => [800, 400, 100, 100][call] ?? 100) };
    const found = await measureInterleaved(ways, 'ours', { ...effort, clock: machine.clock });
    expect(machine.log).toHaveLength(4 + 3);
    expect(found.ways.ours.intervalMs).toEqual([100, 100]);
  });

  test('warms a quick way up for as long as an engine takes to compile it', async () => {
    const machine = new FakeMachine();
    const ways = { ours: machine.way('ours', () => (machine.now < 900 ? 0.2 : 0.1)) };
    const found = await measureInterleaved(ways, 'ours', { ...effort, clock: machine.clock });
    expect(machine.now).toBeGreaterThan(1000);
    expect(found.ways.ours.intervalMs[1]).toBeCloseTo(0.1, 12);
  });

  test('goes on while the interval is wide and the budget lasts', async () => {
    const wide = (call: number): number => (call % 2 === 0 ? 10 : 30);
    const measure = async (budgetMs: number): Promise<number> => {
      const machine = new FakeMachine();
      const ways = { ours: machine.way('ours', () => 10), peer: machine.way('peer', wide) };
      return (await measureInterleaved(ways, 'ours', { minRounds: 3, budgetMs, clock: machine.clock }))
        .rounds;
    };
    expect(await measure(0)).toBe(3);
    expect(await measure(600)).toBe(20); // 30 ms a round on average
    expect(await measure(Infinity)).toBe(101);
  });

  test('stops before the budget ends when all intervals are narrow', async () => {
    const machine = new FakeMachine();
    const ways = { ours: machine.way('ours', () => 10), peer: machine.way('peer', () => 20) };
    const effortful = { minRounds: 7, budgetMs: Infinity, clock: machine.clock };
    expect((await measureInterleaved(ways, 'ours', effortful)).rounds).toBe(7);
  });

  test('hears of every round', async () => {
    const machine = new FakeMachine();
    const heard: number[] = [];
    const ways = { ours: machine.way('ours', () => 10) };
    const onRound = (round: number): void => void heard.push(round);
    await measureInterleaved(ways, 'ours', { ...effort, clock: machine.clock, onRound });
    expect(heard).toEqual([1, 2, 3]);
  });
});

test('a function is timed from its start to the end of its last repeat', async () => {
  const machine = new FakeMachine();
  const way = timedBy(machine.clock, () => {
    machine.now += 7;
    return Promise.resolve();
  });
  expect(await way.time(3)).toBe(21);
});

describe('the heap that something keeps', () => {
  const numbers = (): number[] => Array.from({ length: 100_000 }, (_, i) => i + 0.5);

  test('is that of what is still in use', () => {
    // The engine drops code of its own meanwhile, some 200 kB: nothing beside 32 copies.
    const bytes = heapKeptBy(numbers, () => undefined, 32);
    expect(bytes / 800_000).toBeGreaterThan(0.95);
    expect(bytes / 800_000).toBeLessThan(1.25);
  });

  test('is not that of what was dropped', () => {
    const bytes = heapKeptBy(
      () => ({ total: numbers().reduce((a, b) => a + b) }),
      () => undefined,
      4,
    );
    expect(bytes).toBeLessThan(80_000);
  });

  test('is let go one by one in the end', () => {
    const made: object[] = [];
    const disposed: object[] = [];
    const make = (): object => {
      made.push({});
      return made.at(-1)!;
    };
    heapKeptBy(make, (one) => disposed.push(one), 3);
    expect(made).toHaveLength(4); // one to warm up
    expect(disposed).toEqual(made);
  });
});
