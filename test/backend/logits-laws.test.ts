/** Laws of `logitsStatistics` on every backend: what must not change a result moves it by no more than the contract. */

import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { logitsStatistics } from '../../src/kernels/index.js';
import { perStatistic } from '../../src/kernels/logits/request.js';
import { testBackend } from '../support/backend.js';
import { alive } from '../support/leaks.js';
import { expectLogits, type LogitsCase, numbersOf, referenceOf, tensorsOf } from '../support/logits-cases.js';
import { runsOf } from '../support/long.js';

const backend = await testBackend();

// A launch and a read-back on software WebGPU take milliseconds, so it draws fewer cases of the same kind.
const numRuns = runsOf(backend === 'webgpu' ? 15 : 60);

/**
 * Logits of any scale, −Infinity now and then, as multiples of 2⁻¹⁰ below 2¹³: adding or doubling them is exact, so
 * laws speak of the kernel and not of the rounding of its inputs.
 */
function logit(scale: number): fc.Arbitrary<number> {
  const finite = fc.integer({ min: -scale * 1024, max: scale * 1024 }).map((n) => n / 1024);
  return fc.oneof({ weight: 12, arbitrary: finite }, { weight: 1, arbitrary: fc.constant(-Infinity) });
}

const cases: fc.Arbitrary<LogitsCase & { readonly temperature: number }> = fc
  .record({
    rows: fc.integer({ min: 1, max: 5 }),
    cols: fc.integer({ min: 1, max: 150 }),
    scale: fc.constantFrom(1, 8, 4000),
    temperature: fc.constantFrom(0.25, 0.7, 1, 3),
  })
  .chain(({ rows, cols, scale, temperature }) =>
    fc.record({
      shape: fc.constant([rows, cols]),
      temperature: fc.constant(temperature),
      logits: fc.array(logit(scale), { minLength: rows * cols, maxLength: rows * cols, size: 'max' }),
      labels: fc.array(fc.nat({ max: cols - 1 }), { minLength: rows, maxLength: rows, size: 'max' }),
    }),
  );

/** The statistics of a case as plain numbers; its tensors are gone when they arrive. */
async function run(given: LogitsCase, temperature = given.temperature) {
  const [logits, labels] = tensorsOf(given);
  const statistics = logitsStatistics(logits!, labels!, { temperature });
  tf.dispose([logits!, labels!]);
  return numbersOf({ ...statistics }, given.shape.slice(0, -1));
}

async function law(
  body: (given: LogitsCase & { readonly temperature: number }) => Promise<void>,
): Promise<void> {
  const before = alive();
  await fc.assert(fc.asyncProperty(cases, body), { numRuns });
  expect(alive()).toEqual(before);
}

/** `logits` with another function of row and column in their place. */
function mapped({ shape, logits }: LogitsCase, f: (z: number, row: number, col: number) => number): number[] {
  const cols = shape.at(-1)!;
  return Array.from(logits, (z, i) => f(z, Math.floor(i / cols), i % cols));
}

describe('laws of logits statistics', () => {
  test('they agree with the float64 reference', () =>
    law(async (given) => {
      expectLogits(await run(given), referenceOf(given), 'reference');
    }));

  test('a shift of a whole row changes nothing', () =>
    law(async (given) => {
      const shifted = mapped(given, (z, row) => z + [1000, -4096, 0.5, 7, 2 ** 12][row]!);
      expectLogits(await run({ ...given, logits: shifted }), await run(given), 'shifted');
    }));

  test('the order of the vocabulary does not matter', () =>
    law(async (given) => {
      const cols = given.shape.at(-1)!;
      const reversed = mapped(given, (_, row, col) => given.logits[row * cols + (cols - 1 - col)]!);
      const labels = Array.from(given.labels, (label) => cols - 1 - label);
      expectLogits(await run({ ...given, logits: reversed, labels }), await run(given), 'reversed');
    }));

  test('a temperature divides the logits', () =>
    law(async (given) => {
      // Halves are exact, so the two runs see the same distribution.
      const halves = mapped(given, (z) => z / 2);
      expectLogits(await run({ ...given, logits: halves }, 1), await run(given, 2), 'halves');
    }));

  test('words of probability 0 do not matter', () =>
    law(async (given) => {
      const cols = given.shape.at(-1)!;
      const [rows] = given.shape;
      const width = cols + 1 + (cols % 7);
      const logits = Array.from({ length: rows! * width }, (_, i) =>
        i % width < cols ? given.logits[Math.floor(i / width) * cols + (i % width)]! : -Infinity,
      );
      expectLogits(await run({ ...given, shape: [rows!, width], logits }), await run(given), 'padded');
    }));

  test('rows do not know of each other: cut in two, they have the same bits', () =>
    law(async (given) => {
      const [rows, cols] = given.shape as [number, number];
      const cut = Math.floor(rows / 2);
      if (cut === 0) return;
      const part = (from: number, to: number): LogitsCase => ({
        ...given,
        shape: [to - from, cols],
        logits: Array.from(given.logits).slice(from * cols, to * cols),
        labels: Array.from(given.labels).slice(from, to),
      });
      const [whole, first, second] = [await run(given), await run(part(0, cut)), await run(part(cut, rows))];
      const joined = perStatistic((name) => Float32Array.from([...first[name], ...second[name]]));
      if (backend === 'tensorflow') expectLogits(joined, whole, 'joined');
      else expect(joined).toEqual(whole);
    }));

  test('the probabilities of all labels sum to 1, and the entropy is their expectation', () =>
    law(async (given) => {
      const cols = given.shape.at(-1)!;
      const row = Array.from(given.logits).slice(0, cols);
      if (!row.some(Number.isFinite)) return;
      const labels = row.map((_, c) => c);
      const every: LogitsCase = { ...given, shape: [cols, cols], logits: labels.flatMap(() => row), labels };
      const { logProbs, entropy, sumPiSquared, maxProb } = await run(every);
      const pi = Array.from(logProbs, Math.exp);
      const sum = (f: (p: number, c: number) => number): number => pi.reduce((s, p, c) => s + f(p, c), 0);
      expect(sum((p) => p)).toBeCloseToReference(1, { abs: 4e-5 });
      expect(sum((p) => p * p)).toBeCloseToReference(sumPiSquared[0]!, { rel: 8e-5 });
      expect(-sum((p, c) => (p === 0 ? 0 : p * logProbs[c]!))).toBeCloseToReference(entropy[0]!, {
        abs: 4e-4,
      });
      expect(Math.max(...pi)).toBeCloseToReference(maxProb[0]!, { rel: 4e-5 });
    }));
});
