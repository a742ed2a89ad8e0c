/** Logits on TensorFlow: failing ops, bands of rows, and the path of a GPU, where labels are not there to look at. */

import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { logitsStatistics } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { alive } from '../support/leaks.js';
import {
  expectLogits,
  normalCase,
  numbersOf,
  referenceOf,
  statisticsOf,
  tensorsOf,
} from '../support/logits-cases.js';
import { seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

await testBackend();

interface Node {
  binding: { executeOp(name: string, ...rest: unknown[]): unknown };
  isUsingGpuDevice: boolean;
}

const node = tf.backend() as unknown as Node;
const real = node.binding;

function replaceExecuteOp(replacement: (name: string, ...rest: unknown[]) => unknown): void {
  node.binding = Object.create(real, { executeOp: { value: replacement } }) as Node['binding'];
}

/** Names of the ops that run from now on. */
function watchOps(): string[] {
  const names: string[] = [];
  replaceExecuteOp((name, ...rest) => {
    names.push(name);
    return real.executeOp(name, ...rest);
  });
  return names;
}

afterEach(() => {
  node.binding = real;
});

test('whichever op fails, the error is typed and nothing is left', () => {
  const [logits, labels] = tensorsOf(normalCase([3, 8], seeded(1), { temperature: 0.5 }));
  const run = () => logitsStatistics(logits!, labels!, { temperature: 0.5 });
  const ops = watchOps();
  tf.dispose(Object.values(run()));
  const before = alive();
  for (const [broken, name] of [...ops].entries()) {
    let calls = 0;
    replaceExecuteOp((...args) => {
      if (calls++ === broken) throw new Error('OOM when allocating tensor');
      return real.executeOp(...args);
    });
    expect(run, name).toThrow(BackendError);
    expect(alive(), name).toEqual(before);
  }
  tf.dispose([logits!, labels!]);
});

test('the number of ops does not depend on the size', async () => {
  const counts: number[] = [];
  for (const shape of [
    [1, 1],
    [3, 8],
    [4, 5, 1000],
  ]) {
    const golden = normalCase(shape, seeded(2));
    const ops = watchOps();
    await statisticsOf(golden);
    node.binding = real;
    counts.push(ops.length);
  }
  expect(new Set(counts).size).toBe(1);
});

describe('on a GPU', () => {
  beforeEach(() => {
    node.isUsingGpuDevice = true;
  });
  afterEach(() => {
    node.isUsingGpuDevice = false;
  });

  test.each(['int32', 'float32'] as const)(
    '%s labels are used where they are, without a read-back',
    async (labelDtype) => {
      const golden = { ...normalCase([6, 301], seeded(3), { temperature: 2 }), labelDtype };
      const [logits, labels] = tensorsOf(golden);
      let statistics: Record<string, tf.Tensor> = {};
      const reads = await countReadBacks('tensorflow', () => {
        statistics = { ...logitsStatistics(logits!, labels!, { temperature: 2 }) };
        return Promise.resolve();
      });
      expect(reads).toBe(0);
      expectLogits(await numbersOf(statistics as never, [6]), referenceOf(golden), 'on the device');
      tf.dispose([logits!, labels!]);
    },
  );

  test.each([
    { dtype: 'int32', values: [1, 5, -1, 2, 2 ** 31 - 1, -(2 ** 31)], bad: [1, 2, 4, 5] },
    { dtype: 'float32', values: [1, 5, -1, 2, 1.5, NaN, Infinity, 1e20, 4], bad: [1, 2, 4, 5, 6, 7] },
  ] as const)(
    '$dtype labels that are no columns are NaN for their rows alone',
    async ({ dtype, values, bad }) => {
      const logits = deviceTensor({ shape: [values.length, 5], values: new Float32Array(5 * values.length) });
      const labels = deviceTensor({ shape: [values.length], values, dtype });
      const { logProbs, entropy } = await numbersOf({ ...logitsStatistics(logits, labels) }, [values.length]);
      const isBad = (i: number): boolean => (bad as readonly number[]).includes(i);
      expect([...logProbs].map(Number.isNaN)).toEqual(values.map((_, i) => isBad(i)));
      expect(entropy.some(Number.isNaN)).toBe(false);
      tf.dispose([logits, labels]);
    },
  );
});
