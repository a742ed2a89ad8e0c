/** Golden explained variance: parts of a batch merge to the whole, on the backend of this project. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { Moments } from '../../src/kernels/index.js';
import { ExplainedVariance } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { type GoldenTensor, decodeInputs, loadGolden, toleranceOf } from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();
const { cases } = loadGolden('explained_variance_merge');

/** What the file says of a part or of the merge. */
interface Expected {
  readonly count: number;
  readonly returns_mean: number | 'NaN';
  readonly returns_m2: number | 'NaN';
  readonly error_mean: number | 'NaN';
  readonly error_m2: number | 'NaN';
  readonly explained_variance: number | 'NaN';
}

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(14);
});

function rowsOf({ shape, dtype, values }: GoldenTensor, from: number, to: number): tf.Tensor {
  const cols = shape[1]!;
  const part = values.slice(from * cols, to * cols);
  return deviceTensor({ shape: [to - from, cols], dtype, values: part });
}

describe.each(cases)('$id', (golden) => {
  const { returns, values, response_mask: mask } = decodeInputs(golden.inputs);
  const tolerance = toleranceOf(golden, 'explained_variance');
  type Reference = Readonly<Record<'merged', Expected> & Record<'parts', readonly Expected[]>>;
  const reference = golden.expected as unknown as Record<'float64' | 'recommended', Reference>;
  const { float64, recommended = float64 } = reference as Partial<typeof reference> & { float64: Reference };

  const close = (got: number, want: number | 'NaN', what: string): void => {
    expect(got, what).toBeCloseToReference(want === 'NaN' ? NaN : want, tolerance);
  };
  const expectPart = (part: ExplainedVariance, of: (file: Reference) => Expected, what: string): void => {
    const want = of(float64);
    expect(part.count, what).toBe(want.count);
    const [ofReturns, ofErrors] = [new Moments(part.returns), new Moments(part.errors)];
    close(ofReturns.mean, want.returns_mean, `${what}: mean of the returns`);
    close(ofErrors.mean, want.error_mean, `${what}: mean of the errors`);
    close(ofReturns.m2, want.returns_m2, `${what}: m2 of the returns`);
    close(ofErrors.m2, want.error_m2, `${what}: m2 of the errors`);
    // Of constant returns verl's formula gives a number, too.
    close(part.value('verl-2026-08'), want.explained_variance, `${what}: explained variance`);
    close(part.value(), of(recommended).explained_variance, `${what}: recommended`);
  };

  test('parts, and their merge in either order', async () => {
    await expectNoLeaks(async () => {
      const splits = golden.options.row_splits as readonly (readonly [number, number])[];
      const all: ExplainedVariance[] = [];
      for (const [from, to] of splits) {
        const tensors = [returns!, values!, mask!].map((tensor) => rowsOf(tensor, from, to));
        const pending = ExplainedVariance.of(tensors[0]!, tensors[1]!, tensors[2]);
        tf.dispose(tensors);
        all.push(await pending);
      }
      all.forEach((part, i) => {
        expectPart(part, ({ parts }) => parts[i]!, `part ${i}`);
      });
      const nothing = new ExplainedVariance();
      expectPart(
        all.reduce((sum, part) => sum.merge(part), nothing),
        ({ merged }) => merged,
        'merged',
      );
      expectPart(
        all.reduceRight((sum, part) => sum.merge(part), nothing),
        ({ merged }) => merged,
        'merged from the end',
      );
    });
  });
});

test('what is no explained variance cannot be merged', () => {
  const merge = (other: unknown): unknown => new ExplainedVariance().merge(other as ExplainedVariance);
  for (const other of [undefined, null, 5, {}]) expect(() => merge(other)).toThrow(/ExplainedVariance/);
});
