/** Memory that cannot grow while a training runs: a typed error, and what was recorded before is whole. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test, vi } from 'vitest';

import { BackendError } from '../../src/errors.js';
import { compactMask, logitsStatistics } from '../../src/kernels/index.js';
import type { WasmBackend } from '../../src/kernels/simd/workspace.js';
import { StatsTracker } from '../../src/tracker/index.js';
import { testBackend } from '../support/backend.js';

const name = await testBackend();
const usesModule = name === 'cpu' || name === 'wasm';

/** Lets no memory of the backend grow until the function that is returned is called. */
function refuseGrowth(): () => void {
  if (name === 'wasm') {
    const { wasm } = tf.backend() as unknown as WasmBackend;
    const { _malloc: malloc } = wasm;
    wasm._malloc = () => 0;
    return () => {
      wasm._malloc = malloc;
    };
  }
  const { WebAssembly } = globalThis as unknown as {
    readonly WebAssembly: { readonly Memory: { readonly prototype: { grow: (pages: number) => number } } };
  };
  const spy = vi.spyOn(WebAssembly.Memory.prototype, 'grow').mockImplementation(() => {
    throw new RangeError('WebAssembly.Memory.grow(): Maximum memory size exceeded');
  });
  return () => {
    spy.mockRestore();
  };
}

test.runIf(usesModule)('a tracker refuses the record whole, and goes on when there is memory', async () => {
  const tracker = new StatsTracker();
  const mask = tf.tensor1d(Array<number>(5000).fill(1), 'bool');
  const x = tf.fill([5000], 2);
  tracker.denominator({ a: mask });
  tracker.stat({ loss: x }, { denominator: 'a', reduceType: 'avg' });
  // Tiles of a hundred tensors are more than any memory has from the start.
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x${i}`, tf.fill([5000], i)]));
  tracker.denominator({ n: mask });
  const restore = refuseGrowth();
  try {
    for (let times = 0; times < 2; times++) {
      expect(() => {
        tracker.stat(many, { denominator: 'n', reduceType: 'avg' });
      }).toThrow(BackendError);
    }
  } finally {
    restore();
  }
  tracker.stat(many, { denominator: 'n', reduceType: 'avg' });
  tracker.denominator({ a: mask });
  tracker.stat({ loss: tf.fill([5000], 4) }, { denominator: 'a', reduceType: 'avg' });
  const exported = await tracker.export();
  expect(exported).toMatchObject({ loss: 3, x7: 7, n: 5000, a: 10_000 });
});

test.runIf(name === 'wasm')(
  'results that have no room are refused, and the heap is what it was',
  async () => {
    const logits = tf.tensor2d([[0, 0]]);
    const labels = tf.tensor1d([1], 'int32');
    const mask = tf.tensor1d([1, 0, 1], 'bool');
    tf.dispose({ ...logitsStatistics(logits, labels) });
    compactMask(mask).release();
    const { wasm } = tf.backend() as unknown as WasmBackend;
    const start = new Uint8Array(wasm.asm.memory.buffer, 0, 4096).slice();
    const { numTensors } = tf.memory();
    const restore = refuseGrowth();
    try {
      expect(() => logitsStatistics(logits, labels)).toThrow(BackendError);
      expect(() => compactMask(mask)).toThrow(BackendError);
    } finally {
      restore();
    }
    expect(tf.memory().numTensors).toBe(numTensors);
    expect(new Uint8Array(wasm.asm.memory.buffer, 0, 4096)).toEqual(start);
    const { logProbs } = logitsStatistics(logits, labels);
    expect((await logProbs.data())[0]).toBeCloseTo(-Math.LN2, 6);
  },
);
