/** The tracker on every backend: what a step records, what it reads, what it keeps. */
import '@tensorflow/tfjs';
import * as tf from '@tensorflow/tfjs-core';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BackendError } from '../../src/errors.js';
import { emptyRow, liftRow, mergeRows } from '../../src/kernels/index.js';
import { Moments } from '../../src/rows/moments.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { UnreadLaunches } from '../../src/tracker/records/launch.js';
import { batches } from '../support/arbitraries.js';
import { elsewhere, hasDevice, testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
import { alive, expectNoLeaks } from '../support/leaks.js';
import { runsOf } from '../support/long.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();
const readBacksOfOne = hasDevice() ? 1 : 0;

interface MicroBatch {
  readonly values: readonly number[];
  readonly mask: readonly number[];
}

function microBatch(seed: number, size: number): MicroBatch {
  const random = seeded(seed);
  return {
    values: Array.from({ length: size }, () => Math.fround(normal(random))),
    mask: Array.from({ length: size }, () => (random() < 0.6 ? 1 : 0)),
  };
}

/** Records a micro-batch as a trainer does, which frees its tensors in the next line. */
function record(tracker: StatsTracker, { values, mask }: MicroBatch, how: 'name' | 'handle' = 'name'): void {
  const shape = [values.length];
  const v = deviceTensor({ shape, values });
  const w = tf.add(v, 10);
  const m = deviceTensor({ shape, values: mask, dtype: 'bool' });
  if (how === 'name') {
    tracker.denominator({ m });
    tracker.stat({ v, w }, { denominator: 'm' });
    tracker.stat({ s: v }, { denominator: 'm', reduceType: 'sum' });
  } else {
    using valid = tracker.denominator('m', m);
    valid.stat({ v, w });
    valid.stat({ s: v }, { reduceType: 'sum' });
  }
  tf.dispose([v, w, m]);
}

function selected({ values, mask }: MicroBatch): number[] {
  return values.filter((_, i) => mask[i] === 1);
}

function momentsOf(all: readonly MicroBatch[]): Moments {
  return new Moments(all.flatMap(selected).map(liftRow).reduce(mergeRows, emptyRow));
}

/** The export of `v` and `m` as moments, with what the export does not have taken from `want`. */
function asMoments(exported: Readonly<Record<string, number>>, want: Moments): Moments {
  const { m: count, s: sum, 'v/avg': mean = NaN, 'v/min': min = NaN, 'v/max': max = NaN } = exported;
  return Object.assign(Object.create(want) as Moments, { count, sum, mean, min, max });
}

describe.each(['name', 'handle'] as const)('masks by %s', (how) => {
  test('give the statistics of all micro-batches together', async () => {
    const all = [microBatch(1, 1000), microBatch(2, 37), microBatch(3, 4096), { values: [9], mask: [0] }];
    const tracker = new StatsTracker();
    await expectNoLeaks(async () => {
      for (const batch of all) record(tracker, batch, how);
      const exported = await tracker.export();
      const want = momentsOf(all);
      expectContract(asMoments(exported, want), want, how);
      const shifted = exported['w/avg']! - 10;
      expect(Math.abs(shifted - want.mean)).toBeLessThan(1e-6 * 11);
    });
  });

  test('read back once, and nothing while recording', async () => {
    const tracker = new StatsTracker();
    if (readBacksOfOne > 0) {
      expect(
        await countReadBacks(backend, () => {
          for (let i = 0; i < 10; i++) record(tracker, microBatch(i, 100), how);
          return Promise.resolve();
        }),
      ).toBe(0);
    }
    const unused = tf.ones([3], 'bool');
    tracker.denominator({ unused });
    unused.dispose();
    expect(await countReadBacks(backend, () => tracker.export())).toBe(readBacksOfOne);
  });

  test('leave nothing behind when the tracker is disposed', async () => {
    await expectNoLeaks(async () => {
      const tracker = new StatsTracker('', { windows: ['a', 'b'] });
      for (let i = 0; i < 5; i++) record(tracker, microBatch(i, 100), how);
      await tracker.export();
      for (let i = 0; i < 5; i++) record(tracker, microBatch(i, 100), how);
      tracker.dispose();
      expect(tracker.memory()).toMatchObject({ keys: 0, deviceBytes: 0, heldMasks: 0, unreadLaunches: 0 });
    });
  });
});

describe('windows', () => {
  test('have the statistics of the records since their own export', async () => {
    const all = Array.from({ length: 6 }, (_, i) => microBatch(i, 200 + i));
    const tracker = new StatsTracker('', { windows: ['step', 'epoch'] });
    await expectNoLeaks(async () => {
      for (let i = 0; i < all.length; i += 2) {
        const step = all.slice(i, i + 2);
        for (const batch of step) record(tracker, batch);
        const want = momentsOf(step);
        expectContract(asMoments(await tracker.export(), want), want, `step ${i}`);
      }
      const want = momentsOf(all);
      expect(await countReadBacks(backend, () => tracker.export({ window: 'epoch', reset: false }))).toBe(0);
      expectContract(asMoments(await tracker.export({ window: 'epoch' }), want), want, 'epoch');
    });
  });
});

describe('any split into micro-batches', () => {
  test('exports what the whole exports, within the contract', async () => {
    await fc.assert(
      fc.asyncProperty(
        batches(6, 20, { finite: true }),
        fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 4 }),
        async ({ values, mask }, lengths) => {
          const tracker = new StatsTracker();
          const parts: MicroBatch[] = [];
          for (let at = 0, i = 0; at < values.length; i++) {
            const end = at + lengths[i % lengths.length]!;
            parts.push({ values: values.slice(at, end), mask: mask.slice(at, end) });
            at = end;
          }
          parts.forEach((part, i) => {
            record(tracker, part, i % 3 === 0 ? 'handle' : 'name');
          });
          const want = momentsOf([{ values, mask }]);
          expectContract(asMoments(await tracker.export(), want), want, 'split');
        },
      ),
      { numRuns: runsOf(25) },
    );
  });
});

