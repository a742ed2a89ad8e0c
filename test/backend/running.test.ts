/** Asserts which backend this project really runs on: a suite that silently ran elsewhere would prove nothing. */

import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { backendReport } from '../../src/kernels/index.js';
import { testBackend, testedBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

const backend = await testBackend();

/** Parts of tfjs' engine that no API offers; tfjs 4.x is frozen, and this is where a change would show. */
const internals = tf.engine() as unknown as {
  readonly backendName: string;
  readonly registry: Readonly<Record<string, tf.KernelBackend>>;
  readonly state: { readonly tensorInfo: WeakMap<object, { backend: tf.KernelBackend }> };
};

test('the active backend is the one that the project names', () => {
  expect(backend).toBe(process.env.TENSORTALLY_TEST_BACKEND);
  expect(tf.getBackend()).toBe(testedBackend());
});

test('the report names the same backend', () => {
  expect(backendReport().backend).toBe(backend);
});

test('tensors are held by it, and its ops compute', async () => {
  const x = deviceTensor({ shape: [2], values: [1, 2] });
  const y = tf.add(x, x);
  expect(internals.state.tensorInfo.get(y.dataId)?.backend).toBe(tf.findBackend(backend));
  expect(Array.from(await y.data())).toEqual([2, 4]);
  tf.dispose([x, y]);
});

test('the engine internals that kernels rely on are there', () => {
  const x = deviceTensor({ shape: [1], values: [1] });
  expect(internals.registry[backend]).toBe(tf.backend());
  expect(internals.backendName).toBe(backend);
  expect(internals.state.tensorInfo.has(x.dataId)).toBe(true);
  x.dispose();
  expect(internals.state.tensorInfo.has(x.dataId)).toBe(false);
});

test('leak checks are on', () => {
  expect(tf.env().getBool('IS_TEST')).toBe(true);
});
