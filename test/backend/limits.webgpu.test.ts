/** Limits of a GPU: what does not fit one dispatch, one shader or one binding, with limits that small tensors can reach. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { add, constant, exp, input, subtract } from '../../src/kernels/expression.js';
import { Moments, channelMoments, maskedMoments } from '../../src/kernels/index.js';
import { passTables } from '../../src/kernels/moments/pass.js';
import { RowMoments } from '../../src/kernels/moments/row-moments.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
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
  createBindGroup: (descriptor: { readonly entries: readonly Entry[] }) => object;
}

const { device } = tf.backend() as unknown as { device: Device };
const pretend = pretendedLimits();

test('more workgroups than one dimension of a dispatch takes', async () => {
  const [rows, cols] = [37, 300];
  const random = seeded(5);
  const values = Float32Array.from({ length: rows * cols }, () => normal(random, 2, 1));
  const x = deviceTensor({ shape: [rows, cols], values });
  pretend({ maxComputeWorkgroupsPerDimension: 8 }); // of 37
  const moments = await maskedMoments(x, undefined, { axis: -1 });
  expectContract(moments, RowMoments.fromTable(referenceMoments(values, undefined, rows, cols)), 'per row');
  x.dispose();
});

/** Bytes of every binding of the launches that `body` makes. */
async function bindingSizes(body: () => Promise<unknown>): Promise<number[]> {
  const { createBindGroup } = device;
  const sizes: number[] = [];
  device.createBindGroup = (descriptor) => {
    for (const { resource } of descriptor.entries) sizes.push(resource.size ?? resource.buffer.size);
    return createBindGroup.call(device, descriptor);
  };
  try {
    await body();
  } finally {
    device.createBindGroup = createBindGroup;
  }
  return sizes;
}

test('fewer buffers than tensors', async () => {
  pretend({ maxStorageBuffersPerShaderStage: 3 }); // the result, the mask, one tensor
  const mask = deviceTensor({ shape: [4], dtype: 'bool', values: [1, 1, 0, 1] });
  const tensors = [1, 2, 3, 4].map((k) => deviceTensor({ shape: [4], values: [k, 2 * k, NaN, 3 * k] }));
  const moments = await maskedMoments(Object.fromEntries(tensors.map((x, k) => [`t${k}`, x])), mask);
  expect(Object.values(moments).map(({ sum }) => sum)).toEqual([6, 12, 18, 24]);
  tf.dispose([mask, ...tensors]);
});

test('an expression over more tensors than a shader may bind is refused by name', () => {
  pretend({ maxStorageBuffersPerShaderStage: 3 });
  const names = ['a', 'b', 'c'];
  const inputs = Object.fromEntries(
    names.map((name) => [name, deviceTensor({ shape: [1, 2], values: [1, 2] })]),
  );
  const channels = { few: input('a'), many: add(add('a', 'b'), 'c') };
  const launch = (): unknown => passTables({ where: 'test', rows: 1, cols: 2, inputs, channels });
  expect(launch).toThrow(BackendError);
  expect(launch).toThrow(/at most 2 tensors.*one of 3: a, b, c/);
  tf.dispose(inputs);
});

describe('tensors larger than a binding', () => {
  const random = seeded(6);
  // More than one row fits, less than one row does, rows that begin anywhere, and one long row.
  test.each([
    { rows: 40, cols: 128, limit: 4096 },
    { rows: 5, cols: 1000, limit: 1536 },
    { rows: 40, cols: 127, limit: 4096 },
    { rows: 60, cols: 127, limit: 4224 }, // eight rows fit at the start, not where a binding begins before them
    { rows: 1, cols: 5003, limit: 2048 },
  ])('$rows rows of $cols in bindings of $limit bytes', async ({ rows, cols, limit }) => {
    await expectNoLeaks(async () => {
      const values = Float32Array.from({ length: rows * cols }, () => normal(random, 2, 1));
      const chosen = Uint8Array.from(values, () => (random() < 0.6 ? 1 : 0));
      const perRow = Float32Array.from({ length: rows }, () => normal(random, 0, 1));
      const [stride, offset] = [cols + 4, 3];
      const wide = Uint8Array.from({ length: rows * stride }, (_, i) => {
        const col = (i % stride) - offset;
        return col >= 0 && col < cols ? chosen[Math.floor(i / stride) * cols + col]! : 1;
      });
      const x = deviceTensor({ shape: [rows, cols], values });
      const w = deviceTensor({ shape: [rows], values: perRow });
      const mask = deviceTensor({ shape: [rows, stride], dtype: 'bool', values: wide });
      pretend({ maxStorageBufferBindingSize: limit });
      const launch = () =>
        passTables({
          where: 'test',
          rows,
          cols,
          inputs: { x, w: { tensor: w, stride: 1, offset: 0, step: 0 } },
          channels: { x: input('x'), w: input('w'), n: constant(1) },
          mask: { tensor: mask, stride, offset, step: 1 },
        });
      const sizes = await bindingSizes(async () => {
        const tables = await launch();
        for (const [name, at] of [
          ['x', (i: number) => values[i]!],
          ['w', (i: number) => perRow[Math.floor(i / cols)]!],
          ['n', () => 1],
        ] as const) {
          const reference = referenceMoments(
            Array.from(values, (_, i) => at(i)),
            chosen,
            rows,
            cols,
          );
          expectContract(RowMoments.fromTable(tables[name]), RowMoments.fromTable(reference), name);
          expectContract(new Moments(tables[name].total()), new Moments(reference.total()), `all of ${name}`);
        }
      });
      expect(Math.max(...sizes)).toBeLessThanOrEqual(limit);
      expect(sizes.length).toBeGreaterThan(5); // of a single launch: records, three tensors, uniforms
      tf.dispose([x, w, mask]);
    });
  });
});

describe('programs that are too large for one shader', () => {
  test('more channels than one shader holds', async () => {
    const x = deviceTensor({ shape: [3], values: [0, 0.5, -0.5] });
    const names = Array.from({ length: 60 }, (_, k) => `c${k}`);
    const { length } = names;
    const channels = Object.fromEntries(names.map((name, k) => [name, exp(subtract('x', k / length))]));
    const moments = await channelMoments(channels, { x });
    names.forEach((name, k) => {
      const expected = [0, 0.5, -0.5].reduce((sum, v) => sum + Math.exp(v - k / length), 0);
      expect(Math.abs(moments[name]!.sum - expected)).toBeLessThan(1e-5);
    });
    x.dispose();
  });

  test('one channel beyond what a shader holds is refused', async () => {
    const x = deviceTensor({ shape: [3], values: [0, 0.5, -0.5] });
    const terms = Array.from({ length: 50 }, (_, k) => exp(subtract('x', k)));
    const sum = terms.reduce((left, right) => add(left, right));
    await expect(channelMoments({ sum }, { x })).rejects.toThrow(/simple operations/);
    x.dispose();
  });
});
