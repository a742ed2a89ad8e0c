/** A computation of known outcome, small enough to be exact on every backend: moments of a few masked numbers. */
import * as tf from '@tensorflow/tfjs-core';
import { maskedMoments } from '../../kernels/index.js';
import type { Moments } from '../../rows/index.js';

/** Masked out is what would show up at once: NaN, and a number far away. */
const values = [1, NaN, -2, 4, 1000];
const mask = [true, false, true, true, false];
const expected = { count: 3, mean: 1, m2: 18, min: -2, max: 4 } as const;

/** Undefined if the active backend computes rightly, else what it got wrong. */
export async function selfCheck(): Promise<string | undefined> {
  const inputs = [tf.tensor1d(values), tf.tensor1d(mask, 'bool')] as const;
  try {
    return compareMoments(await maskedMoments(...inputs));
  } finally {
    tf.dispose([...inputs]);
  }
}

/** Undefined if `moments` are those of the check's numbers, else the first that is not. */
export function compareMoments(moments: Pick<Moments, keyof typeof expected>): string | undefined {
  for (const key of Object.keys(expected) as (keyof typeof expected)[]) {
    // Negated, so that NaN counts as wrong.
    if (!(Math.abs(moments[key] - expected[key]) <= 1e-5 * Math.abs(expected[key]))) {
      return `${key} of 1, -2, 4 should be ${expected[key]}, is ${moments[key]}`;
    }
  }
  return undefined;
}
