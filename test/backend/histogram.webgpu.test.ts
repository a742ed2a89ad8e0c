/** Histograms as a GPU makes them: counters of a workgroup, parts of tensors, large grids, all on the device that is here. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, describe, expect, test } from 'vitest';

import { compactMask, maskedHistograms } from '../../src/kernels/index.js';
import { SLOTS } from '../../src/rows/buckets.js';
import { histogramOfSlots } from '../../src/rows/histogram.js';
import { referenceHistogram } from '../../src/kernels/histogram/reference.js';
import { MOST_PER_WORKGROUP, clearText, histogramText } from '../../src/kernels/webgpu/histogram/program.js';
import { type Binding, webGpuDevice } from '../../src/kernels/webgpu/device.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { type TensorDtype, deviceTensor, onDevice } from '../support/tensors.js';
import { pretendedLimits } from '../support/webgpu-limits.js';

await testBackend();

interface Device {
  readonly limits: Readonly<Record<string, number>>;
  readonly adapterInfo: object;
  createShaderModule: (descriptor: { readonly code: string }) => object;
  createBindGroup: (descriptor: {
    readonly entries: readonly { readonly resource: { readonly size: number } }[];
  }) => object;
}

const { device } = tf.backend() as unknown as { device: Device };
const pretendLimits = pretendedLimits();
const { adapterInfo, createShaderModule, createBindGroup } = device;

/** A device that is no CPU: workgroups count in memory of their own. */
function pretendGpu(): void {
  Object.defineProperty(device, 'adapterInfo', { configurable: true, value: { isFallbackAdapter: false } });
}

afterEach(() => {
  Object.defineProperty(device, 'adapterInfo', { configurable: true, value: adapterInfo });
  Object.assign(device, { createShaderModule, createBindGroup });
});

/** Texts of the shaders that are made from now on. */
function watchShaders(): string[] {
  const texts: string[] = [];
  device.createShaderModule = (descriptor) => {
    texts.push(descriptor.code);
    return createShaderModule.call(device, descriptor);
  };
  return texts;
}

async function expectReference(
  values: ArrayLike<number>,
  mask: ArrayLike<number>,
  maskDtype: TensorDtype = 'bool',
): Promise<void> {
  await expectNoLeaks(async () => {
    const shape = [values.length];
    const x = deviceTensor({ shape, values });
    const m = deviceTensor({ shape, values: mask, dtype: maskDtype });
    const compact = compactMask(m);
    const [plain, packed] = [maskedHistograms({ x }, m), maskedHistograms({ x }, compact)];
    compact.release();
    tf.dispose([x, m]);
    const reference = referenceHistogram(values, mask).toJSON();
    expect((await plain).x.toJSON(), 'with the mask').toEqual(reference);
    expect((await packed).x.toJSON(), 'with the compact mask').toEqual(reference);
  });
}

function noise(size: number): { values: Float32Array; mask: Uint8Array } {
  const random = seeded(size);
  const special = [NaN, Infinity, -Infinity, 0, -0, 1e-40, 3e38, -1e-45, -2e12, 1e-15, 2 ** 32, 2 ** -31];
  return {
    values: Float32Array.from({ length: size }, (_, i) =>
      i % 41 === 3 ? special[i % special.length]! : normal(random),
    ),
    mask: Uint8Array.from({ length: size }, () => (random() < 0.7 ? 1 : 0)),
  };
}

describe('a workgroup with counters of its own', () => {
  test('counts', async () => {
    pretendGpu();
    const texts = watchShaders();
    const { values, mask } = noise(20_011);
    await expectReference(values, mask);
    expect(texts.filter((text) => text.includes('var<workgroup> own')).length).toBeGreaterThan(0);
  });

  test.each([1, -1])('counts as many equal numbers (%i) as its counters hold', async (number) => {
    const size = 2 * MOST_PER_WORKGROUP + 5;
    const gpu = webGpuDevice(tf.backend());
    const x = onDevice(tf.fill([size], number));
    const table = gpu.acquire(4 * SLOTS);
    const launch = (key: string, text: string, bindings: readonly Binding[], ...sizes: number[]): void => {
      const uniforms = Uint32Array.of(...sizes, 0, 0);
      gpu.launch({ key, text: () => text, bindings, uniforms, workgroups: [32, 1] });
    };
    const shape = { values: 'f32', mask: undefined, hasOwnTable: true } as const;
    launch('test clear', clearText(), [{ source: table }], SLOTS, 0);
    launch('test count', histogramText(shape), [{ source: table }, { source: x }], size, MOST_PER_WORKGROUP);
    const [contents] = await gpu.read([table]);
    gpu.release(table);
    x.dispose();
    expect([...histogramOfSlots(new Uint32Array(contents as ArrayBuffer))]).toEqual([
      { value: number, count: size },
    ]);
  });
});

test('a CPU that plays a GPU is spared them', async () => {
  const texts = watchShaders();
  const x = deviceTensor({ shape: [3], dtype: 'bool', values: [1, 0, 1] });
  const histogram = (await maskedHistograms({ x }, x)).x;
  x.dispose();
  expect([...histogram]).toEqual([{ value: 1, count: 2 }]);
  expect(texts.join('\n')).not.toContain('var<workgroup>');
});

test('a tensor that no binding holds is counted in parts, and so are its masks', async () => {
  pretendLimits({ maxStorageBufferBindingSize: 2 ** 16 });
  let bound = 0;
  device.createBindGroup = (descriptor) => {
    for (const { resource } of descriptor.entries) bound = Math.max(bound, resource.size);
    return createBindGroup.call(device, descriptor);
  };
  const { values, mask } = noise(3 * 2 ** 14 + 4099);
  await expectReference(values, mask);
  await expectReference(values, mask, 'float32');
  expect(bound).toBeLessThanOrEqual(2 ** 16);
});

test('more workgroups than one dimension of a dispatch takes', async () => {
  pretendLimits({ maxComputeWorkgroupsPerDimension: 3 });
  const { values, mask } = noise(60_001); // 8 workgroups count, 139 clear
  await expectReference(values, mask);
});
