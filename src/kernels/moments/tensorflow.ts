/**
 * Masked moments on the `tensorflow` backend: a fixed sequence of TensorFlow ops per pass.
 *
 * Channels are stacked to `[K, R, C]` and reduced over C. Extremes come first; the selected deviations from the
 * maximum are then summed, plain and squared, in float64, where one pass is exact enough: cancellation costs
 * (distance of the maximum / standard deviation)² · 2⁻⁵³. Every pass over the tensors costs as much as its bytes, so
 * flags are counted in float32 and nothing but the deviations is ever float64.
 */

import { DeviceBlock, Pending } from '../collect.js';
import { type Expression, inputNames } from '../expression.js';
import {
  type OpScope,
  RawDtype,
  type RawTensor,
  tensorflowReader,
  usesGpu,
  withOps,
} from '../tensorflow-ops.js';
import { type MomentsRow, MomentsTable } from './record.js';
import type { MaskView, MomentsKernel, MomentsRequest } from './request.js';

/** Per-channel results of a pass, in the order in which they are read back. `count` has one row for all channels. */
const FIELDS = ['finite', 'nan', 'posInf', 'min', 'max', 'sum', 'norm'] as const;

/** Elements that float32 counts exactly. */
const EXACT_FLOAT32_COUNT = 2 ** 24;

/**
 * Bytes of the largest temporary on a CPU. From 32 MiB on, the C library maps fresh pages for every temporary, which
 * costs several times the arithmetic; below a few MiB the cost of calling ops shows. A GPU reduces everything at once.
 */
const CPU_TEMPORARY_BYTES = 16 * 2 ** 20;

/** The matrix that is reduced, and the part of it that one sequence of ops covers. */
interface Block {
  /** Rows and columns of the whole matrix. */
  readonly r: number;
  readonly c: number;
  readonly firstRow: number;
  readonly rowCount: number;
  /** The channels that it covers, and the index of the first of them in the request. */
  readonly channels: readonly Expression[];
  readonly firstChannel: number;
}

export const tensorflowMoments: MomentsKernel = (request) => {
  const [r, c] = foldRows(request);
  const parts = Pending.launchAll<(readonly Part[])[]>(
    blocksOf(request, r, c).map((block) => () => launch(request, block)),
  );
  return parts.map((all) => assemble(all.flat(), request.channels.length, request.rows));
};

/** Whole rows of all channels together as far as the temporaries allow, else row by row and channel by channel. */
function blocksOf({ backend, channels }: MomentsRequest, r: number, c: number): Block[] {
  if (usesGpu(backend)) return [{ r, c, firstRow: 0, rowCount: r, channels, firstChannel: 0 }];
  const rowBytes = c * Float64Array.BYTES_PER_ELEMENT;
  const together = Math.max(1, Math.min(channels.length, Math.floor(CPU_TEMPORARY_BYTES / rowBytes)));
  const rowCount = Math.max(1, Math.floor(CPU_TEMPORARY_BYTES / (rowBytes * together)));
  const blocks: Block[] = [];
  for (let first = 0; first < channels.length; first += together) {
    for (let firstRow = 0; firstRow < r; firstRow += rowCount) {
      blocks.push({
        r,
        c,
        firstRow,
        rowCount: Math.min(rowCount, r - firstRow),
        channels: channels.slice(first, first + together),
        firstChannel: first,
      });
    }
  }
  return blocks;
}

/** The records of one channel in one block. */
interface Part {
  /** Index of the channel in the request; the same expression may be asked for twice. */
  readonly channel: number;
  readonly firstRow: number;
  readonly records: readonly MomentsRow[];
}

function launch(request: MomentsRequest, block: Block): Pending<Part[]> {
  const { channels, firstChannel, rowCount, firstRow } = block;
  const tensor = withOps(request.backend, 'maskedMoments', (ops) => ops.keep(reduce(ops, request, block)));
  const length = (FIELDS.length * channels.length + 1) * rowCount;
  const device = new DeviceBlock(tensorflowReader(request.backend), { tensor, length });
  return new Pending([device], ([bytes]) => {
    const packed = new Float64Array(bytes!);
    return channels.map((_expression, k) => ({
      channel: firstChannel + k,
      firstRow,
      records: decode(packed, k, channels.length, rowCount),
    }));
  });
}

