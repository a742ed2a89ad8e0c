/** Limits of a GPU: what does not fit one dispatch or one binding, with limits that small tensors can reach. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { maskedMoments } from '../../src/kernels/index.js';
import { RowMoments } from '../../src/kernels/moments/record.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { testBackend } from '../support/backend.js';
import { expectContract } from '../support/contract.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const { device } = tf.backend() as unknown as { device: { readonly limits: Record<string, number> } };
const real = device.limits;

/** Lets the device seem to have other limits until the test is over. */
function pretend(limits: Record<string, number>): void {
  Object.defineProperty(device, 'limits', {
    configurable: true,
    value: new Proxy(real, {
      get: (target, name) => limits[name as string] ?? (Reflect.get(target, name, target) as number),
    }),
  });
}

afterEach(() => {
  Object.defineProperty(device, 'limits', { configurable: true, value: real });
});

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

test('fewer buffers than tensors', async () => {
  pretend({ maxStorageBuffersPerShaderStage: 3 }); // the result, the mask, one tensor
  const mask = deviceTensor({ shape: [4], dtype: 'bool', values: [1, 1, 0, 1] });
  const tensors = [1, 2, 3, 4].map((k) => deviceTensor({ shape: [4], values: [k, 2 * k, NaN, 3 * k] }));
  const moments = await maskedMoments(Object.fromEntries(tensors.map((x, k) => [`t${k}`, x])), mask);
  expect(Object.values(moments).map(({ sum }) => sum)).toEqual([6, 12, 18, 24]);
  tf.dispose([mask, ...tensors]);
});

test.each(['values', 'mask'])(
  '%s larger than a binding are refused by name, with both sizes',
  async (name) => {
    const giant = deviceTensor({ shape: [100], values: Array<number>(100).fill(1) });
    const x = name === 'values' ? giant : tf.keep(giant.clone());
    pretend({ maxStorageBufferBindingSize: 396 });
    const refused = maskedMoments(x, giant);
    await expect(refused).rejects.toThrow(BackendError);
    await expect(refused).rejects.toThrow(/at most 396 bytes.*400 bytes; split the batch/);
    tf.dispose([x, giant]);
  },
);
