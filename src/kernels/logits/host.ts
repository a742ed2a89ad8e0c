/**
 * Rows of logits that the host can reach: sums by the SIMD module, four numbers per row from its sums in float64.
 *
 * What `cpu` and `wasm` share. How a row gets in front of the module is each backend's own.
 */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import type { HostArray } from '../host-arrays.js';
import type { Workspace } from '../simd/workspace.js';
import { assertLabels } from './checks.js';
import { type LogitsRequest, type PerStatistic, perStatistic } from './request.js';

/** Bytes of a row's state and of the scratch behind it, see `foldLogits` in ../simd/assembly/logits.ts. */
export const STATE_BYTES = 64;

/** The tensors of a request as arrays, and how a row is summed. */
interface HostRows {
  readonly logits: HostArray;
  readonly labels: HostArray;
  readonly workspace: Workspace;
  /** Address of `STATE_BYTES` bytes in the workspace. */
  readonly state: number;
  /** Folds row `row` into the state; `factor` turns a difference of logits into an exponent of 2. */
  readonly fold: (row: number, factor: number) => void;
}

/** Runs `fold` over all rows and writes the four statistics to tensors of the backend. */
export function hostStatistics(
  { backend, rows, cols, temperature, labels: { shape } }: LogitsRequest,
  { logits, labels, workspace, state, fold }: HostRows,
): PerStatistic<TensorInfo> {
  assertLabels(labels, shape, cols);
  const { logProbs, entropy, sumPiSquared, maxProb } = perStatistic(() => new Float32Array(rows));
  // All four together: a failed call leaves no tensor behind.
  workspace.assertRoom(4 * rows * Float32Array.BYTES_PER_ELEMENT);
  const numbers = workspace.float64;
  const at = state / Float64Array.BYTES_PER_ELEMENT;
  for (let row = 0; row < rows; row++) {
    numbers[at] = -Infinity;
    numbers.fill(0, at + 1, at + 4);
    fold(row, 1 / (temperature * Math.LN2));
    const max = numbers[at];
    // Of nothing but −Infinity there is no distribution; NaN and +Infinity have made the sums NaN.
    const s1 = max === -Infinity ? NaN : numbers[at + 1]!;
    const logSum = Math.log(s1);
    const label = Math.fround(logits[row * cols + labels[row]!]!);
    logProbs[row] = (label - max) / temperature - logSum;
    entropy[row] = logSum - (numbers[at + 3]! / s1) * Math.LN2;
    sumPiSquared[row] = numbers[at + 2]! / (s1 * s1);
    maxProb[row] = 1 / s1;
  }
  const values = { logProbs, entropy, sumPiSquared, maxProb };
  return perStatistic((name) => ({
    dataId: backend.write(values[name], shape, 'float32'),
    shape,
    dtype: 'float32',
  }));
}
