/** Exports of several workers become the one of a single worker; what cannot be merged is refused or said aloud. */
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { KeyConflictError, ValueError } from '../../../src/errors.js';
import { StatsTracker } from '../../../src/tracker/index.js';
import { aggregateExports } from '../../../src/tracker/export/aggregate-exports.js';

afterEach(() => {
  vi.restoreAllMocks();
});

const one = (k: number, count: number): Record<string, number> => ({ k, k__count: count });

describe('aggregateExports', () => {
  test('any split of records over workers gives the export of one worker', async () => {
    const samples = fc.array(fc.tuple(fc.integer({ min: -1000, max: 1000 }), fc.nat(4), fc.boolean()), {
      maxLength: 40,
    });
    await fc.assert(
      fc.asyncProperty(samples, async (records) => {
        const whole = new StatsTracker();
        const workers = Array.from({ length: 5 }, () => new StatsTracker());
        for (const [x, worker, isEval] of records) {
          for (const tracker of [whole, workers[worker]!]) tracker.scalar({ [isEval ? 'eval' : 'train']: x });
        }
        const merged = aggregateExports(await Promise.all(workers.map((worker) => worker.export())));
        const expected = await whole.export();
        expect(Object.keys(merged)).toEqual(Object.keys(expected));
        for (const [key, value] of Object.entries(expected)) {
          // Each worker rounds its mean, and each merge its sum: 2⁻⁵³ of at most 1000, ten times.
          const bound = key.endsWith('__count') ? {} : { abs: 10 * 1000 * 2 ** -53 };
          expect(merged[key]).toBeCloseToReference(value, bound);
        }
      }),
      { numRuns: 50 },
    );
  });

  test('what is equal on all workers stays what it is to the bit, and a mean stays in the range of its parts', () => {
    expect(aggregateExports([one(0.1, 3)])).toEqual(one(0.1, 3));
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e300, max: 1e300 }),
        fc.array(fc.integer({ min: 1, max: 1e6 }), { minLength: 1, maxLength: 20 }),
        (x, counts) => {
          expect(aggregateExports(counts.map((count) => one(x, count))).k).toBe(x);
        },
      ),
    );
  });

  test('counts stay exact beyond 2^32, and the merge of merges is the merge of all', () => {
    const parts = [one(1, 2 ** 40), one(3, 2 ** 40 + 1), one(5, 1)];
    const all = aggregateExports(parts);
    expect(all.k__count).toBe(2 ** 41 + 2);
    expect(aggregateExports([aggregateExports(parts.slice(0, 2)), parts[2]!])).toEqual(all);
  });

  test('null is a worker that did not report, and a null value the NaN that JSON could not write', () => {
    const through = JSON.parse(JSON.stringify(one(NaN, 2))) as Record<string, number>;
    expect(aggregateExports([null, one(1, 1), undefined])).toEqual(one(1, 1));
    expect(aggregateExports([through, one(1, 1)])).toEqual(one(NaN, 3));
    expect(aggregateExports([{ k: null as never, k__count: 0 }, one(1, 1)])).toEqual(one(1, 1));
    expect(aggregateExports([null, null])).toEqual({});
  });

  test('infinities show as arithmetic on the records would show them', () => {
    expect(aggregateExports([one(Infinity, 1), one(1, 5)])).toEqual(one(Infinity, 6));
    expect(aggregateExports([one(Infinity, 1), one(-Infinity, 5)])).toEqual(one(NaN, 6));
  });

  test.each<[string, unknown, string]>([
    ['a value that is no number', [one(1, 1), { k: 'x', k__count: 1 }], "exports[1]['k']: expected a number"],
    [
      'a negative count',
      [one(1, -1)],
      "exports[0]['k__count']: expected a finite number from 0, got the number -1",
    ],
    ['a count without end', [one(1, Infinity)], 'got the number Infinity'],
    ['a count that is NaN', [one(1, NaN)], 'expected a finite number from 0'],
    ['a count that is null', [{ k: 1, k__count: null }], 'got null'],
    ['an invalid export', [[]], 'exports[0]: expected an export, got a plain array'],
    ['no list', { k: 1 }, 'expected an array with one export per worker'],
  ])('refuses %s', (_what, exports, message) => {
    expect(() => aggregateExports(exports as never)).toThrow(ValueError);
    expect(() => aggregateExports(exports as never)).toThrow(message);
  });

  test('takes weights: the split of weighted records gives the export of one worker', async () => {
    const whole = new StatsTracker();
    const workers = [new StatsTracker(), new StatsTracker()];
    // Sums of products that float64 holds exactly.
    const records = [
      [3, 0.5],
      [1, 0.25],
      [NaN, 0],
      [7, 2.75],
    ] as const;
    for (const [i, [x, weight]] of records.entries()) {
      for (const tracker of [whole, workers[i % 2]!]) tracker.scalar({ k: x }, { weight });
    }
    const merged = aggregateExports(await Promise.all(workers.map((worker) => worker.export())));
    expect(merged).toEqual(await whole.export());
    expect(merged).toEqual({ k: (1.5 + 0.25 + 7 * 2.75) / 3.5, k__count: 3.5 });
  });

  test('adds what is named as a total, by list or by predicate, and leaves out the rest', () => {
    const exports = [
      { ...one(1, 1), accepted: 3, 'a/n_tokens': 2 ** 40, 'x/max': 5 },
      null,
      { ...one(3, 1), accepted: 4, 'a/n_tokens': 1, 'x/max': 9 },
      { ...one(5, 1), 'a/n_tokens': 1 },
    ];
    const heard: string[][] = [];
    const onWithoutCount = (keys: readonly string[]): void => {
      heard.push([...keys]);
    };
    const expected = { 'a/n_tokens': 2 ** 40 + 2, accepted: 7, ...one(3, 3) };
    const totals = ['accepted', 'a/n_tokens', 'not-there'];
    const byList = aggregateExports(exports, { totals, onWithoutCount });
    expect(byList).toEqual(expected);
    expect(Object.keys(byList)).toEqual(['a/n_tokens', 'accepted', 'k', 'k__count']);
    const isTotal = (name: string): boolean => name === 'accepted' || name.includes('/n_');
    expect(aggregateExports(exports, { totals: isTotal, onWithoutCount })).toEqual(expected);
    expect(heard).toEqual([['x/max'], ['x/max']]);
    const broken = [{ n: 1 }, JSON.parse('{"n":null}') as { n: number }];
    expect(aggregateExports(broken, { totals: ['n'] })).toEqual({ n: NaN });
  });

  test('refuses totals that contradict a count, and what are no totals', () => {
    expect(() => aggregateExports([one(1, 1)], { totals: ['k'] })).toThrow(
      "exports[0]['k']: expected a sum, as options.totals says, got a mean: it has a __count",
    );
    // The count of k is no key of its own, so a predicate may be about it.
    expect(aggregateExports([one(1, 2)], { totals: (name) => name === 'k__count' })).toEqual(one(1, 2));
    expect(() => aggregateExports([{ k__count: 5 }, one(1, 1)], { totals: ['k__count'] })).toThrow(
      KeyConflictError,
    );
    for (const totals of ['accepted', { accepted: true }, [1]]) {
      expect(() => aggregateExports([], { totals: totals as never })).toThrow('options.totals');
    }
    expect(() => aggregateExports([{ n: 'x' as never }], { totals: ['n'] })).toThrow("exports[0]['n']");
  });

  test('refuses an export that is given twice: its records would count twice', () => {
    const same = one(1, 1);
    expect(() => aggregateExports([same, one(2, 1), same])).toThrow(
      'exports[2]: expected an export of its own for every worker, got the one of exports[0] again',
    );
    expect(aggregateExports([one(1, 1), one(1, 1)])).toEqual(one(1, 2));
  });

  test('refuses a key that takes the name of the count of another, within an export and across', () => {
    const taker = { k__count: 5, k__count__count: 2 };
    expect(() => aggregateExports([{ ...one(1, 1), ...taker }])).toThrow(KeyConflictError);
    expect(() => aggregateExports([one(1, 1), taker])).toThrow(KeyConflictError);
    expect(() => aggregateExports([taker, one(1, 1)])).toThrow(KeyConflictError);
    expect(aggregateExports([taker])).toEqual(taker);
  });

  test('warns once per key that has no count anywhere, and names it', () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const exports = [
      { 'only-here/avg': 1, ...one(1, 1) },
      { 'only-here/max': 3, k: 9 },
    ];
    // Worker 1 gave k without a count: that k has no weight, but the key is known.
    expect(aggregateExports(exports)).toEqual(one(1, 1));
    aggregateExports(exports);
    expect(warnings).toHaveBeenCalledTimes(1);
    expect(warnings.mock.calls[0]![0]).toContain('only-here/avg, only-here/max');
    const heard = vi.fn();
    aggregateExports(exports, { onWithoutCount: heard });
    expect(heard.mock.calls).toEqual([[['only-here/avg', 'only-here/max']]]);
  });

  test('remembers a thousand keys that have no count, of however many', () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    for (let i = 0; i < 3000; i++) aggregateExports([{ [`other-${i}/avg`]: 1 }]);
    expect(warnings.mock.calls.length).toBeLessThanOrEqual(1000);
    expect(warnings.mock.calls.length).toBeGreaterThan(900);
  });
});
