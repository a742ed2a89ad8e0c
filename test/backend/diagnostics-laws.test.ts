/** Laws of the diagnostics of a step on every backend: what must not matter to them, and what they cost. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError, ShapeError } from '../../src/errors.js';
import { initBackend } from '../../src/kernels/index.js';
import {
  type Metrics,
  type RolloutBatch,
  computeDebugMetrics,
  computeGroupMetrics,
  computeSequenceBalanceMetrics,
  computeVarianceProxyMetrics,
} from '../../src/metrics/index.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { expectNoLeaks } from '../support/leaks.js';
import { WIDTH, resultOf, rolloutBatch, rolloutRows } from '../support/rollout-rows.js';
import { deviceTensor } from '../support/tensors.js';
import { countReadBacks } from '../support/transfers.js';

const backend = await testBackend();

type Compute = (batch: RolloutBatch) => Promise<Metrics>;

/** The groups and the ranks of the six rows stay as they are when the rows are reversed. */
const FAMILIES: Readonly<Record<string, Compute>> = {
  'variance proxies': (batch) => computeVarianceProxyMetrics(batch, { gradientNorm: 0.25 }),
  'debug metrics': computeDebugMetrics,
  'group metrics': (batch) => computeGroupMetrics(batch, ['a', 'b', 'c', 'c', 'b', 'a']),
  'balance of lengths': (batch) =>
    computeSequenceBalanceMetrics(batch, [
      [0, 5],
      [1, 4],
      [2, 3],
    ]),
};

function expectSame(actual: Metrics, expected: Metrics): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(actual[key], key).toBeCloseToReference(value, { rel: 1e-5, abs: 1e-6 });
  }
}

describe.each(Object.entries(FAMILIES))('%s', (_family, compute) => {
  const rows = rolloutRows(11);

  test('are defined', async () => {
    expect(Object.values(await resultOf(compute, rows)).filter(Number.isNaN)).toEqual([]);
  });

  test('do not depend on what the padding holds', async () => {
    const clean = await resultOf(compute, rows);
    for (const padding of [NaN, Infinity, -1e30]) {
      expectSame(await resultOf(compute, rows, { padding }), clean);
    }
  });

  test('do not depend on how wide the padding is', async () => {
    const wider = await resultOf(compute, rows, { width: WIDTH + 5, padding: NaN });
    expectSame(wider, await resultOf(compute, rows));
  });

  test('do not depend on the order of the rows', async () => {
    expectSame(await resultOf(compute, [...rows].reverse()), await resultOf(compute, rows));
  });

  test('leave nothing behind', async () => {
    await expectNoLeaks(() => resultOf(compute, rows));
  });

  test('refuse a batch that does not fit together, and leave nothing behind', async () => {
    const { batch, dispose } = rolloutBatch(rows);
    const attentionMask = deviceTensor({ shape: [6, WIDTH - 1], values: new Float32Array(6 * (WIDTH - 1)) });
    await expectNoLeaks(async () => {
      await expect(compute({ ...batch, attentionMask })).rejects.toThrow(ShapeError);
    });
    attentionMask.dispose();
    dispose();
  });

  test('read the device once', async () => {
    const reads = await countReadBacks(backend, () => resultOf(compute, rows));
    if (hasDevice()) expect(reads).toBe(1);
  });
});

// The balance of lengths looks at the attention mask alone.
const ofTwoTensors = Object.entries(FAMILIES).filter(([family]) => family !== 'balance of lengths');

test.each(ofTwoTensors)(
  '%s refuse tensors on two backends, and leave nothing behind',
  async (_family, compute) => {
    const elsewhere = backend === 'cpu' ? 'wasm' : 'cpu';
    await initBackend(elsewhere);
    const stranger = tf.ones([6, WIDTH]);
    await initBackend(backend);
    const { batch, dispose } = rolloutBatch(rolloutRows(11));
    const mixed = { ...batch, responseMask: stranger, tokenLevelScores: stranger };
    await expectNoLeaks(async () => {
      await expect(compute(mixed)).rejects.toThrow(BackendError);
    });
    stranger.dispose();
    dispose();
  },
);
