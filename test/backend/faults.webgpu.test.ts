/** Faults of the GPU device: each becomes an exception, never a number. The loss of the device is another file. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { maskedMoments } from '../../src/kernels/index.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { testBackend } from '../support/backend.js';

await testBackend();

interface Device {
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
