/** Faults of the GPU device: each becomes an exception, never a number. The loss of the device is another file. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import {
  channelMoments,
  collect,
  expression as e,
  logitsStatistics,
  maskedHistograms,
  maskedMoments,
} from '../../src/kernels/index.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { testBackend } from '../support/backend.js';
import { failureOf } from '../support/failures.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

interface Device {
  readonly limits: { readonly maxStorageBufferBindingSize: number };
  createBuffer(descriptor: { size: number; usage: number }): unknown;
  createComputePipeline: (descriptor: { compute: object }) => unknown;
}

function backend(): { readonly device: Device } {
  return tf.backend() as unknown as { readonly device: Device };
}

describe('a fault of the device', () => {
  test('outside of any launch is reported by the next read-back, once', async () => {
    const values = tf.tensor1d([1, 2, 3]);
    expect((await maskedMoments(values)).sum).toBe(6);
    const impossible = 0; // a buffer that can be used for nothing
    backend().device.createBuffer({ size: 16, usage: impossible });
    await expect(maskedMoments(values)).rejects.toThrow(BackendError);
    expect((await maskedMoments(values)).sum).toBe(6);
    values.dispose();
  });

  test('inside a launch is reported by the read-back of that launch', async () => {
    const values = tf.tensor1d([1, 2, 3]);
    const { device } = backend();
    const createBindGroup = (device as unknown as { createBindGroup: (d: object) => unknown })
      .createBindGroup;
    Object.assign(device, {
      createBindGroup: (descriptor: { entries: object[] }) =>
        createBindGroup.call(device, { ...descriptor, entries: descriptor.entries.slice(1) }),
    });
    const broken = maskedMoments(values);
    Object.assign(device, { createBindGroup });
    await expect(broken).rejects.toThrow(BackendError);
    expect((await maskedMoments(values)).sum).toBe(6);
    values.dispose();
  });

  test('is not met again by launches of the same kind', async () => {
    const values = tf.tensor1d([1, 2, 3]);
    const { device } = backend();
    const { createComputePipeline } = device;
    // What is made while the device has a fault is broken, and must not be kept for the next launch.
    Object.assign(device, {
      createComputePipeline: (descriptor: { compute: object }) =>
        createComputePipeline.call(device, {
          ...descriptor,
          compute: { ...descriptor.compute, entryPoint: 'absent' },
        }),
    });
    // Of a kind that no other test has: two channels and no mask.
    const launch = () => maskedMoments({ a: values, b: values });
    const broken = launch();
    Object.assign(device, { createComputePipeline });
    await expect(broken).rejects.toThrow(BackendError);
    expect((await launch()).b.sum).toBe(6);
    values.dispose();
  });

  test('costs a tracker what was on the device, once, and nothing after that', async () => {
    const tracker = new StatsTracker();
    const record = () => {
      tf.tidy(() => {
        tracker.denominator({ m: tf.tensor1d([1, 1], 'bool') });
        tracker.stat({ v: tf.tensor1d([1, 3]) }, { denominator: 'm' });
      });
    };
    record();
    tracker.scalar({ s: 4 });
    backend().device.createBuffer({ size: 16, usage: 0 });
    await expect(tracker.export()).rejects.toThrow(BackendError);
    // What the device could not deliver counts as empty; what was on the host is all there.
    expect(await tracker.export()).toEqual({ m: 0, s: 4, s__count: 1 });
    record();
    expect(await tracker.export()).toEqual({ m: 2, 'v/avg': 2, 'v/max': 3, 'v/min': 1 });
  });
});

/** An op of the caller that the device refuses, with all commands that are recorded with it. */
function failingOp(): void {
  tf.fill([backend().device.limits.maxStorageBufferBindingSize + 4], 1).dispose();
}

