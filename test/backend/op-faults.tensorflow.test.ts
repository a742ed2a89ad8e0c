/** What happens when TensorFlow fails, which it reports by untyped exceptions: a typed error that leaves nothing. */

import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { maskedMoments } from '../../src/kernels/index.js';
import { pretendGpu, testBackend } from '../support/backend.js';
import { failureOf } from '../support/failures.js';
import { alive, type Alive } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();
// On a CPU moments run no ops.
pretendGpu();

interface Binding {
  executeOp(name: string, ...rest: unknown[]): unknown;
}

const node = tf.backend() as unknown as { binding: Binding };
const real = node.binding;

/** Puts `replacement` in place of one function of the native module until the test is over. */
function replace(name: string, replacement: (...args: never[]) => unknown): void {
  node.binding = Object.create(real, { [name]: { value: replacement } }) as Binding;
}

let x: tf.Tensor;
let before: Alive;

beforeEach(() => {
  x = deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });
  before = alive();
});

afterEach(() => {
  node.binding = real;
  x.dispose();
});

test('whichever op fails while launching, the call is a rejection that leaves nothing', async () => {
  const launched: string[] = [];
  replace('executeOp', (name: string, ...rest: unknown[]) => {
    launched.push(name);
    return real.executeOp(name, ...rest);
  });
  maskedMoments(x).release();
  expect(launched.length).toBeGreaterThan(5);

  for (const [broken, name] of launched.entries()) {
    let calls = 0;
    replace('executeOp', (...args: [string, ...unknown[]]) => {
      if (calls++ === broken) throw new Error('OOM when allocating tensor');
      return real.executeOp(...args);
    });
    const failure = await failureOf(maskedMoments(x));
    expect(failure, `op ${broken} (${name})`).toBeInstanceOf(BackendError);
    expect((failure as BackendError).received).toBe('OOM when allocating tensor');
    expect((failure as BackendError).expected).toContain(name);
    expect(alive(), `after op ${broken} (${name})`).toEqual(before);
  }
});

test('a read-back that fails rejects and frees the result', async () => {
  const pending = maskedMoments(x);
  replace('tensorDataSync', () => {
    throw new Error('device copy failed');
  });
  const failure = await failureOf(pending);
  expect(failure).toBeInstanceOf(Error);
  expect((failure as Error).message).toMatch(/device copy failed/);
  expect(alive()).toEqual(before);
});

test('after a failure the next call computes', async () => {
  replace('executeOp', () => {
    throw new Error('transient');
  });
  await failureOf(maskedMoments(x));
  node.binding = real;
  expect((await maskedMoments(x)).mean).toBe(3.5);
});
