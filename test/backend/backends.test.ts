/** Choosing and describing backends, with the one of this project running. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { backendReport, initBackend, maskedMoments, probeBackends } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';

const name = await testBackend();

describe('the report', () => {
  test('describes the running backend', () => {
    const report = backendReport();
    expect(report).toMatchObject({
      backend: name,
      kernels: { moments: 'native', logits: 'native', histograms: 'native' },
      versions: { node: process.versions.node, tfjs: tf.version_core, tensortally: '0.1.0' },
    });
    expect(report.device).not.toBe('');
    expect(report.isGpu && report.isSoftware).toBe(false);
  });

  test('says that what runs on a CPU is no GPU', () => {
    const { isGpu, isSoftware } = backendReport();
    if (name === 'cpu' || name === 'wasm') expect(isGpu).toBe(false);
    if (name === 'webgpu') expect(isSoftware).toBe(!isGpu);
    if (name === 'tensorflow') {
      expect(isGpu).toBe((tf.backend() as unknown as { isUsingGpuDevice: boolean }).isUsingGpuDevice);
    }
  });

  test('names the version of the native library behind the backend', () => {
    const { versions } = backendReport();
    if (name === 'tensorflow') expect(versions.tensorflow).toMatch(/^\d+\.\d+\.\d+/);
    if (name === 'webgpu') expect(versions.webgpu).toMatch(/^\d+\.\d+\.\d+/);
  });
});

describe('choosing', () => {
  test('auto keeps the backend that the caller made active, and its tensors', async () => {
    const before = tf.tensor1d([1, 2, 3]);
    const report = await initBackend('auto');
    expect(report.backend).toBe(name);
    expect(report.considered).toEqual([
      { backend: name, available: true, isGpu: report.isGpu, reason: 'already active; kept' },
    ]);
    expect((await maskedMoments(before)).sum).toBe(6);
    before.dispose();
  });

  test('naming the running backend again keeps it and its tensors', async () => {
    const before = tf.tensor1d([1, 2, 4]);
    const instance = tf.backend();
    await initBackend(name);
    expect(tf.backend()).toBe(instance);
    expect((await maskedMoments(before)).sum).toBe(7);
    before.dispose();
  });

  test('a tensor of another backend is reduced where it is, and the active backend stays', async () => {
    const other = name === 'cpu' ? 'wasm' : 'cpu';
    await initBackend(other);
    const elsewhere = tf.tensor1d([2, 3]);
    await initBackend(name);
    const { sum } = await maskedMoments(elsewhere);
    expect(sum).toBe(5);
    expect(tf.getBackend()).toBe(name);
    elsewhere.dispose();
  });

  test('an unknown name is refused with the names that exist', async () => {
    const refused = initBackend('cuda' as 'cpu');
    await expect(refused).rejects.toThrow(BackendError);
    await expect(refused).rejects.toThrow(/tensorflow, webgpu, wasm, cpu.*'cuda'/);
  });

  test('the probe says of every backend whether it runs here, and a remedy where it does not', async () => {
    const choices = await probeBackends();
    expect(choices.map(({ backend }) => backend)).toEqual(['tensorflow', 'webgpu', 'wasm', 'cpu']);
    for (const { available, reason, remedy } of choices) {
      expect(reason).not.toBe('');
      expect(remedy === undefined).toBe(available);
    }
    expect(choices.find(({ backend }) => backend === name)?.available).toBe(true);
    expect(tf.getBackend()).toBe(name);
  });
});
