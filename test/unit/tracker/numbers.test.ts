/** Scalars and counters: reduce types, weights, exactness, and that the short way records what the careful one does. */
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, ValueError } from '../../../src/errors.js';
import { liftRow } from '../../../src/kernels/index.js';
import { RowAccumulator } from '../../../src/rows/accumulator.js';
import { emptyKeyRow, keyRowOf, mergeKeyRows } from '../../../src/rows/key-row.js';
import { type ScalarOptions, type ScalarReduceType, StatsTracker } from '../../../src/tracker/index.js';

let tracker: StatsTracker;

beforeEach(() => {
  tracker = new StatsTracker();
});

function record(numbers: readonly number[], options?: ScalarOptions): void {
  for (const k of numbers) tracker.scalar({ k }, options);
}

describe('scalar', () => {
  it('takes no Map, whose entries have no names to an object', () => {
    const map = new Map([['a', 1]]) as unknown as Record<string, number>;
    expect(() => {
      tracker.scalar(map);
    }).toThrow(ValueError);
  });

  it.each([
    ['scalar', { k: 3, k__count: 3 }],
    ['sum', { k: 9 }],
    ['min', { k: 1 }],
    ['max', { k: 6 }],
    ['last', { k: 2 }],
  ] as const)('of reduce type %s', async (reduceType, expected) => {
    record([1, 6, 2], { reduceType });
    expect(await tracker.export({ reset: false })).toEqual(expected);
    expect(await tracker.export()).toEqual(expected);
    expect(await tracker.export()).toEqual({});
  });

  it('last keeps a number that is not finite, and forgets those before', async () => {
    record([NaN, 3], { reduceType: 'last' });
    expect(await tracker.export()).toEqual({ k: 3 });
    record([3, NaN], { reduceType: 'last' });
    expect(await tracker.export()).toEqual({ k: NaN });
    record([3, -Infinity], { reduceType: 'last' });
    expect(await tracker.export()).toEqual({ k: -Infinity });
  });

  it('last is the last one that is finite under the rule `ignore`, which counts the others', async () => {
    const options = { reduceType: 'last', nonFinite: 'ignore' } as const;
    record([1, NaN, 3, NaN, Infinity], options);
    expect(await tracker.export({ reset: false })).toEqual({ k: 3, 'k/nonfinite': 3 });
    record([5], options);
    expect(await tracker.export()).toEqual({ k: 5, 'k/nonfinite': 3 });
    record([NaN], options);
    expect(await tracker.export()).toEqual({ 'k/nonfinite': 1 });
    // And over what several windows have cut.
    const epochs = new StatsTracker('', { windows: ['step', 'epoch'] });
    for (const k of [2, NaN, 4, -Infinity]) {
      epochs.scalar({ k }, options);
      await epochs.export();
    }
    expect(await epochs.export({ window: 'epoch' })).toEqual({ k: 4, 'k/nonfinite': 2 });
  });

  it('have a mean between them, so that what never changes stays what it is', async () => {
    for (const lr of [0.1, 1e-6, 3e-4, -0.7]) {
      record([lr, lr, lr]);
      expect(await tracker.export()).toEqual({ k: lr, k__count: 3 });
    }
    tracker.scalar({ k: 0.1 }, { weight: 3 });
    expect(await tracker.export()).toEqual({ k: 0.1, k__count: 3 });
  });

  it('with weights is their mean, and counts them', async () => {
    tracker.scalar({ loss: 2 }, { weight: 30 });
    tracker.scalar({ loss: 5 }, { weight: 10 });
    tracker.scalar({ loss: 1000 }, { weight: 0 });
    expect(await tracker.export()).toEqual({ loss: 2.75, loss__count: 40 });
    tracker.scalar({ loss: 7 }, { weight: 0 });
    expect(await tracker.export()).toEqual({});
    tracker.scalar({ loss: 1 });
    tracker.scalar({ loss: NaN }, { weight: 2 });
    expect(await tracker.export()).toEqual({ loss: NaN, loss__count: 3 });
  });

  it('refuses invalid options, weights that weigh nothing sensible, and keeps the key what it is', async () => {
    const refused: unknown[] = [
      { reduceType: 'avg_min_max' },
      { reduceType: 'counter' },
      { reduceType: null },
      { weight: -1 },
      { weight: NaN },
      { weight: Infinity },
      { weight: '1' },
      { weight: 2, reduceType: 'sum' },
      { nonFinite: 'drop' },
      null,
      'sum',
    ];
    for (const options of refused) {
      expect(() => {
        record([1], options as ScalarOptions);
      }, JSON.stringify(options)).toThrow(ValueError);
    }
    record([1], { reduceType: 'max' });
    for (const other of [undefined, { reduceType: 'sum' }, { reduceType: 'last' }] as const) {
      expect(() => {
        record([1], other);
      }).toThrow(KeyConflictError);
    }
    expect(() => {
      tracker.counter({ k: 1 });
    }).toThrow(KeyConflictError);
    expect(await tracker.export()).toEqual({ k: 1 });
  });
});

