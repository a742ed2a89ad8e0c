/** Logits on a GPU: more than a binding or a dispatch holds, faults, and what a call launches. */

import * as tf from '@tensorflow/tfjs-core';
import { afterEach, describe, expect, test, vi } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { logitsStatistics, maskedMoments } from '../../src/kernels/index.js';
import { type Launch, webGpuDevice } from '../../src/kernels/webgpu/device.js';
import { testBackend } from '../support/backend.js';
import { alive } from '../support/leaks.js';
import { expectReference, normalCase, numbersOf, statisticsOf, tensorsOf } from '../support/logits-cases.js';
import { seeded } from '../support/random.js';
import { countReadBacks } from '../support/transfers.js';
import { pretendedLimits } from '../support/webgpu-limits.js';

await testBackend();

interface Device {
  readonly limits: Record<string, number>;
  createBindGroup(descriptor: { entries: object[] }): object;
}

const { device } = tf.backend() as unknown as { device: Device };
const pretend = pretendedLimits();
const createBindGroup = device.createBindGroup.bind(device);

/** The launches from now on. */
function watchLaunches(): Launch[] {
  const launches: Launch[] = [];
  const gpu = webGpuDevice(tf.backend());
  const launch = gpu.launch.bind(gpu);
  vi.spyOn(gpu, 'launch').mockImplementation((given) => {
    launches.push(given);
    launch(given);
  });
  return launches;
}

afterEach(() => {
  vi.restoreAllMocks();
  device.createBindGroup = createBindGroup;
});

describe('logits larger than a binding are read window by window', () => {
  // 100 columns: rows begin at multiples of 16 bytes but not of 256; 97: not even of 16.
  test.each([
    { cols: 64, limit: 64 * 4 * 5 + 256, windows: 4 },
    { cols: 100, limit: 100 * 4 * 5 + 256, windows: 4 },
    { cols: 97, limit: 97 * 4 * 5 + 256, windows: 4 },
    { cols: 97, limit: 97 * 4 + 256, windows: 17 },
    { cols: 97, limit: 97 * 4 * 17, windows: 1 },
  ])('$cols columns, $limit bytes', async ({ cols, limit, windows }) => {
    const golden = normalCase([17, cols], seeded(cols), { temperature: 0.7 });
    pretend({ maxStorageBufferBindingSize: limit });
    const launches = watchLaunches();
    const windowed = await statisticsOf(golden);
    expect(launches).toHaveLength(windows);
    const sizes = launches.map(({ bindings: [logits] }) => logits!.size!);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(limit);
    expect(windowed).toEqual(await statisticsOf(golden));
    await expectReference(golden, 'whole');
  });

  test('a row that fits no binding is refused, with both sizes, and nothing is left', () => {
    const [logits, labels] = tensorsOf(normalCase([2, 100], seeded(1)));
    pretend({ maxStorageBufferBindingSize: 512 });
    const before = alive();
    expect(() => logitsStatistics(logits!, labels!)).toThrow(BackendError);
    expect(() => logitsStatistics(logits!, labels!)).toThrow(
      /at most 256 bytes.*\[2, 100\], 400 bytes a row/,
    );
    expect(alive()).toEqual(before);
    tf.dispose([logits!, labels!]);
  });
});

test.each([
  { rows: 37, most: 8, launches: 1 },
  { rows: 37, most: 4, launches: 3 },
])('$rows rows, where one dimension of a dispatch takes $most', async ({ rows, most, launches }) => {
  const golden = normalCase([rows, 30], seeded(rows));
  pretend({ maxComputeWorkgroupsPerDimension: most });
  const launched = watchLaunches();
  await expectReference(golden, 'rows');
  expect(launched).toHaveLength(launches);
});

test.each([0.4, 1.3, 4])('a million logits that rise slowly, by %f in all', (range) => {
  // A pivot that followed the maximum with every tile would round a thousand times.
  const cols = 2 ** 20;
  const logits = Float32Array.from({ length: cols }, (_, c) => (c * range) / cols);
  return expectReference({ shape: [1, cols], logits, labels: [cols >> 1] }, 'slope');
});

test('a call is one launch and reads nothing back, and one program serves all sizes', async () => {
  const texts = new Set<string>();
  for (const shape of [
    [5, 40],
    [2, 3, 1000],
  ]) {
    const [logits, labels] = tensorsOf(normalCase(shape, seeded(2)));
    const launches = watchLaunches();
    const reads = await countReadBacks('webgpu', () => {
      tf.dispose(Object.values(logitsStatistics(logits!, labels!)));
      return Promise.resolve();
    });
    expect({ launches: launches.length, reads }).toEqual({ launches: 1, reads: 0 });
    for (const launch of launches) texts.add(launch.key).add(launch.text());
    tf.dispose([logits!, labels!]);
    vi.restoreAllMocks();
  }
  expect(texts.size).toBe(2);
});

test('a fault of the device is reported by the next read-back', async () => {
  const [logits, labels] = tensorsOf(normalCase([3, 8], seeded(3)));
  device.createBindGroup = (descriptor) =>
    createBindGroup({ ...descriptor, entries: descriptor.entries.slice(1) });
  const { logProbs, ...others } = logitsStatistics(logits!, labels!);
  device.createBindGroup = createBindGroup;
  await expect(maskedMoments(logProbs)).rejects.toThrow(BackendError);
  tf.dispose([logProbs, ...Object.values(others)]);
  const healthy = await numbersOf({ ...logitsStatistics(logits!, labels!) }, [3]);
  expect([...healthy.entropy].every(Number.isFinite)).toBe(true);
  tf.dispose([logits!, labels!]);
});

test('a launch that throws leaves nothing', () => {
  const [logits, labels] = tensorsOf(normalCase([3, 8], seeded(4)));
  const before = alive();
  device.createBindGroup = () => {
    throw new Error('no bind group');
  };
  expect(() => logitsStatistics(logits!, labels!)).toThrow('no bind group');
  expect(alive()).toEqual(before);
  tf.dispose([logits!, labels!]);
});
