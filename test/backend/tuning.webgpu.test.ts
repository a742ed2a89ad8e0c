/**
 * The shapes of work that a device chooses between, all on the one that is here: many units and lanes as on a GPU or
 * few as on a CPU that plays one, with and without subgroups, chunks joined on the device or on the host.
 */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { exp, input, subtract } from '../../src/kernels/expression.js';
import { Moments, maskedMoments } from '../../src/kernels/index.js';
import { passTables } from '../../src/kernels/moments/pass.js';
import { RowMoments } from '../../src/kernels/moments/row-moments.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract, fieldsOf } from '../support/contract.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

interface Device {
  readonly adapterInfo: object;
  readonly features: { has(name: string): boolean };
  createShaderModule: (descriptor: { readonly code: string }) => object;
}

const { device } = tf.backend() as unknown as { device: Device };
const { adapterInfo, features, createShaderModule } = device;
let shaders: string[] = [];

beforeEach(() => {
  shaders = [];
  device.createShaderModule = (descriptor) => {
    shaders.push(descriptor.code);
    return createShaderModule.call(device, descriptor);
  };
});

afterEach(() => {
  device.createShaderModule = createShaderModule;
  for (const [name, value] of Object.entries({ adapterInfo, features })) {
    Object.defineProperty(device, name, { configurable: true, value });
  }
});

/** Lets the device seem to be a GPU, or to lack subgroups, until the test is over. */
function pretend({ isGpu, subgroups }: { isGpu: boolean; subgroups: boolean }): void {
  Object.defineProperty(device, 'adapterInfo', {
    configurable: true,
    value: { subgroupMinSize: 4, subgroupMaxSize: 4, isFallbackAdapter: !isGpu },
  });
  Object.defineProperty(device, 'features', {
    configurable: true,
    value: { has: (name: string) => name !== 'subgroups' || (subgroups && features.has(name)) },
  });
}

const ways = [true, false].flatMap((isGpu) => [true, false].map((subgroups) => ({ isGpu, subgroups })));

describe.each(ways)('GPU $isGpu, subgroups $subgroups', (way) => {
  test.each([
    { rows: 1, cols: 20000 },
    { rows: 9, cols: 701 },
    { rows: 130, cols: 12 },
  ])('$rows rows of $cols: few channels and many, float and integer', async ({ rows, cols }) => {
    pretend(way);
    const random = seeded(rows);
    const floats = Float32Array.from({ length: rows * cols }, () => normal(random, 5, 2));
    const integers = Int32Array.from(floats, (x) => Math.round(1000 * x) + 2 ** 25);
    const chosen = Uint8Array.from(floats, () => (random() < 0.6 ? 1 : 0));
    const x = deviceTensor({ shape: [rows, cols], values: floats });
    const i = deviceTensor({ shape: [rows, cols], dtype: 'int32', values: integers });
    const mask = deviceTensor({ shape: [rows, cols], dtype: 'bool', values: chosen });
    const few = { x: input('x'), i: input('i') };
    const many = { ...few, y: subtract('x', 5), z: exp('x'), x2: input('x'), i2: input('i') };
    for (const channels of [few, many]) {
      const launch = () =>
        passTables({
          where: 'test',
          rows,
          cols,
          inputs: { x, i },
          channels,
          mask: { tensor: mask, stride: cols, offset: 0, step: 1 },
        });
      const tables = await launch();
      const again = await launch();
      for (const [name, values] of [
        ['x', floats],
        ['i', integers],
      ] as const) {
        const reference = referenceMoments(values, chosen, rows, cols);
        expectContract(RowMoments.fromTable(tables[name]), RowMoments.fromTable(reference), name);
      }
      if (channels === many) {
        const computed = tables as Awaited<ReturnType<typeof passTables<keyof typeof many>>>;
        // Computed in float32: extremes are rounded elements, by half a unit and by two of the last place.
        for (const [name, of, ulps] of [
          ['y', (v: number) => v - 5, 0.5],
          ['z', Math.exp, 2],
        ] as const) {
          const values = Float64Array.from(floats, of);
          const extremes = ulps * 2 ** -23 * values.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
          const reference = RowMoments.fromTable(referenceMoments(values, chosen, rows, cols));
          expectContract(RowMoments.fromTable(computed[name]), reference, name, extremes);
        }
      }
      // The same input on the same device gives the same bits.
      for (const name of Object.keys(channels) as (keyof typeof few)[]) {
        expect(again[name].cells).toEqual(tables[name].cells);
      }
      if ('x2' in tables) expect(tables.x2).toEqual(tables.x);
    }
    expect(shaders.every((code) => code.includes('enable subgroups') === way.subgroups)).toBe(true);
    tf.dispose([x, i, mask]);
  });
});

test('chunks of a large tensor are joined on the device, and it says the same as the host', async () => {
  pretend({ isGpu: true, subgroups: true });
  const length = 2 ** 18;
  const random = seeded(3);
  const values = Float32Array.from({ length }, () => normal(random, 100, 1));
  const counts = Int32Array.from({ length }, () => Math.floor(random() * 10));
  const x = deviceTensor({ shape: [length], values });
  const i = deviceTensor({ shape: [length], dtype: 'int32', values: counts });
  // 128 chunks: as two channels few enough for the host, as twelve not.
  const two = await maskedMoments({ x, i });
  expect(shaders.some((code) => code.includes('var<storage, read> chunks'))).toBe(false);
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const twelve = await maskedMoments(
    Object.fromEntries(names.flatMap((name) => [[`x${name}`, x] as const, [`i${name}`, i] as const])),
  );
  expect(shaders.some((code) => code.includes('var<storage, read> chunks'))).toBe(true);
  const reference = (of: ArrayLike<number>): Moments =>
    new Moments(referenceMoments(of, undefined, 1, length).row(0));
  for (const name of names) {
    expectContract(twelve[`x${name}`]!, reference(values), name);
    expectContract(twelve[`i${name}`]!, reference(counts), name);
    expect(twelve[`i${name}`]!.sum).toBe(reference(counts).sum);
  }
  expectContract(two.x, reference(values), 'on the host');
  expect(fieldsOf(twelve.xf!)).toEqual(fieldsOf(twelve.xa!));
  tf.dispose([x, i]);
});