describe('counter', () => {
  it('adds, exactly up to 2^53, and exports the sum alone', async () => {
    tracker.counter({ tokens: 2 ** 53 - 3, accepted: true });
    tracker.counter({ tokens: 1 });
    tracker.counter({ tokens: 1, accepted: false });
    expect(await tracker.export()).toEqual({ accepted: 1, tokens: 2 ** 53 - 1 });
    tracker.counter({ rejected: 0 });
    expect(await tracker.export()).toEqual({ rejected: 0 });
  });

  it('refuses what does not count, first record or later, and takes nothing of the call', async () => {
    for (const known of [false, true]) {
      if (known) tracker.counter({ a: 1, b: 1 });
      for (const bad of [-1, NaN, Infinity, -Infinity, null, undefined, '3', 3n]) {
        expect(() => {
          tracker.counter({ a: 1, b: bad as number });
        }).toThrow(ValueError);
      }
    }
    expect(() => {
      tracker.scalar({ a: 1 });
    }).toThrow(KeyConflictError);
    expect(await tracker.export()).toEqual({ a: 1, b: 1 });
  });
});

describe('records of known keys', () => {
  it('are atomic too', async () => {
    tracker.scalar({ a: 1, b: 1 });
    for (const bad of [null, undefined, '3', {}]) {
      expect(() => {
        tracker.scalar({ a: 5, b: bad as number });
      }).toThrow(ValueError);
    }
    const throwing = {
      a: 5,
      get b(): number {
        throw new Error('boom');
      },
    };
    expect(() => {
      tracker.scalar(throwing);
    }).toThrow('boom');
    expect(await tracker.export()).toEqual({ a: 1, a__count: 1, b: 1, b__count: 1 });
  });

  it('may record while their values are read', async () => {
    tracker.scalar({ a: 1, b: 1 });
    tracker.scalar({
      a: 3,
      get b() {
        tracker.scalar({ a: 100, b: 200 });
        return 2;
      },
    });
    expect(await tracker.export()).toEqual({ a: 104 / 3, a__count: 3, b: 203 / 3, b__count: 3 });
  });

  it('may be dropped while their values are read: what is recorded then opens its keys anew', async () => {
    tracker.scalar({ a: 1, b: 1 });
    tracker.scalar({
      a: 3,
      get b() {
        tracker.dispose();
        return 2;
      },
    });
    expect(await tracker.export()).toEqual({ a: 3, a__count: 1, b: 2, b__count: 1 });
  });

  it('are told from what only looks like them: lists, inherited values, booleans, empty calls', async () => {
    tracker.scalar({ '0': 1, a: 1 });
    expect(() => {
      tracker.scalar([5] as unknown as Record<string, number>);
    }).toThrow(ValueError);
    tracker.scalar(Object.create({ a: 100 }) as Record<string, number>);
    tracker.scalar({});
    tracker.scalar({ a: true });
    tracker.scalar(Object.assign(Object.create(null) as object, { a: 4 }));
    expect(await tracker.export()).toEqual({ '0': 1, '0__count': 1, a: 2, a__count: 3 });
  });

  it('find the key that its name and scope make, whichever way it is cut', async () => {
    const record2 = () => {
      tracker.scalar({ 'a/b/c': 1 });
      tracker.scope('a', () => {
        tracker.scalar({ 'b/c': 2 });
        tracker.child('b').scalar({ c: 3 });
      });
    };
    record2();
    record2();
    expect(await tracker.export()).toEqual({ 'a/b/c': 2, 'a/b/c__count': 6 });
    record2();
    expect(await tracker.export()).toEqual({ 'a/b/c': 2, 'a/b/c__count': 3 });
  });

  it('become another kind after an export', async () => {
    for (let i = 0; i < 3; i++) {
      tracker.scalar({ k: 1 });
      tracker.scalar({ k: 3 });
      expect(await tracker.export()).toEqual({ k: 2, k__count: 2 });
      tracker.counter({ k: 1 });
      tracker.counter({ k: 3 });
      expect(await tracker.export()).toEqual({ k: 4 });
    }
  });
});