/**
 * Rows and columns of the matrix that is reduced. A single long row is folded by the tensor's own last axis, since
 * TensorFlow spreads a reduction over its outputs: one output keeps one core busy, a thousand keep all.
 */
function foldRows({ rows, cols, inputs, mask }: MomentsRequest): [rows: number, cols: number] {
  const last = [...inputs.values()][0]?.shape.at(-1) ?? cols;
  const leading = cols / last;
  // A window of a wider mask cannot be folded with the values: its rows lie further apart.
  const isDense = mask === undefined || mask.stride === cols;
  const fold = rows === 1 && isDense && last >= 128 && leading <= 65_536 && Number.isInteger(leading);
  return fold ? [leading, last] : [rows, cols];
}

function reduce(ops: OpScope, request: MomentsRequest, block: Block): RawTensor {
  const { rowCount: r, c } = block;
  const k = block.channels.length;
  const x = stackChannels(ops, request, block);
  const single = request.mask && selectionOf(ops, request.mask, request, block);
  // Repeated for every channel: TensorFlow broadcasts along a leading axis several times slower than it copies.
  const mask =
    single && (k === 1 ? single : ops.reshape(ops.pack(Array<RawTensor>(k).fill(single)), k, r, c));
  const countDtype = c > EXACT_FLOAT32_COUNT ? RawDtype.float64 : RawDtype.float32;
  const count = (condition: RawTensor): RawTensor =>
    ops.nest((inner) => inner.sum(inner.cast(condition, countDtype), -1));
  const countSelected = (condition: (inner: OpScope) => RawTensor): RawTensor =>
    ops.nest((inner) => {
      const holds = condition(inner);
      return inner.sum(inner.cast(mask ? inner.logicalAnd(holds, mask) : holds, countDtype), -1);
    });

  const finite = ops.nest((inner) => (mask ? inner.logicalAnd(inner.isFinite(x), mask) : inner.isFinite(x)));
  const max = ops.nest((inner) =>
    inner.max(inner.select(finite, x, inner.cast(inner.scalar(-Infinity), x.dtype)), -1),
  );
  // With the maximum in the gaps, what is not selected changes neither the minimum nor any sum of deviations.
  const filled = ops.select(finite, x, max);
  const deviations = ops.nest((inner) =>
    inner.sub(inner.cast(filled, RawDtype.float64), inner.cast(max, RawDtype.float64)),
  );
  const fields: Record<(typeof FIELDS)[number], RawTensor> = {
    finite: count(finite),
    nan: countSelected((inner) => inner.isNan(x)),
    posInf: countSelected((inner) => inner.equal(x, inner.cast(inner.scalar(Infinity), x.dtype))),
    min: ops.min(filled, -1),
    max,
    sum: ops.sum(deviations, -1),
    norm: ops.euclideanNorm(deviations, -1),
  };
  const total = single === undefined ? ops.broadcastTo(ops.scalar(c), 1, r, 1) : count(single);
  const parts = FIELDS.map((field) => ops.cast(fields[field], RawDtype.float64));
  const all = [...parts, ops.cast(total, RawDtype.float64)];
  return ops.concat(all.map((part) => ops.reshape(part, -1)));
}

/**
 * `[K, R, C]`, float32 if all inputs are. A difference of two float32 is rounded once, relative to itself; int32 is
 * cast to float64, which holds it exactly, and because TensorFlow keeps int32 in host memory even on a GPU.
 */