describe('a tracker that nobody exports', () => {
  test('holds no more of the device after many records than after some', async () => {
    const tracker = new StatsTracker('', { exportReminder: Infinity });
    const v = deviceTensor({ shape: [4], values: [1, 2, 3, 4] });
    const m = deviceTensor({ shape: [4], values: [1, 0, 1, 1], dtype: 'bool' });
    const before = alive();
    const batches = 4000;
    for (let i = 0; i < batches; i++) {
      tracker.denominator({ m });
      tracker.stat({ v }, { denominator: 'm', reduceType: 'sum' });
      if (i % 50 !== 0) continue;
      // Reading takes a while on a device: as a trainer waits for its step, so does this, and nobody asks to read.
      for (let turn = 0; turn < 1e6 && tracker.memory().unreadLaunches > UnreadLaunches.LIMIT; turn++)
        await nextTurn();
      expect(tracker.memory().unreadLaunches).toBeLessThanOrEqual(UnreadLaunches.LIMIT);
    }
    expect(alive().dataIds - before.dataIds).toBeLessThan(2 * UnreadLaunches.LIMIT);
    expect(await tracker.export()).toEqual({ m: 3 * batches, v: 8 * batches });
    tf.dispose([v, m]);
  });
});

test('a value on another backend than its mask is refused as a stat, and nothing is recorded', async () => {
  await expectNoLeaks(async () => {
    const tracker = new StatsTracker();
    const mask = deviceTensor({ shape: [3], values: [1, 0, 1], dtype: 'bool' });
    const stranger = await elsewhere(() => tf.keep(tf.tensor1d([1, 2, 3])));
    tracker.denominator({ m: mask });
    const record = (): void => {
      tracker.stat({ v: stranger }, { denominator: 'm' });
    };
    expect(record).toThrow(BackendError);
    expect(record).toThrow(/^stat: mask: expected a tensor on the backend that holds v/);
    expect(await tracker.export()).toEqual({ m: 2 });
    tf.dispose([mask, stranger]);
  });
});
