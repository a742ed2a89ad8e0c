/**
 * Counts what is alive: a kernel owns its result until it is read and nothing else, before and after.
 */

import * as tf from '@tensorflow/tfjs-core';
import { expect } from 'vitest';

/** Counters that only some backends have. */
interface NativeCounters {
  /** tensorflow: native tensors, also those that no tfjs tensor stands for. */
  readonly getNumOfTFTensors?: () => number;
}

/** What is alive right now. */
export interface Alive {
  readonly tensors: number;
  readonly dataIds: number;
  readonly nativeTensors: number;
}

export function alive(): Alive {
  const backend = tf.backend();
  return {
    tensors: tf.memory().numTensors,
    dataIds: backend.numDataIds(),
    nativeTensors: (backend as NativeCounters).getNumOfTFTensors?.() ?? 0,
  };
}

/** Runs `body` and asserts that afterwards exactly as much is alive on the active backend as before. */
export async function expectNoLeaks<T>(body: () => Promise<T>): Promise<T> {
  const before = alive();
  const result = await body();
  expect(alive(), 'tensors alive after the body, against before').toEqual(before);
  return result;
}
