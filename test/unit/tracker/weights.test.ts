/** Weighted means: finite weights are summed by themselves, and what is not finite counts by records. */
import { describe, expect, it } from 'vitest';
import { liftRow, mergeRows } from '../../../src/kernels/index.js';
import { aggregateExports } from '../../../src/tracker/aggregate-exports.js';
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
    const [few, many] = [
      { l: 1, l__count: 1e308 },
      { l: 3, l__count: 1e308 },
    ];
    expect(aggregateExports([few, many])).toEqual({ l: 2, l__count: Infinity });
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