const anyNumber = fc.oneof(
  { weight: 8, arbitrary: fc.double({ min: -1e6, max: 1e6 }) },
  { weight: 2, arbitrary: fc.integer() },
  { weight: 1, arbitrary: fc.constantFrom(NaN, Infinity, -Infinity, 0, -0, 5e-324, 1.7e308) },
);

describe('the accumulator', () => {
  it('has the bits of merged rows', () => {
    fc.assert(
      fc.property(fc.array(anyNumber, { maxLength: 40 }), (numbers) => {
        const grown = new RowAccumulator();
        for (const x of numbers) grown.add(x);
        const rows = numbers.map((x) => keyRowOf(liftRow(x)));
        expect(grown.row()).toEqual(rows.reduce(mergeKeyRows, emptyKeyRow));
      }),
    );
  });
});

describe('any order of the same records', () => {
  it('of integers exports the same, all but the last', async () => {
    const integers = fc.array(fc.integer(), { minLength: 1, maxLength: 30 });
    const shuffled = integers.chain((numbers) =>
      fc.tuple(fc.constant(numbers), fc.shuffledSubarray(numbers, { minLength: numbers.length })),
    );
    await fc.assert(
      fc.asyncProperty(shuffled, async (orders) => {
        const exports = orders.map((numbers) => {
          const one = new StatsTracker();
          for (const k of numbers) {
            one.scalar({ mean: k });
            for (const reduceType of ['sum', 'min', 'max'] as const)
              one.scalar({ [reduceType]: k }, { reduceType });
            one.counter({ counted: Math.abs(k) });
          }
          return one.export();
        });
        const [ordered, permuted] = await Promise.all(exports);
        expect(permuted).toEqual(ordered);
      }),
      { numRuns: 60 },
    );
  });
});

describe('any split of the same numbers', () => {
  const types: readonly ScalarReduceType[] = ['scalar', 'sum', 'min', 'max', 'last'];

  it('into calls, tracker keys per call and peeks in between exports the same', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...types),
        fc.array(fc.integer({ min: -1000, max: 1000 }), { minLength: 1, maxLength: 20 }),
        fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }),
        async (reduceType, numbers, peeks) => {
          const one = new StatsTracker();
          const two = new StatsTracker('', { windows: ['a', 'b'] });
          for (const [i, k] of numbers.entries()) {
            one.scalar({ k, other: 1 }, { reduceType });
            two.scalar({ k }, { reduceType });
            if (peeks[i]!) await one.export({ reset: false });
            if (peeks[i]!) await two.export({ window: 'b' });
          }
          const { k, k__count } = await one.export();
          expect(await two.export()).toEqual(k__count === undefined ? { k } : { k, k__count });
        },
      ),
      { numRuns: 60 },
    );
  });
});
