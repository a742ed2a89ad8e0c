/**
 * The defects of AReaL's tracker that are known by number, each with what this one does instead.
 *
 * Those that other tests look at from all sides have one witness here. D4, D26 and D27 are about ranks: what of them is
 * local is the row of an absent key, which is the identity of the merge.
 */
import * as tf from '@tensorflow/tfjs-core';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DtypeError, KeyConflictError, ShapeError, ValueError } from '../../../src/errors.js';
import { emptyRow, initBackend, liftRow, mergeRows } from '../../../src/kernels/index.js';
import { exportedNames, exportedNumbers } from '../../../src/tracker/records/reduce-type.js';
import { type ReduceType, StatsTracker, TrackerRegistry, ratio } from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';
import { CaughtWarnings } from './warnings.js';

let tracker: StatsTracker;

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  tracker = new StatsTracker();
  tf.engine().startScope();
  return () => {
    tf.engine().endScope();
    tracker.dispose();
  };
});

/** One mask that selects all, and one value. */
function stat(key: string, ...numbers: number[]): void {
  tracker.denominator({ m: tf.ones([numbers.length], 'bool') });
  tracker.stat({ [key]: values(...numbers) }, { denominator: 'm' });
}

const of = (key: string, avg: number, min = avg, max = avg) => ({
  [`${key}/avg`]: avg,
  [`${key}/min`]: min,
  [`${key}/max`]: max,
});

describe('export', () => {
  it('D1 of one key removes its state alone, and can be repeated', async () => {
    stat('v', 1, 3);
    tracker.scalar({ a: 1 });
    expect(await tracker.export({ key: 'v' })).toEqual(of('v', 2, 1, 3));
    expect(await tracker.export({ key: 'v' })).toEqual({});
    expect(await tracker.export()).toEqual({ a: 1, a__count: 1, m: 2 });
  });

  it('D2 of one key is numbers, as of all', async () => {
    stat('v', 1, 3);
    const exported = await tracker.export({ key: 'v', reset: false });
    expect(Object.values(exported).every((number) => typeof number === 'number')).toBe(true);
    expect(await tracker.export()).toMatchObject(exported);
  });

  it('D3 of an unknown key is empty, and knows it no better afterwards', async () => {
    expect(await tracker.export({ key: 'nope' })).toEqual({});
    expect(await tracker.export()).toEqual({});
  });

  it('D20 holds no lock: values may record while they are read, and records go on while it runs', async () => {
    stat('v', 1);
    const running = tracker.export();
    tracker.scalar({
      get reward() {
        tracker.scalar({ nested: 1 });
        return 5;
      },
    });
    expect(await running).toEqual({ m: 1, ...of('v', 1) });
    expect(await tracker.export()).toEqual({ nested: 1, nested__count: 1, reward: 5, reward__count: 1 });
  });

  it('D28 by one consumer drains nothing from another: each has its window', async () => {
    const registry = new TrackerRegistry({ windows: ['engine', 'controller'] });
    registry.get('rollout').scalar({ reward: 1 });
    const all = { 'rollout/reward': 1, 'rollout/reward__count': 1 };
    expect(await registry.exportAll()).toEqual(all);
    expect(await registry.get('rollout').export({ window: 'controller' })).toEqual(all);
  });
});

describe('a key that another rank does not have', () => {
  it.each<ReduceType>(['avg_min_max', 'avg', 'sum', 'min', 'max', 'scalar', 'last', 'counter'])(
    'D4 D26 D27 as %s: its empty row changes nothing of the others, whichever comes first',
    (type) => {
      const row = mergeRows(liftRow(5), liftRow(3));
      const numbers = exportedNumbers('k', type, row);
      for (const merged of [mergeRows(emptyRow, row), mergeRows(row, emptyRow)]) {
        expect(exportedNumbers('k', type, merged)).toEqual(numbers);
      }
      expect(numbers.map(([name]) => name)).toEqual(exportedNames('k', type));
    },
  );
});

