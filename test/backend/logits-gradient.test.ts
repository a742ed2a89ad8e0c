/** What `logitsStatistics` says where a gradient is recorded: a file of its own, since it says it once per process. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';
import { logitsStatistics } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

test('a call while a gradient is recorded warns once that it carries none', async () => {
  const warned: string[] = [];
  const listen = (warning: Error & { code?: string }): void => {
    if (warning.code === 'TENSORTALLY_NO_GRADIENT') warned.push(warning.message);
  };
  process.on('warning', listen);
  const logits = deviceTensor({ shape: [1, 2], values: [0, 1] });
  const labels = deviceTensor({ shape: [1], values: [1], dtype: 'int32' });
  tf.dispose(Object.values(logitsStatistics(logits, labels)));
  await new Promise(setImmediate);
  expect(warned).toEqual([]);
  const scale = tf.variable(tf.scalar(2));
  // The gradients of tfjs' own ops are registered by another package.
  const same = tf.customGrad((x) => ({
    value: tf.add(x as tf.Tensor, 0),
    gradFunc: (dy: tf.Tensor) => dy,
  })) as (x: tf.Tensor) => tf.Scalar;
  for (let i = 0; i < 2; i++) {
    const { value, grads } = tf.variableGrads(() => {
      tf.dispose(Object.values(logitsStatistics(logits, labels)));
      return same(scale);
    }, [scale]);
    tf.dispose([value, grads]);
  }
  await new Promise(setImmediate);
  process.off('warning', listen);
  expect(warned).toHaveLength(1);
  expect(warned[0]).toMatch(/logitsStatistics.*gradient/);
  tf.dispose([logits, labels, scale]);
});