function stackChannels(ops: OpScope, request: MomentsRequest, block: Block): RawTensor {
  const { r, c, firstRow, rowCount, channels } = block;
  const inputs = new Map<string, RawTensor>();
  for (const name of new Set(channels.flatMap(inputNames))) {
    const matrix = ops.reshape(ops.input(request.inputs.get(name)!), r, c);
    inputs.set(name, rowCount === r ? matrix : ops.slice(matrix, [firstRow, 0], [rowCount, c]));
  }
  const isFloat32 = [...inputs.values()].every(({ dtype }) => dtype === RawDtype.float32);
  const dtype = isFloat32 ? RawDtype.float32 : RawDtype.float64;
  const values = channels.map((channel) => {
    const value = lower(ops, channel, inputs, dtype);
    // A constant has no elements of its own until it is given the shape of the pass.
    return inputNames(channel).length === 0 ? ops.broadcastTo(value, rowCount, c) : value;
  });
  return values.length === 1 ? ops.reshape(values[0]!, 1, rowCount, c) : ops.pack(values);
}

function lower(
  ops: OpScope,
  expression: Expression,
  inputs: ReadonlyMap<string, RawTensor>,
  dtype: RawDtype,
): RawTensor {
  switch (expression.kind) {
    case 'input':
      return ops.cast(inputs.get(expression.name)!, dtype);
    case 'constant':
      return ops.cast(ops.scalar(expression.value), dtype);
    case 'subtract':
      return ops.sub(lower(ops, expression.left, inputs, dtype), lower(ops, expression.right, inputs, dtype));
  }
}

/** `[1, R, C]` bool: which elements of the block the mask selects. */
function selectionOf(
  ops: OpScope,
  mask: MaskView,
  { rows, cols }: MomentsRequest,
  { r, c, firstRow, rowCount }: Block,
): RawTensor {
  let values = ops.reshape(ops.input(mask.tensor), rows, mask.stride);
  if (mask.stride === cols) {
    values = ops.reshape(values, r, c);
    if (rowCount !== r) values = ops.slice(values, [firstRow, 0], [rowCount, c]);
  } else {
    // A window of a wider mask is only asked for per row, so the matrix is not folded.
    values = ops.slice(values, [firstRow, mask.offset], [rowCount, cols]);
  }
  values = ops.reshape(values, 1, rowCount, c);
  if (values.dtype === RawDtype.bool) return values;
  return ops.notEqual(values, ops.cast(ops.scalar(0), values.dtype));
}

/** The records of channel `channel` of `k` from the packed read-back of a block. */
function decode(packed: Float64Array, channel: number, k: number, r: number): MomentsRow[] {
  const column = (name: (typeof FIELDS)[number]): Float64Array => {
    const start = (FIELDS.indexOf(name) * k + channel) * r;
    return packed.subarray(start, start + r);
  };
  const [finites, nans, posInfs] = [column('finite'), column('nan'), column('posInf')] as const;
  const [mins, maxs, sums, norms] = [column('min'), column('max'), column('sum'), column('norm')] as const;
  const counts = packed.subarray(FIELDS.length * k * r);
  const records: MomentsRow[] = [];
  for (let row = 0; row < r; row++) {
    const [count, finite] = [counts[row]!, finites[row]!];
    const [nan, posInf] = [nans[row]!, posInfs[row]!];
    // Where nothing is finite the fillers say nothing.
    const isEmpty = finite === 0;
    const [max, sum, norm] = [maxs[row]!, sums[row]!, norms[row]!];
    records.push({
      count,
      nan,
      posInf,
      negInf: count - finite - nan - posInf,
      sum: isEmpty ? 0 : max * finite + sum,
      m2: isEmpty ? 0 : Math.max(0, norm * norm - (sum * sum) / finite),
      min: isEmpty ? Infinity : mins[row]!,
      max: isEmpty ? -Infinity : max,
    });
  }
  return records;
}

/** One table per channel. Rows of a folded matrix merge in order into the one row that was asked for. */
function assemble(parts: readonly Part[], channels: number, rows: number): MomentsTable[] {
  const tables = Array.from({ length: channels }, () => new MomentsTable(rows));
  for (const { channel, firstRow, records } of parts) {
    const table = tables[channel]!;
    records.forEach((record, row) => {
      if (rows === 1) table.add(0, record);
      else table.set(firstRow + row, record);
    });
  }
  return tables;
}
