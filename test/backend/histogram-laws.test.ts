/** Laws of `maskedHistograms` on every backend: what must not change a count does not change it. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { type Histogram, collect, maskedHistograms } from '../../src/kernels/index.js';
import { referenceHistogram } from '../../src/kernels/histogram/reference.js';
import { type Batch, batches } from '../support/arbitraries.js';
import { testBackend } from '../support/backend.js';
import { alive } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';
import { runsOf } from '../support/long.js';

const backend = await testBackend();

// A launch and a read-back on software WebGPU take milliseconds, so it draws fewer cases of the same kind.
const numRuns = runsOf(backend === 'webgpu' ? 15 : 60);
const wild = batches(6, 70, { finite: false });

/** Launches, and disposes the tensors in the next line. */
function histogramOf({ rows, cols, values, mask }: Batch) {
  const x = deviceTensor({ shape: [rows, cols], values });
  const m = deviceTensor({ shape: [rows, cols], values: mask, dtype: 'bool' });
  const pending = maskedHistograms({ x }, m).map((histograms) => histograms.x);
  tf.dispose([x, m]);
  return pending;
}

function expectEqual(a: Histogram, b: Histogram): void {
  expect(a.toJSON()).toEqual(b.toJSON());
}

async function law(body: (batch: Batch) => Promise<void>): Promise<void> {
  const before = alive();
  await fc.assert(fc.asyncProperty(wild, body), { numRuns });
  expect(alive()).toEqual(before);
}

describe('laws of masked histograms', () => {
  test('they agree with the reference', () =>
    law(async (batch) => {
      expectEqual(await histogramOf(batch), referenceHistogram(batch.values, batch.mask));
    }));

  test('micro-batches merge to the whole', () =>
    law(async (batch) => {
      const { rows, cols, values, mask } = batch;
      const cut = Math.floor(rows / 2);
      const part = (from: number, to: number): Batch => ({
        rows: to - from,
        cols,
        values: values.slice(from * cols, to * cols),
        mask: mask.slice(from * cols, to * cols),
      });
      const [first, second, whole] = await collect(
        histogramOf(part(0, cut)),
        histogramOf(part(cut, rows)),
        histogramOf(batch),
      );
      expectEqual(first.merge(second), whole);
    }));

  test('what lies outside the mask does not matter, whatever it holds', () =>
    law(async (batch) => {
      const garbage = [NaN, Infinity, -Infinity, 1e30, 0];
      const values = batch.values.map((x, i) => (batch.mask[i] === 1 ? x : garbage[i % garbage.length]!));
      const [dirty, clean] = await collect(histogramOf({ ...batch, values }), histogramOf(batch));
      expectEqual(dirty, clean);
    }));

  test('the order of the elements does not matter', () =>
    law(async (batch) => {
      const reversed = { ...batch, values: batch.values.toReversed(), mask: batch.mask.toReversed() };
      const [backwards, forwards] = await collect(histogramOf(reversed), histogramOf(batch));
      expectEqual(backwards, forwards);
    }));

  test('negated numbers have the mirrored buckets', () =>
    law(async (batch) => {
      const negated = { ...batch, values: batch.values.map((x) => -x) };
      const [mirrored, whole] = await collect(histogramOf(negated), histogramOf(batch));
      expect([...mirrored].reverse().map(({ value, count }) => [0 - value, count])).toEqual(
        [...whole].map(({ value, count }) => [value, count]),
      );
      expect([mirrored.nan, mirrored.posInf, mirrored.negInf]).toEqual([
        whole.nan,
        whole.negInf,
        whole.posInf,
      ]);
    }));
});
