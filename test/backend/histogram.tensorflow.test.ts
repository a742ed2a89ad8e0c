/** Histograms on the path of a GPU of TensorFlow: bands of elements, the number of ops, and ops that fail. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { maskedHistograms } from '../../src/kernels/index.js';
import { pretendGpu, testBackend } from '../support/backend.js';
import { type Alive, alive } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();
// On a CPU histograms run no ops.
pretendGpu();

interface Binding {
  executeOp(name: string, ...rest: unknown[]): unknown;
}

const node = tf.backend() as unknown as { binding: Binding; isUsingGpuDevice: boolean };
const real = node.binding;

function replaceExecuteOp(replacement: (name: string, ...rest: unknown[]) => unknown): void {
  node.binding = Object.create(real, { executeOp: { value: replacement } }) as Binding;
}

/** Names of the ops that `body` runs. */
function opsOf(body: () => void): string[] {
  const names: string[] = [];
  replaceExecuteOp((name, ...rest) => {
    names.push(name);
    return real.executeOp(name, ...rest);
  });
  body();
  node.binding = real;
  return names;
}

afterEach(() => {
  node.binding = real;
});

test('elements that are worked on in bands, the last of which is short', async () => {
  const size = 2 ** 21 + 1031; // of two tensors, 2^22 elements at once
  const random = seeded(1);
  const cycle = Float32Array.from({ length: 4099 }, () => normal(random));
  const [x, y] = [1, -3].map((scale) => {
    const values = Float32Array.from({ length: size }, (_, i) => scale * cycle[i % cycle.length]!);
    values[size - 1] = NaN;
    return deviceTensor({ shape: [size], values });
  });
  const selected = Uint8Array.from({ length: size }, (_, i) => (i % 11 < 7 || i === size - 1 ? 1 : 0));
  const mask = deviceTensor({ shape: [size], values: selected, dtype: 'bool' });
  let pending: ReturnType<typeof maskedHistograms<'x' | 'y'>> | undefined;
  const ops = opsOf(() => {
    pending = maskedHistograms({ x: x!, y: y! }, mask);
  });
  expect(ops.filter((name) => name === 'DenseBincount')).toHaveLength(2);
  // Without a GPU the loop of the host counts, which is held against the reference in histogram.test.ts.
  node.isUsingGpuDevice = false;
  const onHost = await maskedHistograms({ x: x!, y: y! }, mask);
  node.isUsingGpuDevice = true;
  const onDevice = await pending!;
  expect(onDevice.x.toJSON()).toEqual(onHost.x.toJSON());
  expect(onDevice.y.toJSON()).toEqual(onHost.y.toJSON());
  expect(onHost.y).toMatchObject({ count: selected.reduce((a, b) => a + b, 0), nan: 1 });
  tf.dispose([x!, y!, mask]);
});

test('the ops that do arithmetic are as many for five tensors as for two', () => {
  const tensors = [1, 2, 3, 4, 5].map((k) => deviceTensor({ shape: [2, 3], values: [k, 2, 3, 4, 5, 6] }));
  const mask = deviceTensor({ shape: [2, 3], values: [1, 0, 1, 1, 0, 1], dtype: 'bool' });
  const launch = (count: number) => (): void => {
    maskedHistograms(Object.fromEntries(tensors.slice(0, count).map((x, k) => [`x${k}`, x])), mask).release();
  };
  const arithmetic = (count: number): string[] => opsOf(launch(count)).filter((name) => name !== 'Reshape');
  launch(1)();
  expect(arithmetic(5)).toEqual(arithmetic(2));
  expect(arithmetic(2).length).toBeLessThan(45);
  tf.dispose([...tensors, mask]);
});

describe('when an op fails', () => {
  let x: tf.Tensor;
  let mask: tf.Tensor;
  let before: Alive;

  beforeEach(() => {
    x = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
    mask = deviceTensor({ shape: [2, 3], values: [1, 0, 1, 1, 0, 1] });
    before = alive();
  });

  afterEach(() => {
    tf.dispose([x, mask]);
  });

  test('the call is a rejection that names the op and leaves nothing', async () => {
    const launched = opsOf(() => {
      maskedHistograms({ x, again: x }, mask).release();
    });
    expect(launched).toContain('DenseBincount');
    for (const [broken, name] of launched.entries()) {
      let calls = 0;
      replaceExecuteOp((...args) => {
        if (calls++ === broken) throw new Error('OOM when allocating tensor');
        return real.executeOp(...args);
      });
      const failure = await maskedHistograms({ x, again: x }, mask).then(
        undefined,
        (reason: unknown) => reason,
      );
      expect(failure, `op ${broken} (${name})`).toBeInstanceOf(BackendError);
      expect((failure as BackendError).received).toBe('OOM when allocating tensor');
      expect((failure as BackendError).expected).toContain(name);
      expect((failure as BackendError).where).toBe('maskedHistograms');
      expect(alive(), `after op ${broken} (${name})`).toEqual(before);
    }
    node.binding = real;
    expect((await maskedHistograms({ x }, mask)).x.count).toBe(4);
  });
});
