/**
 * The float64 loops behind the `cpu` and `wasm` backends: moments of typed arrays, tile by tile.
 *
 * Per tile the mask is read once into a list of selected positions; each channel then gathers its selected values
 * into a dense float64 scratch and is reduced in two passes (mean, then deviations), and tiles merge by `mergeRows`.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { Pending } from '../collect.js';
import type { Expression } from '../expression.js';
import { type MomentsRow, MomentsTable, emptyRow } from './record.js';
import type { MomentsKernel } from './request.js';

/** What tensors of the supported dtypes are made of on the host. */
export type HostArray = Float32Array | Int32Array | Uint8Array;

/** The kernel of a backend whose tensors the host can `view` as typed arrays, without copying them. */
export function hostKernel(view: (backend: KernelBackend, info: TensorInfo) => HostArray): MomentsKernel {
  return ({ backend, rows, cols, inputs, channels, mask }) => {
    const arrays = new Map<string, HostArray>();
    for (const [name, info] of inputs) arrays.set(name, view(backend, info));
    const selection = mask && {
      values: view(backend, mask.tensor),
      stride: mask.stride,
      offset: mask.offset,
    };
    return Pending.of(hostMoments({ rows, cols, inputs: arrays, channels, mask: selection }));
  };
}

/** A `MomentsRequest` whose tensors are at hand as typed arrays. */
interface HostRequest {
  readonly rows: number;
  readonly cols: number;
  readonly inputs: ReadonlyMap<string, HostArray>;
  readonly channels: readonly Expression[];
  readonly mask: { readonly values: HostArray; readonly stride: number; readonly offset: number } | undefined;
}

/** Elements per tile: scratch for a few channels stays in the first-level cache. */
const TILE = 2048;

/** One table per channel, in order. */
function hostMoments(request: HostRequest): MomentsTable[] {
  const { rows, cols, channels, mask } = request;
  const tables = channels.map(() => new MomentsTable(rows));
  const selected = new Int32Array(TILE);
  const gathers = channels.map((channel) => gatherOf(channel, request.inputs));
  const scratch = new Float64Array(TILE);
  for (let r = 0; r < rows; r++) {
    for (let start = 0; start < cols; start += TILE) {
      const length = Math.min(TILE, cols - start);
      const base = r * cols + start;
      const n =
        mask === undefined
          ? selectAll(base, length, selected)
          : select(mask.values, r * mask.stride + mask.offset + start, base, length, selected);
      if (n === 0) continue;
      for (let k = 0; k < channels.length; k++) {
        gathers[k]!(selected, n, scratch);
        tables[k]!.add(r, reduceTile(scratch, n));
      }
    }
  }
  return tables;
}

/** Positions of the selected elements of one tile; returns how many. */
function select(
  mask: HostArray,
  maskStart: number,
  base: number,
  length: number,
  selected: Int32Array,
): number {
  let n = 0;
  for (let i = 0; i < length; i++) {
    selected[n] = base + i;
    // NaN !== 0, so a NaN in a float mask selects, as every backend has it.
    n += mask[maskStart + i] !== 0 ? 1 : 0;
  }
  return n;
}

function selectAll(base: number, length: number, selected: Int32Array): number {
  for (let i = 0; i < length; i++) selected[i] = base + i;
  return length;
}

/** Writes the values of a channel at the first `n` selected positions to `out`. */
type Gather = (selected: Int32Array, n: number, out: Float64Array) => void;

function gatherOf(expression: Expression, inputs: ReadonlyMap<string, HostArray>): Gather {
  switch (expression.kind) {
    case 'input': {
      const values = inputs.get(expression.name)!;
      return (selected, n, out) => {
        for (let i = 0; i < n; i++) out[i] = values[selected[i]!]!;
      };
    }
    case 'constant':
      return (_selected, n, out) => {
        out.fill(expression.value, 0, n);
      };
    case 'subtract': {
      const left = gatherOf(expression.left, inputs);
      const right = gatherOf(expression.right, inputs);
      const subtrahend = new Float64Array(TILE);
      return (selected, n, out) => {
        left(selected, n, out);
        right(selected, n, subtrahend);
        for (let i = 0; i < n; i++) out[i]! -= subtrahend[i]!;
      };
    }
  }
}

/** The row of the first `n` numbers of `x`. */
function reduceTile(x: Float64Array, n: number): MomentsRow {
  let sum = 0;
  let min = Infinity;
  let max = -Infinity;
  for (let i = 0; i < n; i++) {
    const v = x[i]!;
    sum += v;
    if (v < min) min = v;
    if (v > max) max = v;
  }
  // float32 inputs cannot overflow a float64 sum, so a non-finite sum means a non-finite element.
  if (!Number.isFinite(sum)) return reduceNonFiniteTile(x, n);
  const mean = sum / n;
  let m2 = 0;
  for (let i = 0; i < n; i++) {
    const d = x[i]! - mean;
    m2 += d * d;
  }
  return { count: n, nan: 0, posInf: 0, negInf: 0, sum, m2, min, max };
}

/** Counts the non-finite elements and reduces the others. */
function reduceNonFiniteTile(x: Float64Array, n: number): MomentsRow {
  let nan = 0;
  let posInf = 0;
  let negInf = 0;
  let finite = 0;
  for (let i = 0; i < n; i++) {
    const v = x[i]!;
    if (Number.isFinite(v)) x[finite++] = v;
    else if (v === Infinity) posInf++;
    else if (v === -Infinity) negInf++;
    else nan++;
  }
  const { sum, m2, min, max } = finite === 0 ? emptyRow : reduceTile(x, finite);
  return { count: n, nan, posInf, negInf, sum, m2, min, max };
}
