/**
 * Channels that are inputs as they are, each under a mask and without one. A file of its own: the scratch of a process
 * only grows, so that a pass which asks for too little is only seen if it is the first.
 */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';
import { channelMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

test('six inputs, masked and not, in the first pass of a process', async () => {
  await expectNoLeaks(async () => {
    const size = 8192;
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const inputs = Object.fromEntries(
      names.map((name, k) => [
        name,
        deviceTensor({ shape: [size], values: Float32Array.from({ length: size }, (_, i) => i + k) }),
      ]),
    );
    const half = deviceTensor({
      shape: [size],
      dtype: 'bool',
      values: Array.from({ length: size }, (_, i) => Number(i < size / 2)),
    });
    const channels: Record<string, { readonly of: string; readonly mask: 'half' | undefined }> = {};
    for (const of of names) {
      channels[`${of} of half`] = { of, mask: 'half' };
      channels[`${of} of all`] = { of, mask: undefined };
    }
    const moments = await channelMoments(channels, inputs, { half });
    for (const [k, name] of names.entries()) {
      expect(moments[`${name} of half`]).toMatchObject({
        count: 4096,
        min: k,
        max: k + 4095,
        mean: k + 2047.5,
      });
      expect(moments[`${name} of all`]).toMatchObject({
        count: 8192,
        min: k,
        max: k + 8191,
        mean: k + 4095.5,
      });
    }
    tf.dispose([inputs, half]);
  });
});