describe('numbers', () => {
  it('D5 counts and sums of scalars are exact past 2^24', async () => {
    const rest = mergeRows({ ...liftRow(1), count: 2 ** 24, sum: 2 ** 24 }, liftRow(1));
    expect(exportedNumbers('k', 'scalar', rest)).toContainEqual(['k__count', 2 ** 24 + 1]);
    tracker.scalar({ big: 2_000_000_001 });
    expect(await tracker.export()).toEqual({ big: 2_000_000_001, big__count: 1 });
    for (let i = 0; i < 5; i++) tracker.scalar({ k: 1 }, { weight: 2 ** 22 + 1 });
    expect(await tracker.export()).toEqual({ k: 1, k__count: 5 * (2 ** 22 + 1) });
  });

  it('D6 selected elements are exact past 2^24', async () => {
    const m = tf.ones([1_000_003], 'bool');
    for (let i = 0; i < 40; i++) tracker.denominator({ m });
    expect(await tracker.export()).toEqual({ m: 40_000_120 });
  });

  it('D7 the mean of many equal values over many micro-batches is that value', async () => {
    const [m, v] = [tf.ones([8192], 'bool'), tf.fill([8192], 0.1)];
    for (let i = 0; i < 256; i++) {
      tracker.denominator({ m });
      tracker.stat({ v }, { denominator: 'm', reduceType: 'avg' });
    }
    const { v: mean } = await tracker.export();
    expect(Math.abs(mean! / Math.fround(0.1) - 1)).toBeLessThan(1e-12);
  });

  it('D12 NaN shows whatever the order of the micro-batches, and is counted on request', async () => {
    for (const batches of [
      [NaN, 1],
      [1, NaN],
    ]) {
      tracker = new StatsTracker('', { nonFinite: 'propagate' });
      for (const number of batches) stat('v', number);
      expect(await tracker.export()).toEqual({ m: 2, ...of('v', NaN), 'v/nonfinite': 1 });
    }
  });

  it('D13 an infinite extreme is one: emptiness is decided by the count', async () => {
    stat('v', -Infinity, 1);
    expect(await tracker.export()).toEqual({ m: 2, ...of('v', -Infinity, -Infinity, 1) });
  });

  it('D25 what is no mean over calls is not averaged: extremes, totals, the last one, weighted means, ratios', async () => {
    tracker = new StatsTracker('', { derived: { 'filtered/fraction': ratio('filtered', 'seen') } });
    for (const [staleness, tokens, filtered] of [
      [5, 100, 10],
      [1, 300, 0],
    ] as const) {
      tracker.scalar({ staleness_max: staleness }, { reduceType: 'max' });
      tracker.scalar({ staleness_min: staleness }, { reduceType: 'min' });
      tracker.scalar({ staleness_avg: staleness }, { weight: tokens });
      tracker.scalar({ version: staleness }, { reduceType: 'last' });
      tracker.counter({ filtered, seen: tokens });
    }
    expect(await tracker.export()).toEqual({
      ...{ filtered: 10, 'filtered/fraction': 10 / 400, seen: 400 },
      ...{ staleness_avg: 2, staleness_avg__count: 400, staleness_max: 5, staleness_min: 1, version: 1 },
    });
  });
});

describe('records that contradict each other', () => {
  it('D8 two masks and one value, one mask and two values: refused with the key and both numbers', async () => {
    stat('v', 1);
    expect(() => {
      tracker.stat({ v: values(2) }, { denominator: 'm' });
    }).toThrow(/v: expected at most one value per mask of 'm' \(1 so far\), got value 2/);
    tracker.denominator({ m: mask(1) });
    await expect(tracker.export()).rejects.toThrow(
      /v: expected one value per mask of 'm' \(2\), got 1 value/,
    );
  });

  it('D9 one key under two denominators', () => {
    stat('v', 1);
    tracker.denominator({ n: mask(1) });
    expect(() => {
      tracker.stat({ v: values(2) }, { denominator: 'n' });
    }).toThrow(/under 'm'.*under 'n'/);
  });

  it('D10 one key with two reduce types, or as stat and scalar', () => {
    stat('v', 1);
    tracker.denominator({ m: mask(1) });
    expect(() => {
      tracker.stat({ v: values(2) }, { denominator: 'm', reduceType: 'sum' });
    }).toThrow(KeyConflictError);
    expect(() => {
      tracker.scalar({ v: 2 });
    }).toThrow(KeyConflictError);
  });

  it('D11 leave nothing behind: the call that is refused was never made', async () => {
    tracker.denominator({ m: mask(1, 1) });
    expect(() => {
      tracker.stat({ good: values(1, 2), v: values(1) }, { denominator: 'm' });
    }).toThrow(ShapeError);
    expect(() => {
      tracker.scalar({ a: 1, b: null as unknown as number });
    }).toThrow(ValueError);
    expect(await tracker.export()).toEqual({ m: 2 });
  });

  it('D18 two keys that export one name', async () => {
    stat('a', 1);
    expect(() => {
      tracker.scalar({ 'a/avg': 7 });
    }).toThrow(KeyConflictError);
    tracker.scalar({ x: 1 });
    expect(() => {
      tracker.scalar({ x__count: 7 });
    }).toThrow(KeyConflictError);
    expect(await tracker.export()).toEqual({ m: 1, ...of('a', 1), x: 1, x__count: 1 });
  });

  it('D19 what is no tensor is refused as that', () => {
    for (const wrong of [null, [1, 0], 1, 'm']) {
      expect(() => {
        tracker.denominator({ m: wrong as unknown as tf.Tensor });
      }).toThrow(DtypeError);
    }
  });
});

