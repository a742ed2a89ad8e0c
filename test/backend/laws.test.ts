/**
 * Laws of `maskedMoments` on every backend: what must not change the result moves it by no more than the contract.
 */

import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { collect, maskedMoments, momentsTables } from '../../src/kernels/index.js';
import { Moments } from '../../src/rows/moments.js';
import { emptyRow, mergeRows } from '../../src/rows/row.js';
import { RowMoments } from '../../src/kernels/moments/row-moments.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { batches, type Batch } from '../support/arbitraries.js';
import { testBackend } from '../support/backend.js';
import { expectContract, fieldsOf } from '../support/contract.js';
import { alive } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';
import { runsOf } from '../support/long.js';

const backend = await testBackend();

// A launch and a read-back on software WebGPU take milliseconds, so it draws fewer cases of the same kind.
const numRuns = runsOf(backend === 'webgpu' ? 15 : 60);
const small = batches(6, 70, { finite: true });
const wild = batches(6, 70, { finite: false });

/** Runs `body` with the tensors of a batch and disposes them when its kernels are launched. */
function withTensors<T>({ rows, cols, values, mask }: Batch, body: (x: tf.Tensor, m: tf.Tensor) => T): T {
  const x = deviceTensor({ shape: [rows, cols], values });
  const m = deviceTensor({ shape: [rows, cols], values: mask, dtype: 'bool' });
  const result = body(x, m);
  tf.dispose([x, m]);
  return result;
}

const wholeOf = (batch: Batch) => withTensors(batch, (x, m) => maskedMoments(x, m));

async function law(arbitrary: fc.Arbitrary<Batch>, body: (batch: Batch) => Promise<void>): Promise<void> {
  const before = alive();
  await fc.assert(fc.asyncProperty(arbitrary, body), { numRuns });
  expect(alive()).toEqual(before);
}

describe('laws of masked moments', () => {
  test('they agree with the float64 reference', () =>
    law(wild, async (batch) => {
      const { rows, cols, values, mask } = batch;
      const [all, perRow] = await withTensors(batch, (x, m) =>
        collect(maskedMoments(x, m), maskedMoments(x, m, { axis: -1 })),
      );
      expectContract(all, new Moments(referenceMoments(values, mask, 1, rows * cols).row(0)), 'all');
      expectContract(perRow, RowMoments.fromTable(referenceMoments(values, mask, rows, cols)), 'per row');
    }));

  test('rows merge to the whole', () =>
    law(wild, async (batch) => {
      const [tables, whole] = await withTensors(batch, (x, m) =>
        collect(momentsTables({ x }, m, { axis: -1 }), maskedMoments(x, m)),
      );
      expectContract(new Moments(tables.x.total()), whole, 'merged');
    }));

  test('micro-batches merge to the whole', () =>
    law(wild, async (batch) => {
      const { rows, cols } = batch;
      const cut = Math.floor(rows / 2);
      const part = (from: number, to: number): Batch => ({
        rows: to - from,
        cols,
        values: batch.values.slice(from * cols, to * cols),
        mask: batch.mask.slice(from * cols, to * cols),
      });
      const tableOf = (b: Batch) => withTensors(b, (x, m) => momentsTables({ x }, m));
      const [first, second, whole] = await collect(
        tableOf(part(0, cut)),
        tableOf(part(cut, rows)),
        wholeOf(batch),
      );
      const merged = [first.x.total(), second.x.total()].reduce(mergeRows, emptyRow);
      expectContract(new Moments(merged), whole, 'merged');
    }));

  test('the order of the elements does not matter', () =>
    law(wild, async (batch) => {
      const reversed = { ...batch, values: batch.values.toReversed(), mask: batch.mask.toReversed() };
      const [permuted, whole] = await collect(wholeOf(reversed), wholeOf(batch));
      expectContract(permuted, whole, 'reversed');
    }));

  test('padding outside the mask does not matter, whatever it holds', () =>
    law(wild, async (batch) => {
      const { rows, cols } = batch;
      const garbage = [NaN, Infinity, -Infinity, 3e38, 0];
      const width = cols + 1 + (cols % 5);
      const widen = (data: readonly number[], filler: (i: number) => number): number[] =>
        Array.from({ length: rows * width }, (_, i) => {
          const c = i % width;
          return c < cols ? data[Math.floor(i / width) * cols + c]! : filler(i);
        });
      const padded: Batch = {
        rows,
        cols: width,
        values: widen(batch.values, (i) => garbage[i % garbage.length]!),
        mask: widen(batch.mask, () => 0),
      };
      const [wide, whole] = await collect(wholeOf(padded), wholeOf(batch));
      expectContract(wide, whole, 'padded');
    }));

  test('what lies outside the mask does not change a single bit', () =>
    law(small, async (batch) => {
      const garbage = [NaN, Infinity, -Infinity, 1e30];
      const values = batch.values.map((x, i) => (batch.mask[i] === 1 ? x : garbage[i % garbage.length]!));
      const [dirty, clean] = await collect(wholeOf({ ...batch, values }), wholeOf(batch));
      expect(fieldsOf(dirty)).toEqual(fieldsOf(clean));
    }));

  test('masked equals filtered', () =>
    law(wild, async (batch) => {
      const values = batch.values.filter((_, i) => batch.mask[i] === 1);
      const filtered = { rows: 1, cols: values.length, values, mask: values.map(() => 1) };
      const [dense, whole] = await collect(wholeOf(filtered), wholeOf(batch));
      expectContract(dense, whole, 'filtered');
    }));

  test('a scale by a power of two scales the moments exactly', () =>
    law(small, async (batch) => {
      const scaled = { ...batch, values: batch.values.map((x) => 4 * x) };
      const [four, one] = await collect(wholeOf(scaled), wholeOf(batch));
      expect(fieldsOf(four)).toEqual({
        ...fieldsOf(one),
        sum: 4 * one.sum,
        mean: 4 * one.mean,
        m2: 16 * one.m2,
        min: 4 * one.min,
        max: 4 * one.max,
      });
    }));
});