describe('what was launched before an op of the caller fails', () => {
  let x: tf.Tensor;
  let m: tf.Tensor;

  beforeEach(async () => {
    // What recycled buffers hold: the numbers of others.
    const other = deviceTensor({ shape: [2, 3], values: [200, 200, 200, 200, 200, 200] });
    const ones = deviceTensor({ shape: [2, 3], values: [1, 1, 1, 1, 1, 1] });
    for (let i = 0; i < 3; i++) await collect(maskedMoments(other, ones), maskedMoments(other));
    tf.dispose([other, ones]);
    x = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
    m = deviceTensor({ shape: [2, 3], values: [1, 0, 1, 0, 1, 0], dtype: 'bool' });
  });

  afterEach(() => {
    tf.dispose([x, m]);
  });

  const launches: Readonly<Record<string, () => PromiseLike<unknown>>> = {
    'moments under a mask': () => maskedMoments(x, m),
    moments: () => maskedMoments(x),
    'rows of moments': () => maskedMoments(x, m, { axis: -1 }),
    channels: () => channelMoments({ y: e.exp(e.negate('x')) }, { x }, m),
    histograms: () => maskedHistograms({ x }, m),
  };

  test.each(['the first', 'the last'])('rejects, whoever is read first: %s', async (which) => {
    const before = Object.entries(launches).map(([name, launch]) => ({ name, pending: launch() }));
    failingOp();
    const after = maskedMoments(x);
    if (which === 'the last') before.reverse();
    for (const { name, pending } of before)
      expect(await failureOf(pending), name).toBeInstanceOf(BackendError);
    expect((await after).mean).toBe(3.5);
    for (const launch of Object.values(launches)) await launch();
    expect((await maskedMoments(x, m)).mean).toBe(3);
  });

  test('rejects also behind a result that was launched after it and is right', async () => {
    const p1 = maskedMoments(x, m);
    const p2 = maskedMoments(x);
    failingOp();
    expect((await maskedMoments(x)).mean).toBe(3.5);
    await expect(p2).rejects.toThrow(BackendError);
    await expect(p1).rejects.toThrow(BackendError);
  });

  test('rejects a read-back of several, and those launched after it are still there', async () => {
    const before = maskedMoments(x, m);
    failingOp();
    const after = maskedMoments(x);
    await expect(collect(before, after)).rejects.toThrow(BackendError);
    expect((await after).mean).toBe(3.5);
    await expect(before).rejects.toThrow(BackendError);
  });

  test('rejects after several faults, and so does what was launched between them', async () => {
    const [p1, p2, p3] = [0, 1, 2].map(() => {
      const pending = maskedMoments(x, m);
      failingOp();
      return pending;
    });
    const p4 = maskedMoments(x, m);
    await expect(p2).rejects.toThrow(BackendError);
    expect((await p4).mean).toBe(3);
    await expect(p3).rejects.toThrow(BackendError);
    await expect(p1).rejects.toThrow(BackendError);
  });

  test('rejects when the commands were submitted by tfjs meanwhile', async () => {
    const p1 = maskedMoments(x, m);
    const p2 = maskedMoments(x);
    failingOp();
    const sum = tf.add(x, x);
    await sum.data();
    sum.dispose();
    await expect(p2).rejects.toThrow(BackendError);
    await expect(p1).rejects.toThrow(BackendError);
    expect((await maskedMoments(x)).mean).toBe(3.5);
  });

  test('rejects when it is a launch of ours that cannot be bound', async () => {
    const { device } = backend();
    const createBindGroup = (device as unknown as { createBindGroup: (d: object) => unknown })
      .createBindGroup;
    const before = maskedMoments(x);
    Object.assign(device, {
      createBindGroup: (descriptor: { entries: object[] }) =>
        createBindGroup.call(device, { ...descriptor, entries: descriptor.entries.slice(1) }),
    });
    const broken = maskedMoments(x, m, { axis: -1 });
    Object.assign(device, { createBindGroup });
    const recordedWithIt = maskedMoments(x);
    for (const pending of [recordedWithIt, before, broken])
      await expect(pending).rejects.toThrow(BackendError);
    expect((await maskedMoments(x)).mean).toBe(3.5);
  });

  test('refuses passes over what logitsStatistics has made of it', async () => {
    const logits = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
    const labels = deviceTensor({ shape: [2], values: [0, 1], dtype: 'int32' });
    const { entropy, ...others } = logitsStatistics(logits, labels);
    failingOp();
    await expect(maskedMoments({ entropy })).rejects.toThrow(/entropy: .*without errors/);
    await expect(maskedMoments(tf.reshape(others.maxProb, [2, 1]))).rejects.toThrow(/without errors/);
    const again = logitsStatistics(logits, labels);
    const { mean } = await maskedMoments(again.entropy);
    expect(mean).toBeCloseTo(0.8324, 3);
    // What a read-back has shown to be sound stays so.
    failingOp();
    await failureOf(maskedMoments(x));
    expect((await maskedMoments(again.entropy)).mean).toBe(mean);
    tf.dispose([logits, labels, { entropy, ...others }, { ...again }]);
  });

  test('refuses passes over what other ops were to make with it, and only over that', async () => {
    const sound = tf.mul(x, 2);
    await maskedMoments(x);
    const lost = tf.mul(x, 2);
    const pending = maskedMoments(x);
    failingOp();
    const alsoLost = tf.add(x, 1);
    await expect(maskedMoments({ lost })).rejects.toThrow(/lost: .*without errors/);
    await expect(maskedMoments({ alsoLost })).rejects.toThrow(/alsoLost: .*without errors/);
    expect((await maskedMoments(sound)).mean).toBe(7);
    const again = tf.mul(x, 2);
    expect((await maskedMoments(again)).mean).toBe(7);
    await expect(maskedMoments({ lost })).rejects.toThrow(BackendError);
    await expect(pending).rejects.toThrow(BackendError);
    tf.dispose([sound, lost, alsoLost, again]);
  });

  test('is missing from exports of all trackers and windows, never an older number', async () => {
    const trackers = ['a', 'b'].map((name) => new StatsTracker(name, { windows: ['step', 'epoch'] }));
    const record = (values: tf.Tensor): void => {
      for (const tracker of trackers) {
        tracker.denominator({ n: m });
        tracker.stat({ v: values }, { denominator: 'n' });
        tracker.stat({ h: values }, { denominator: 'n', reduceType: 'histogram' });
      }
    };
    const old = deviceTensor({ shape: [2, 3], values: [7, 7, 7, 7, 7, 7] });
    record(old);
    for (const tracker of trackers) await tracker.export();
    record(x);
    failingOp();
    record(old);
    for (const tracker of trackers) {
      await expect(tracker.export()).rejects.toThrow(BackendError);
      const exported = await tracker.export();
      const numbers = Object.entries(exported).filter(([name]) => /\/v\/(avg|min|max)$/.test(name));
      expect(numbers.map(([, number]) => number)).toEqual([7, 7, 7]);
      expect(Object.entries(exported).find(([name]) => name.endsWith('/n'))?.[1]).toBe(3);
      await expect(tracker.export({ window: 'epoch' })).rejects.toThrow(BackendError);
      const epoch = await tracker.export({ window: 'epoch' });
      expect(Object.entries(epoch).find(([name]) => name.endsWith('/n'))?.[1]).toBe(6);
      tracker.dispose();
    }
    old.dispose();
  });
});
