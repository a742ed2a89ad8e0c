/** Packed masks on a GPU: what they cost, what no binding holds at once, and what a fault of the device does to them. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, describe, expect, test, vi } from 'vitest';

import { countDeviceWork } from '../../bench/counters/index.js';
import { BackendError } from '../../src/errors.js';
import { input } from '../../src/kernels/expression.js';
import {
  type CompactMask,
  channelTables,
  collect,
  compactMask,
  expression as e,
  maskedMoments,
} from '../../src/kernels/index.js';
import { denseWindow, passTables } from '../../src/kernels/moments/pass.js';
import { webGpuDevice } from '../../src/kernels/webgpu/device.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';
import { pretendedLimits } from '../support/webgpu-limits.js';

await testBackend();

interface Entry {
  readonly resource: { readonly buffer: { readonly size: number }; readonly size?: number };
}

interface Device {
  readonly limits: Record<string, number>;
  createBuffer: (descriptor: { size: number; usage: number }) => unknown;
  createBindGroup: (descriptor: { readonly entries: readonly Entry[] }) => object;
}

const { device } = tf.backend() as unknown as { device: Device };
const pretend = pretendedLimits();

afterEach(() => {
  vi.restoreAllMocks();
});

/** Bytes of the bindings of the launches that `body` makes, of each launch in order. */
function bindingSizes(body: () => void): number[][] {
  const made = vi.spyOn(device, 'createBindGroup');
  body();
  const launches = made.mock.calls.map(([{ entries }]) =>
    entries.map(({ resource }) => resource.size ?? resource.buffer.size),
  );
  made.mockRestore();
  return launches;
}

const random = seeded(11);

function tensors(rows: number, cols: number): { x: tf.Tensor; mask: tf.Tensor } {
  const values = Float32Array.from({ length: rows * cols }, () => normal(random, 2, 1));
  const chosen = values.map(() => (random() < 0.6 ? 1 : 0));
  return {
    x: deviceTensor({ shape: [rows, cols], values }),
    mask: deviceTensor({ shape: [rows, cols], values: chosen, dtype: 'bool' }),
  };
}

describe('a pass', () => {
  test('reads one bit for four bytes', async () => {
    const [rows, cols] = [40, 256];
    const { x, mask } = tensors(rows, cols);
    const compact = compactMask(mask);
    const pending: { release(): void }[] = [];
    const read = (by: tf.Tensor | CompactMask): number[] => {
      const [launch, ...others] = bindingSizes(() => {
        pending.push(maskedMoments(x, by));
      });
      expect(others).toEqual([]);
      return launch!.slice(1, 3); // after the records, before the uniforms
    };
    expect(read(mask)).toEqual([4 * rows * cols, 4 * rows * cols]);
    expect(read(compact)).toEqual([4 * rows * cols, (rows * cols) / 8]);
    await maskedMoments(x); // what is recorded is submitted
    for (const each of pending) each.release();
    compact.release();
    tf.dispose([x, mask]);
  });

  test('takes as many launches as with a tensor, and making the mask one', async () => {
    const { x, mask } = tensors(40, 256);
    let compact: CompactMask | undefined;
    const making = await countDeviceWork(() => {
      compact = compactMask(mask);
      return Promise.resolve();
    });
    expect(making).toMatchObject({ launches: 1, readBacks: 0 });
    const few = deviceTensor({ shape: [64, 64], values: new Float32Array(4096).fill(1) });
    const keeping = await countDeviceWork(() => {
      compactMask(few).release();
      return Promise.resolve();
    });
    expect(keeping.launches).toBe(0);
    const ofTensor = await countDeviceWork(() => maskedMoments(x, mask).then());
    const ofCompact = await countDeviceWork(() => maskedMoments(x, compact).then());
    expect(ofCompact.launches).toBe(ofTensor.launches);
    compact!.release();
    tf.dispose([x, mask, few]);
  });
});