describe('scopes and timings', () => {
  it('D14 two tasks that take turns keep their scopes', async () => {
    const task = (name: string) =>
      tracker.scope(name, async () => {
        await nextTurn();
        tracker.counter({ x: 1 });
        await nextTurn();
        tracker.counter({ x: 1 });
      });
    const unscoped = () => {
      tracker.counter({ x: 1 });
    };
    await Promise.all([task('A'), task('B'), nextTurn().then(unscoped)]);
    expect(await tracker.export()).toEqual({ 'A/x': 2, 'B/x': 2, x: 1 });
  });

  it('D15 an async function in a scope records in it to its end', async () => {
    const wrapped = (x: number) =>
      tracker.scope('s', async () => {
        await nextTurn();
        tracker.counter({ x });
      });
    await wrapped(3);
    expect(await tracker.export()).toEqual({ 's/x': 3 });
  });

  it('D16 a throw in disableScope gives the scope back and is the error that arrives', async () => {
    tracker.scope('a', () => {
      expect(() =>
        tracker.disableScope(() => {
          throw new Error('the real one');
        }),
      ).toThrow('the real one');
      tracker.counter({ x: 1 });
    });
    expect(await tracker.export()).toEqual({ 'a/x': 1 });
  });

  it('D17 one timing in several trackers is one, with all of its calls', async () => {
    let now = 0;
    const registry = new TrackerRegistry({ clock: () => now });
    registry.get('rollout').recordTiming('x', () => (now += 1));
    registry.get('').recordTiming('x', () => (now += 3));
    expect(await registry.exportAll()).toEqual({ 'timeperf/x': 2, 'timeperf/x__count': 2 });
  });

  it('D21 one mask serves all scopes through its handle', async () => {
    const valid = tracker.denominator('n_valid_tokens', mask(1, 0));
    tracker.scope('update', () => {
      valid.stat({ loss: values(1, 9) }, { reduceType: 'avg' });
      tracker.scope('version', () => {
        valid.stat({ staleness: values(2, 9) }, { reduceType: 'max' });
      });
    });
    expect(await tracker.export()).toEqual({
      n_valid_tokens: 1,
      'update/loss': 1,
      'update/version/staleness': 2,
    });
  });
});

describe('growth', () => {
  it('D22 no value is kept, and of the masks only the last: memory does not grow with tokens or micro-batches', () => {
    const before = tf.memory().numTensors;
    tf.tidy(() => {
      for (let i = 0; i < 50; i++) stat('v', 1, 2, 3);
    });
    expect(tf.memory().numTensors).toBe(before + 1);
    expect(tracker.memory()).toMatchObject({ keys: 2, heldMasks: 1 });
  });

  it('D23 a record looks at its own values alone, not at those before it', () => {
    const v = values(1, 2);
    const { shape } = v;
    let looks = 0;
    Object.defineProperty(v, 'shape', { get: () => (looks++, shape) });
    const perCall = Array.from({ length: 20 }, () => {
      const before = looks;
      tracker.denominator({ m: mask(1, 1) });
      tracker.stat({ v }, { denominator: 'm' });
      return looks - before;
    });
    expect(perCall[0]).toBeGreaterThan(0);
    expect(new Set(perCall).size).toBe(1);
  });

  it('D24 a tracker that nobody exports says so', () => {
    const warnings = new CaughtWarnings();
    const critic = new StatsTracker('ppo_critic', { exportReminder: 5 });
    for (let i = 0; i < 20; i++) critic.scalar({ lr: 1 });
    expect(warnings.of('TENSORTALLY_NEVER_EXPORTED')).toEqual([expect.stringContaining('ppo_critic')]);
    warnings.stop();
  });
});

describe('D29 names', () => {
  it('come from one table, which the export and the checks of collisions share', async () => {
    stat('v', 1);
    tracker.scalar({ s: 1 });
    tracker.counter({ c: 1 });
    const table = (
      [
        ['c', 'counter'],
        ['m', 'denominator'],
        ['s', 'scalar'],
        ['v', 'avg_min_max'],
      ] as const
    ).flatMap(([key, type]) => exportedNames(key, type));
    expect(Object.keys(await tracker.export())).toEqual(table.sort());
  });
});
