/** Compact masks on TensorFlow's path for GPUs: the cast that every pass would do is done once. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { countDeviceWork } from '../../bench/counters/index.js';
import { compactMask, maskedMoments } from '../../src/kernels/index.js';
import { pretendGpu, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();
pretendGpu();

/** TensorFlow ops of `body`. */
async function opsOf(body: () => unknown): Promise<number> {
  const { launches } = await countDeviceWork(async () => {
    await body();
  });
  return launches!;
}

test.each([
  ['bool', 0],
  ['int32', 1],
  ['float32', 1],
] as const)('a mask of %s is cast %i times, and not again', async (dtype, casts) => {
  await expectNoLeaks(async () => {
    const shape = [3, 5];
    const x = deviceTensor({ shape, values: Array.from({ length: 15 }, (_, i) => i / 3) });
    const tensor = deviceTensor({ shape, dtype, values: Array.from({ length: 15 }, (_, i) => i % 2) });
    let mask: ReturnType<typeof compactMask> | undefined;
    expect(await opsOf(() => (mask = compactMask(tensor)))).toBe(casts);
    await maskedMoments(x, tensor);
    const [withTensor, withMask] = [
      await opsOf(() => maskedMoments(x, tensor)),
      await opsOf(() => maskedMoments(x, mask)),
    ];
    expect(withTensor - withMask).toBe(casts);
    expect(await maskedMoments(x, mask)).toEqual(await maskedMoments(x, tensor));
    mask!.release();
    tf.dispose([x, tensor]);
  });
});