describe('masks that are larger than a binding', () => {
  // Several rows at once, parts of rows, rows that begin anywhere, and one long row.
  test.each([
    { rows: 60, cols: 128, limit: 4096 },
    { rows: 5, cols: 1000, limit: 1536 },
    { rows: 60, cols: 127, limit: 4096 },
    { rows: 1, cols: 5003, limit: 2048 },
    { rows: 1, cols: 70_000, limit: 1024 },
  ])('$rows rows of $cols in bindings of $limit bytes', async ({ rows, cols, limit }) => {
    await expectNoLeaks(async () => {
      const { x, mask } = tensors(rows, cols);
      const chosen = Array.from(await mask.data());
      pretend({ maxStorageBufferBindingSize: limit });
      let compact: CompactMask | undefined;
      const making = bindingSizes(() => {
        compact = compactMask(mask);
      });
      expect(making.length).toBeGreaterThan(1);
      expect(Math.max(...making.flat())).toBeLessThanOrEqual(limit);
      const launch = (by: tf.Tensor | CompactMask) =>
        passTables({
          where: 'test',
          rows,
          cols,
          inputs: { x },
          channels: { x: input('x') },
          mask: denseWindow(by, cols),
        });
      const want = launch(mask);
      const launched: ReturnType<typeof launch>[] = [];
      const passing = bindingSizes(() => {
        launched.push(launch(compact!));
      });
      expect(Math.max(...passing.flat())).toBeLessThanOrEqual(limit);
      const got = await launched[0]!;
      expect(got.x.cells).toEqual((await want).x.cells);
      expect(got.x.total().count).toBe(chosen.filter(Boolean).length);
      compact!.release();
      tf.dispose([x, mask]);
    });
  });

  test('and take more workgroups than one dimension of a dispatch has', async () => {
    const size = 64 * 32 * 20 + 7;
    const chosen = Float32Array.from({ length: size }, (_, i) => Number(i % 7 < 3 || i > size - 9));
    const mask = deviceTensor({ shape: [size], values: chosen });
    pretend({ maxComputeWorkgroupsPerDimension: 8 }); // of 21
    const compact = compactMask(mask);
    const { n } = await channelTables({ n: e.constant(1) }, {}, compact);
    expect(n.total().count).toBe(chosen.reduce((sum, one) => sum + one, 0));
    compact.release();
    mask.dispose();
  });
});

describe('device memory', () => {
  test('of released masks is what the next ones are made of', async () => {
    const { x, mask } = tensors(40, 256);
    const use = async (): Promise<void> => {
      const compact = compactMask(mask);
      const pending = maskedMoments(x, compact);
      compact.release();
      await pending;
    };
    for (let i = 0; i < 3; i++) await use();
    const { numBytesInGPU } = tf.memory() as unknown as { numBytesInGPU: number };
    const made = vi.spyOn(device, 'createBuffer');
    for (let i = 0; i < 8; i++) await use();
    expect(made).not.toHaveBeenCalled();
    expect(tf.memory()).toMatchObject({ numBytesInGPU });
    tf.dispose([x, mask]);
  });
});

describe('a fault of the device', () => {
  /** Runs `body` while no bind group has its first entry. */
  function broken(body: () => void): void {
    const { createBindGroup } = device;
    vi.spyOn(device, 'createBindGroup').mockImplementation((descriptor) =>
      createBindGroup.call(device, { ...descriptor, entries: descriptor.entries.slice(1) }),
    );
    body();
    vi.restoreAllMocks();
  }

  test('while a mask is made refuses every later use of it, not only the next read-back', async () => {
    const { x, mask } = tensors(33, 129);
    let compact: CompactMask | undefined;
    broken(() => {
      compact = compactMask(mask);
    });
    await expect(maskedMoments(x)).rejects.toThrow(BackendError);
    await expect(maskedMoments(x, compact)).rejects.toThrow(BackendError);
    await expect(maskedMoments(x, compact)).rejects.toThrow(/mask: .*without errors/);
    compact!.release();
    const again = compactMask(mask);
    expect((await maskedMoments(x, again)).count).toBe((await maskedMoments(x, mask)).count);
    again.release();
    tf.dispose([x, mask]);
  });

  test('after a mask was read with success does not concern it', async () => {
    const { x, mask } = tensors(33, 129);
    const compact = compactMask(mask);
    const { count } = await maskedMoments(x, compact);
    device.createBuffer({ size: 16, usage: 0 });
    await expect(maskedMoments(x, compact)).rejects.toThrow(/run without errors/);
    expect((await maskedMoments(x, compact)).count).toBe(count);
    compact.release();
    tf.dispose([x, mask]);
  });

  test('found by a read-back concerns masks made since that was submitted', async () => {
    const { x, mask } = tensors(33, 129);
    const reading = maskedMoments(x).then();
    const compact = compactMask(mask); // behind what is being read
    await reading; // proves nothing of the mask
    device.createBuffer({ size: 16, usage: 0 });
    await expect(maskedMoments(x)).rejects.toThrow(BackendError);
    await expect(maskedMoments(x, compact)).rejects.toThrow(/mask: .*without errors/);
    compact.release();
    tf.dispose([x, mask]);
  });

  test('and a launch that cannot be recorded leaves nothing', async () => {
    const { x, mask } = tensors(33, 129);
    await expectNoLeaks(async () => {
      vi.spyOn(webGpuDevice(tf.backend()), 'launch').mockImplementation(() => {
        throw new Error('no launch');
      });
      expect(() => compactMask(mask)).toThrow('no launch');
      vi.restoreAllMocks();
      const [all] = await collect(maskedMoments(x));
      expect(all.count).toBe(33 * 129);
    });
    tf.dispose([x, mask]);
  });
});
