/** Golden cases of verl's metrics: building their batches and holding results to their references. */
import * as tf from '@tensorflow/tfjs-core';
import { expect } from 'vitest';

import { type RolloutBatch, type Semantics, batchFromVerl } from '../../src/metrics/index.js';
import { type GoldenCase, decodeInputs, isRefusal, referenceOf, toleranceOf } from './golden.js';
import { hasDevice } from './backend.js';
import { goldenTensors } from './tensors.js';

/** Inputs that verl keeps outside the tensor dict. */
const NON_TENSOR = new Set(['__num_turns__', 'tool_call_counts', 'global_token_num']);

/**
 * For each semantics, the references that speak for it, the first one present counts. The presets are held to the
 * float64 evaluation of that revision's formulas: what verl's float32 adds to them is rounding, not meaning.
 */
export const REFERENCES: Readonly<Record<Semantics, readonly string[]>> = {
  recommended: ['recommended', 'float64'],
  'verl-2026-08': ['float64'],
  'verl-2026-01': ['float64-2026-01', 'float64'],
};

/** The peer's own outcome, for the cases in which that revision raises. */
const PEERS: Readonly<Record<Semantics, readonly string[]>> = {
  recommended: [],
  'verl-2026-08': ['verl-2026-08', 'verl'],
  'verl-2026-01': ['verl-2026-01', 'verl'],
};

const EXPLAINED = 'critic/vf_explained_var';

/** The batch of a case, and what to dispose when it is no longer needed. */
export function goldenBatch(golden: GoldenCase): { batch: RolloutBatch; dispose: () => void } {
  const decoded = decodeInputs(golden.inputs);
  const nonTensor: Record<string, ArrayLike<number>> = {};
  for (const name of NON_TENSOR) {
    const value = decoded[name]?.values ?? golden.inputs[name];
    if (value !== undefined) nonTensor[name] = value as ArrayLike<number>;
  }
  const tensors = goldenTensors(
    Object.fromEntries(Object.entries(decoded).filter(([name]) => !NON_TENSOR.has(name))),
  );
  const responseWidth = (golden.options.response_width ?? undefined) as number | undefined;
  const batch = batchFromVerl(tensors, nonTensor, { responseWidth });
  return {
    batch,
    dispose: () => {
      tf.dispose(tensors);
    },
  };
}

/**
 * Compares metrics with what the references of `semantics` say.
 *
 * Where that revision of verl raises, it has no numbers: then something must be undefined, and whatever is defined
 * must be what its formula gives.
 */
export function expectReference(
  golden: GoldenCase,
  semantics: Semantics,
  metrics: Readonly<Record<string, number>>,
): void {
  const reference = referenceOf(golden, ...REFERENCES[semantics]);
  if (reference === undefined || isRefusal(reference)) {
    throw new Error(`${golden.id} has no reference for ${semantics}`);
  }
  const peer = referenceOf(golden, ...PEERS[semantics]);
  const raises = peer !== undefined && isRefusal(peer);
  if (raises) {
    const something = Object.values(metrics).some(Number.isNaN);
    expect(something, `${golden.id}: verl raises, so something is undefined`).toBe(true);
  }
  expect(Object.keys(metrics).sort()).toEqual(Object.keys(reference).sort());
  for (const [key, expected] of Object.entries(reference)) {
    if (raises && Number.isNaN(metrics[key])) continue;
    if (golden.id === 'denormal' && key === EXPLAINED && hasDevice()) {
      // A device that reads denormals as zero sees constant returns: nothing to explain.
      expect(metrics[key]).toEqual(semantics === 'recommended' ? NaN : 1);
      continue;
    }
    const tolerance = toleranceOf(golden, key);
    expect(metrics[key], `${golden.id}: ${key}`).toBeCloseToReference(expected, tolerance);
  }
}
