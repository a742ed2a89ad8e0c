/**
 * Rows of logits that the host can reach: sums by the SIMD module, four numbers per row from its sums in float64.
 *
 * How a row gets in front of the module is each backend's own: on `cpu` rows are copied tile by tile to its memory, on
 * `wasm` they are in it.
 */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { assertLabels } from '../logits/checks.js';
import { type LogitsKernel, type LogitsRequest, type PerStatistic, perStatistic } from '../logits/request.js';
import { type Workspace, heapWorkspace, ownWorkspace } from '../simd/workspace.js';
import { type HostArray, cpuArray, heapArray } from './arrays.js';

/** Bytes of a row's state and of the scratch behind it, see `foldLogits` in ../simd/assembly/logits.ts. */
const STATE_BYTES = 64;

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
function hostStatistics(
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

/** Logits that are copied at once: 16 KiB, which stay in the first-level cache until they are summed. */
const TILE = 4096;

export const cpuLogits: LogitsKernel = (request) => {
  const { backend, cols } = request;
  const logits = cpuArray(backend, request.logits);
  const labels = cpuArray(backend, request.labels);
  const workspace = ownWorkspace();
  const { simd } = workspace;
  const state = workspace.scratch(STATE_BYTES + TILE * Float32Array.BYTES_PER_ELEMENT);
  const address = state + STATE_BYTES;
  const tile = new Float32Array(workspace.bytes.buffer, address, TILE);
  /** Rows that fit a tile together: copying costs by the call. */
  const together = Math.max(1, Math.floor(TILE / cols));

  const fold = (row: number, factor: number): void => {
    const start = row * cols;
    if (cols <= TILE) {
      const place = row % together;
      // A tensor that was cast from int32 still holds integers here; `set` converts them.
      if (place === 0) tile.set(logits.subarray(start, start + together * cols));
      simd.foldLogits(address + place * cols * Float32Array.BYTES_PER_ELEMENT, cols, factor, state);
      return;
    }
    for (let done = 0; done < cols; done += TILE) {
      const length = Math.min(TILE, cols - done);
      tile.set(logits.subarray(start + done, start + done + length));
      simd.foldLogits(address, length, factor, state);
    }
  };
  return hostStatistics(request, { logits, labels, workspace, state, fold });
};

export const wasmLogits: LogitsKernel = (request) => {
  const { backend } = request;
  const workspace = heapWorkspace(backend);
  const { simd } = workspace;
  const state = workspace.scratch(STATE_BYTES);
  const logits = heapArray(backend, request.logits);
  const labels = heapArray(backend, request.labels);
  const rowBytes = request.cols * logits.BYTES_PER_ELEMENT;
  return hostStatistics(request, {
    logits,
    labels,
    workspace,
    state,
    fold: (row, factor) => {
      simd.foldLogits(logits.byteOffset + row * rowBytes, request.cols, factor, state);
    },
  });
};
