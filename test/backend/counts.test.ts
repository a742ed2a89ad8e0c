/** What a device feels, counted: launches, read-backs, bytes. Exact on every machine, so regressions show anywhere. */
import * as tf from '@tensorflow/tfjs-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { countDeviceWork } from '../../bench/counters/index.js';
import { deviceBytes, onDevice } from '../../bench/inputs.js';
import { type RolloutShape, rollout, rolloutTensors } from '../../bench/rollout.js';
import { scenarioNamed } from '../../bench/scenarios/index.js';
import {
  type RolloutBatch,
  batchFromVerl,
  collect,
  computeDataMetrics,
  maskedMoments,
  momentsTables,
} from '../../src/index.js';
import { dataMetrics } from '../../src/metrics/data.js';
import { throughputMetrics } from '../../src/metrics/time/throughput.js';
import { timingMetrics } from '../../src/metrics/time/timing.js';
import { testBackend } from '../support/backend.js';

const backend = await testBackend();
const hasDevice = backend === 'webgpu' || backend === 'tensorflow';

/** Launches that a mask group may take, however many channels it has. */
const MOST_LAUNCHES = { webgpu: 2, tensorflow: 18 };

describe('a training step', () => {
  const shape: RolloutShape = { rows: 1024, responseWidth: 4096, promptWidth: 1024 };
  let tensors: Record<string, tf.Tensor>;
  let batch: RolloutBatch;
  beforeAll(() => {
    tensors = rolloutTensors(rollout(shape, 7), shape);
    batch = batchFromVerl(tensors);
  });
  afterAll(() => {
    tf.dispose(Object.values(tensors));
  });

  // First of all tests: a workspace that the first call makes and keeps is extra memory too.
  test.runIf(backend !== 'tensorflow')('takes hardly any memory beside its inputs', async () => {
    const { peakBytes } = await countDeviceWork(() => computeDataMetrics(batch));
    expect(peakBytes).toBeLessThanOrEqual(0.01 * deviceBytes(Object.values(tensors)));
  });

  test.runIf(hasDevice)('reads all of its metrics back at once, and little', async () => {
    const timings = { gen: 1, step: 2 };
    const { readBacks, readBackBytes } = await countDeviceWork(() =>
      collect(dataMetrics(batch), timingMetrics(batch, timings), throughputMetrics(batch, timings, 8)),
    );
    expect(readBacks).toBe(1);
    expect(readBackBytes!).toBeLessThanOrEqual(0.01 * deviceBytes(Object.values(tensors)));
  });
});

describe('the counters', () => {
  const size = 250_000;

  test.runIf(hasDevice)('see ops, read-backs and temporaries', async () => {
    const x = onDevice(new Float32Array(size).fill(1), [size]);
    const counts = await countDeviceWork(async () => {
      const sum = tf.tidy(() => tf.add(tf.mul(x, x), x));
      expect((await sum.data())[size - 1]).toBe(2);
      sum.dispose();
    });
    expect(counts).toMatchObject({ launches: 2, readBacks: 1, readBackBytes: 4 * size });
    expect(counts.peakBytes).toBeGreaterThanOrEqual(2 * 4 * size);
    x.dispose();
  });

  test.runIf(!hasDevice)('see what is allocated', async () => {
    const { launches, readBacks, peakBytes } = await countDeviceWork(() => {
      tf.fill([size], 1).dispose();
      return Promise.resolve();
    });
    expect({ launches, readBacks }).toEqual({ launches: undefined, readBacks: undefined });
    expect(peakBytes).toBeGreaterThanOrEqual(4 * size);
  });

  test('leave the backend as it was', async () => {
    await countDeviceWork(() => Promise.resolve());
    const twice = await countDeviceWork(async () => {
      await countDeviceWork(() => maskedMoments(tf.ones([8]), tf.ones([8], 'bool')).then());
    });
    const { count, mean } = await maskedMoments(tf.tensor1d([1, 2, 3]));
    expect([count, mean]).toEqual([3, 2]);
    if (hasDevice) expect(twice.readBacks).toBe(1);
  });
});

describe.runIf(hasDevice)('a mask group', () => {
  const shape = [64, 512];
  const length = 64 * 512;
  const mask = onDevice(
    Uint8Array.from({ length }, (_, i) => (i % 3 === 0 ? 0 : 1)),
    shape,
  );
  const values = Array.from({ length: 7 }, (_, k) =>
    onDevice(
      Float32Array.from({ length }, (_, i) => Math.sin(i + k)),
      shape,
    ),
  );
  afterAll(() => {
    tf.dispose([mask, ...values]);
  });

  /** Launches of the second run: the first may have to make constants. What reading back takes is not a launch. */
  const launchesOf = async (channels: number, axis?: -1): Promise<number> => {
    const record = Object.fromEntries(values.slice(0, channels).map((x, k) => [`x${k}`, x]));
    await maskedMoments(record, mask, axis && { axis });
    let pending: ReturnType<typeof momentsTables> | undefined;
    const { launches } = await countDeviceWork(() => {
      pending = momentsTables(record, mask, axis && { axis });
      return Promise.resolve();
    });
    const { readBacks } = await countDeviceWork(() => pending!.then());
    expect(readBacks).toBe(1);
    return launches!;
  };

  test.each([
    ['all elements', undefined],
    ['each row', -1],
  ] as const)('takes few launches for %s, however many channels it has', async (_, axis) => {
    const counts = [];
    for (const channels of [1, 2, 5, 7]) counts.push(await launchesOf(channels, axis));
    expect(Math.max(...counts)).toBeLessThanOrEqual(MOST_LAUNCHES[backend as keyof typeof MOST_LAUNCHES]);
    expect(new Set(counts.slice(1)).size).toBe(1);
  });
});

test.runIf(hasDevice)('a tracker reads a step of records back once', async () => {
  const work = scenarioNamed('tracker')!.sizes.tiny.prepare();
  const { readBacks } = await countDeviceWork(() => work.ways.ours.run());
  work.dispose();
  expect(readBacks).toBe(1);
});
