/** What `initBackend('auto')` keeps, and what its report says of training. */
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { initBackend, maskedMoments } from '../../../src/kernels/index.js';
import { missingTrainingKernels } from '../../../src/kernels/backends/training-kernels.js';

/** Leaves no backend active, without removing any. */
function deactivate(): void {
  Object.assign(tf.engine(), { backendName: null, backendInstance: null });
}

test('the report lists the gradients that wasm lacks, and cpu lacks none', async () => {
  const { missingTrainingKernels: missing } = await initBackend('wasm');
  expect(missing).toEqual([
    'Conv2DBackpropFilter',
    'DepthwiseConv2dNativeBackpropFilter',
    'DepthwiseConv2dNativeBackpropInput',
    'UnsortedSegmentSum',
  ]);
  // What the list is about: the gradient of an embedding.
  const table = tf.ones<tf.Rank.R2>([3, 2]);
  const lookUp = (): tf.Scalar => tf.sum<tf.Scalar>(tf.gather(table, tf.tensor1d([0, 2], 'int32')));
  expect(() => tf.grad(lookUp as never)(table)).toThrow(/UnsortedSegmentSum|Cannot compute gradient/);
  expect((await initBackend('cpu')).missingTrainingKernels).toEqual([]);
});

test('the list is that of the sources of tfjs-core: all kernels that gradients alone run', async () => {
  await initBackend('cpu');
  const dist = path.dirname(createRequire(import.meta.url).resolve('@tensorflow/tfjs-core/package.json'));
  const sources = ['gradients', 'ops'].flatMap((folder) =>
    readdirSync(path.join(dist, 'dist', folder))
      .filter(
        (file) => (folder === 'gradients' || /grad|backprop|segment_sum/.test(file)) && file.endsWith('.js'),
      )
      .map((file) => readFileSync(path.join(dist, 'dist', folder, file), 'utf8')),
  );
  const run = new Set(
    sources.flatMap((text) => [...text.matchAll(/ENGINE\.runKernel\((\w+)/g)].map(([, kernel]) => kernel!)),
  );
  expect(run.size).toBeGreaterThan(10);
  // A backend without kernels lacks all of the list.
  expect(missingTrainingKernels('none')).toEqual([...run].sort());
});

test('auto keeps the backend that holds tensors where none is active', async () => {
  await initBackend('wasm');
  const x = tf.tensor1d([1, 2, 3]);
  deactivate();
  const report = await initBackend();
  expect(report.backend).toBe('wasm');
  expect(report.considered).toEqual([
    { backend: 'wasm', available: true, isGpu: false, reason: 'holds tensors; kept' },
  ]);
  expect((await maskedMoments(x)).sum).toBe(6);
  x.dispose();
});

test('auto keeps the active backend, whoever holds tensors', async () => {
  await initBackend('wasm');
  const x = tf.tensor1d([1, 2, 3]);
  await initBackend('cpu');
  expect((await initBackend()).backend).toBe('cpu');
  x.dispose();
});
