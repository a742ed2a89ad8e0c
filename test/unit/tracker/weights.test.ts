/** Weighted means: finite weights are summed by themselves, and what is not finite counts by records. */
import { describe, expect, it } from 'vitest';
import { liftRow, mergeRows } from '../../../src/kernels/index.js';
import { aggregateExports } from '../../../src/tracker/export/aggregate-exports.js';
import { InProcessTransport, StatsTracker, StreamEmitter, StreamIngest } from '../../../src/tracker/index.js';

type Record = readonly [x: number, weight: number];

function recorded(
  nonFinite: 'ignore' | 'propagate' | undefined,
  ...records: readonly Record[]
): StatsTracker {
  const tracker = new StatsTracker('', nonFinite === undefined ? {} : { nonFinite });
  for (const [loss, weight] of records) tracker.scalar({ loss }, { weight });
  return tracker;
}

describe('a weight that belongs to NaN', () => {
  it('takes nothing from those of finite numbers under the rule ignore, and counts as one record', async () => {
    const records: Record[] = [
      [0, 0.1],
      [NaN, 1e15],
      [10, 0.1],
    ];
    for (const order of [records, records.toReversed()]) {
      expect(await recorded('ignore', ...order).export()).toEqual({
        ...{ loss: 5, loss__count: 0.2, 'loss/nonfinite': 1 },
      });
      expect(await recorded('propagate', ...order).export()).toEqual({
        ...{ loss: NaN, loss__count: 1e15 + 0.2, 'loss/nonfinite': 1 },
      });
    }
  });

  it('leaves nothing behind where nothing is finite', async () => {
    const tracker = recorded('ignore', [NaN, 0.1], [Infinity, 0.2]);
    expect(await tracker.export({ reset: false })).toEqual({ 'loss/nonfinite': 2 });
    const [{ row } = { row: undefined }] = await tracker.rows();
    expect(row).toEqual({ ...liftRow(NaN), count: 0, nan: 0 });
  });

  it('is no weight of its own beside large ones: NaN still shows', async () => {
    const tiny = recorded(undefined, [1, 1], [NaN, 1e-20]);
    expect(await tiny.export()).toEqual({ loss: NaN, loss__count: 1 });
    expect(
      aggregateExports([
        { l: 1, l__count: 1 },
        { l: NaN, l__count: 1e-20 },
      ]),
    ).toEqual({ l: NaN, l__count: 1 });
    expect(await recorded(undefined, [-Infinity, 1e-20], [1, 1]).export()).toMatchObject({ loss: -Infinity });
  });

  it.each<Record[][]>([
    [
      [
        [NaN, 0.1],
        [Infinity, 0.2],
      ],
    ],
    [
      [
        [0, 0.1],
        [NaN, 1e15],
        [10, 0.1],
      ],
    ],
    [
      [
        [1, 1e-20],
        [NaN, 1],
        [Infinity, 0.3],
      ],
    ],
    [
      [
        [Infinity, 0.1],
        [-Infinity, 0.2],
        [3, 0.3],
      ],
    ],
    [
      [
        [-Infinity, 0.7],
        [3, 1e-30],
      ],
    ],
  ])('gives rows of %j that a stream takes and exports alike, under every rule', async (records) => {
    for (const rule of ['ignore', 'propagate', undefined] as const) {
      const ingest = new StreamIngest();
      const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
      emitter.merge(await recorded(rule, ...records).rows());
      await emitter.close();
      const numbers = ingest.export();
      const { loss, loss__count: count } = await recorded(rule, ...records).export();
      expect(numbers.loss).toBe(loss);
      expect(numbers.loss__count).toBe(count);
    }
  });
});

