/**
 * A million records without growth, as of a trainer that runs for weeks: what a tracker keeps does not grow with them. A
 * fifth of them in a short run.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';
import { collectGarbage } from '../../bench/measure/heap.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { isLong } from '../support/long.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const RECORDS = isLong ? 1_000_000 : 200_000;
/** Records of tensors among them: a software adapter takes a millisecond for each. */
const TENSORS = RECORDS / (hasDevice() ? 500 : 20);
const ROUNDS = 10;

interface Held {
  readonly heap: number;
  readonly tensors: number;
  readonly tracked: ReturnType<StatsTracker['memory']>;
}

test(`${RECORDS} records leave heap and device as they were`, async () => {
  const tracker = new StatsTracker('', { exportReminder: Infinity });
  const values = deviceTensor({ shape: [8], values: [1, 2, 3, 4, 5, 6, 7, 8] });
  const mask = deviceTensor({ shape: [8], values: [1, 1, 1, 1, 1, 1, 1, 0], dtype: 'bool' });
  const numbersPerTensor = RECORDS / TENSORS - 2;

  async function round(): Promise<Held> {
    for (let i = 0; i < TENSORS / ROUNDS; i++) {
      tracker.denominator({ n: mask });
      tracker.stat({ x: values }, { denominator: 'n' });
      for (let k = 0; k < numbersPerTensor; k++) tracker.scalar({ reward: k });
      if (i % 100 === 0) await nextTurn();
    }
    // Reads what is on the device without forgetting anything.
    await tracker.export({ reset: false });
    collectGarbage();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return { heap: heapUsed + arrayBuffers, tensors: tf.memory().numTensors, tracked: tracker.memory() };
  }

  await round();
  const early = await round();
  let late = early;
  for (let i = 2; i < ROUNDS; i++) late = await round();
  expect(late.tensors).toBe(early.tensors);
  expect(late.tracked).toMatchObject({ keys: 3, heldMasks: early.tracked.heldMasks, unreadLaunches: 0 });
  // Eight rounds more: as many records each as would take megabytes if they were kept.
  expect(late.heap - early.heap).toBeLessThan(2 ** 21);
  expect(late.tracked.records).toBe(RECORDS);

  const exported = await tracker.export();
  expect(exported).toMatchObject({ n: 7 * TENSORS, 'x/avg': 4, reward__count: numbersPerTensor * TENSORS });
  tracker.dispose();
  tf.dispose([values, mask]);
});
