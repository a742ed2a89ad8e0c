/** Our own GPU device has what its adapter offers, not the small defaults. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { backendReport } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';

await testBackend();

interface Capabilities {
  readonly limits: Readonly<Record<string, number>>;
  readonly features: { has(name: string): boolean };
}

interface Adapter extends Capabilities {
  readonly info: { readonly isFallbackAdapter?: boolean };
}

const { navigator } = globalThis as unknown as { navigator: { gpu: { requestAdapter(): Promise<Adapter> } } };
const adapter = await navigator.gpu.requestAdapter();
const { device } = tf.backend() as unknown as { device: Capabilities };

test.each([
  'maxStorageBufferBindingSize',
  'maxBufferSize',
  'maxStorageBuffersPerShaderStage',
  'maxComputeWorkgroupStorageSize',
])('%s is that of the adapter', (limit) => {
  expect(device.limits[limit]).toBe(adapter.limits[limit]);
});

test.each(['subgroups', 'timestamp-query'])('%s is there if the adapter has it', (feature) => {
  expect(device.features.has(feature)).toBe(adapter.features.has(feature));
});

test('a fallback adapter is reported as software', () => {
  if (adapter.info.isFallbackAdapter === true) expect(backendReport().isSoftware).toBe(true);
  else expect(backendReport().isGpu).toBe(!backendReport().isSoftware);
});