describe('sums beyond float64', () => {
  it('leave the mean of weighted and plain scalars as it is', async () => {
    for (const x of [1e308, -1e308, Number.MAX_VALUE]) {
      expect(await recorded(undefined, [x, 10]).export()).toEqual({ loss: x, loss__count: 10 });
      expect(await recorded(undefined, [x, 1], [x, 1], [x, 1]).export()).toEqual({ loss: x, loss__count: 3 });
    }
    expect(await recorded(undefined, [1e308, 3], [0.5e308, 3]).export()).toEqual({
      ...{ loss: 0.75e308, loss__count: 6 },
    });
    expect(await recorded('ignore', [1e308, 1], [NaN, 1], [1.5e308, 1]).export()).toMatchObject({
      ...{ loss: 1.25e308, loss__count: 2 },
    });
    const back = await recorded(undefined, [1e308, 1], [1e308, 1], [-1e308, 1], [-1e308, 1]).export();
    expect(back.loss).toBe(0);
  });

  it('leave the mean of all workers as it is', () => {
    expect(aggregateExports([{ l: 1e308, l__count: 10 }])).toEqual({ l: 1e308, l__count: 10 });
    const workers = [1e308, 1.5e308, 0.5e308].map((l) => ({ l, l__count: 10 }));
    expect(aggregateExports(workers)).toEqual({ l: 1e308, l__count: 30 });
    expect(aggregateExports([{ l: -1e308, l__count: 1e300 }]).l).toBe(-1e308);
    expect(
      aggregateExports([
        { l: 1, l__count: 8e307 },
        { l: 3, l__count: 8e307 },
      ]),
    ).toEqual({ l: 2, l__count: 1.6e308 });
  });

  it('give a total that is back within float64, as the sum of a tracker does', async () => {
    for (const xs of [
      [1e308, 1e308, -1e308],
      [-1e308, -1e308, 1e308],
    ]) {
      const tracker = new StatsTracker();
      for (const s of xs) tracker.scalar({ s }, { reduceType: 'sum' });
      const { s } = aggregateExports(
        xs.map((x) => ({ s: x })),
        { totals: ['s'] },
      );
      expect(s! / xs[0]!).toBeCloseTo(1, 14);
      expect(s).toBe((await tracker.export()).s);
    }
    const odd = [{ s: 2 ** 53 - 2 }, { s: 1 }, null];
    expect(aggregateExports(odd, { totals: ['s'] })).toEqual({ s: 2 ** 53 - 1 });
    expect(aggregateExports([{ s: Infinity }, { s: 1 }], { totals: ['s'] })).toEqual({ s: Infinity });
  });

  it('leave the mean of a stream as it is', async () => {
    const ingest = new StreamIngest();
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    for (const x of [1e308, 1.5e308]) emitter.scalar({ a: x, b: -x });
    await emitter.flush();
    for (const x of [1e308, 1.5e308]) emitter.scalar({ a: x, b: -x });
    emitter.merge([{ key: 'c', reduction: 'scalar', row: mergeRows(liftRow(-1e308), liftRow(-1e308)) }]);
    emitter.merge(await recorded(undefined, [1e308, 10]).rows());
    await emitter.close();
    expect(ingest.export()).toMatchObject({
      ...{ a: 1.25e308, a__count: 4, b: -1.25e308, c: -1e308, loss: 1e308, loss__count: 10 },
    });
  });
});

describe('what is not finite beside a large weight', () => {
  const LARGE = [2 ** 53, 1e16, 1e100, 2 ** 900];

  it.each(LARGE)('%d: shows in exports, in rows, and in a stream that merges them', async (weight) => {
    for (const x of [NaN, Infinity, -Infinity]) {
      const records: Record[] = [
        [1, weight],
        [x, 1],
      ];
      for (const order of [records, records.toReversed()]) {
        expect(await recorded(undefined, ...order).export()).toEqual({
          ...{ loss: x, loss__count: weight + 1 },
        });
        expect((await recorded('ignore', ...order).export())['loss/nonfinite']).toBe(1);
        const ingest = new StreamIngest();
        const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
        for (const record of order) emitter.merge(await recorded(undefined, record).rows());
        emitter.merge(await recorded(undefined, ...order).rows());
        await emitter.close();
        expect(ingest.export()).toMatchObject({ loss: x, loss__count: 2 * (weight + 1) });
        const relay = new StreamEmitter(new InProcessTransport(new StreamIngest()), { workerId: 'r' });
        relay.merge(ingest.rows());
        await relay.close();
      }
    }
  });

  it('shows in what a controller makes of exports', () => {
    for (const count of [...LARGE, 1e300]) {
      for (const l of [NaN, Infinity, -Infinity]) {
        const workers = [
          { l: 1, l__count: count },
          { l, l__count: 1 },
        ];
        expect(aggregateExports(workers)).toEqual({ l, l__count: count + 1 });
        expect(aggregateExports(workers.toReversed()).l).toBe(l);
      }
    }
  });
});

describe('weights and counts', () => {
  it.each([Number.MAX_VALUE, 2 ** 901, Infinity, NaN, -1])('%d is refused as a weight', async (weight) => {
    const tracker = recorded(undefined, [3, 1]);
    expect(() => {
      tracker.scalar({ loss: 0 }, { weight });
    }).toThrow(/weight: expected a number from 0 to 2\^900, got the number/);
    expect(await tracker.export()).toEqual({ loss: 3, loss__count: 1 });
  });

  it('that were accepted have a right mean and a finite sum, which rows carry on', async () => {
    const most = 2 ** 900;
    for (const x of [10, 1e308]) {
      const records: Record[] = [
        [0, most],
        [x, most],
        [5, 1],
      ];
      const exported = await recorded('ignore', ...records).export();
      expect(exported.loss! / x).toBeCloseTo(0.5, 14);
      expect(exported.loss__count).toBe(2 * most);
      const ingest = new StreamIngest();
      const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
      emitter.merge(await recorded('ignore', ...records).rows());
      await emitter.close();
      expect(ingest.export()).toMatchObject({ loss: exported.loss, loss__count: 2 * most });
    }
  });

  it('whose sum would leave float64 are refused in exports and in rows, so that what comes out can go in again', () => {
    expect(() =>
      aggregateExports([
        { l: 2, l__count: 1e308 },
        { l: 4, l__count: 1e308 },
      ]),
    ).toThrow(/exports\[1\]\['l__count'\]: expected counts whose sum/);
    const emitter = new StreamEmitter(new InProcessTransport(new StreamIngest()), { workerId: 'w' });
    const row = { ...liftRow(1), count: 1e300, sum: 1e300 };
    expect(() => {
      emitter.merge([{ key: 'l', reduction: 'scalar', row }]);
    }).toThrow(/a count of 1e\+300, beyond 2\^960/);
  });
});
