/**
 * Masked moments on the `tensorflow` backend: a fixed sequence of TensorFlow ops per pass.
 *
 * Channels are stacked to `[K, R, C]` and reduced over C. Extremes come first; the selected deviations from the
 * maximum are then summed, plain and squared, in float64, where one pass is exact enough: cancellation costs
 * (distance of the maximum / standard deviation)² · 2⁻⁵³. Every pass over the tensors costs as much as its bytes, so
 * flags are counted in float32 and nothing but the deviations is ever float64.
 */
import type { TensorInfo } from '@tensorflow/tfjs-core';
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
import { type MomentsRow, MomentsTable, emptyRow } from './record.js';
import type { MaskView, MomentsKernel, MomentsRequest } from './request.js';

/** Per-channel results of a pass, in the order in which they are read back. `count` has one row for all channels. */
const FIELDS = ['finite', 'nan', 'posInf', 'min', 'max', 'sum', 'norm'] as const;

/** Elements that float32 counts exactly. */
const EXACT_FLOAT32_COUNT = 2 ** 24;

/**
 * Bytes of the largest temporary on a CPU. Beyond this the C library maps fresh pages for every temporary, and writing
 * those costs several times the arithmetic; channels are then stacked in smaller groups. A GPU stacks them all.
 */
const CPU_TEMPORARY_BYTES = 32 * 2 ** 20;

export const tensorflowMoments: MomentsKernel = (request) => {
  const { backend, rows, cols, channels } = request;
  const perChannel = rows * cols * Float64Array.BYTES_PER_ELEMENT;
  const together = usesGpu(backend)
    ? channels.length
    : Math.max(1, Math.floor(CPU_TEMPORARY_BYTES / perChannel));
  const launches: Pending<MomentsTable[]>[] = [];
  for (let first = 0; first < channels.length; first += together) {
    launches.push(launch({ ...request, channels: channels.slice(first, first + together) }));
  }
  return Pending.all(launches).map((tables) => tables.flat());
};

function launch(request: MomentsRequest): Pending<MomentsTable[]> {
  const k = request.channels.length;
  const [r, c] = foldRows(request);
  const tensor = withOps(request.backend, 'maskedMoments', (ops) => ops.keep(reduce(ops, request, r, c)));
  const block = new DeviceBlock(tensorflowReader(request.backend), {
    tensor,
    length: (FIELDS.length * k + 1) * r,
  });
  return new Pending([block], ([bytes]) => decode(new Float64Array(bytes!), k, r, request.rows));
}

/**
 * Rows and columns of the matrix that is reduced. A single long row is folded by the tensor's own last axis, since
 * TensorFlow spreads a reduction over its outputs: one output keeps one core busy, a thousand keep all.
 */
function foldRows({ rows, cols, inputs, mask }: MomentsRequest): [rows: number, cols: number] {
  const shape = [...inputs.values()][0]?.shape ?? mask?.tensor.shape;
  const last = shape?.at(-1) ?? cols;
  const fold = rows === 1 && last >= 128 && cols / last <= 65_536;
  return fold ? [cols / last, last] : [rows, cols];
}

function reduce(ops: OpScope, request: MomentsRequest, r: number, c: number): RawTensor {
  const k = request.channels.length;
  const x = stackChannels(ops, request, r, c);
  const single = request.mask && selectionOf(ops, request.mask, request.rows, request.cols, r, c);
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
function stackChannels(ops: OpScope, request: MomentsRequest, r: number, c: number): RawTensor {
  const inputs = new Map([...request.inputs].map(([name, info]) => [name, matrix(ops, info, r, c)] as const));
  const isFloat32 = [...inputs.values()].every(({ dtype }) => dtype === RawDtype.float32);
  const dtype = isFloat32 ? RawDtype.float32 : RawDtype.float64;
  const channels = request.channels.map((channel) => {
    const value = lower(ops, channel, inputs, dtype);
    // A constant has no elements of its own until it is given the shape of the pass.
    return inputNames(channel).length === 0 ? ops.broadcastTo(value, r, c) : value;
  });
  return channels.length === 1 ? ops.reshape(channels[0]!, 1, r, c) : ops.pack(channels);
}

function matrix(ops: OpScope, info: TensorInfo, r: number, c: number): RawTensor {
  return ops.reshape(ops.input(info), r, c);
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

/** `[1, R, C]` bool: which elements the mask selects. */
function selectionOf(
  ops: OpScope,
  mask: MaskView,
  rows: number,
  cols: number,
  r: number,
  c: number,
): RawTensor {
  let values = ops.reshape(ops.input(mask.tensor), rows, mask.stride);
  if (mask.stride !== cols) values = ops.slice(values, [0, mask.offset], [rows, cols]);
  values = ops.reshape(values, 1, r, c);
  if (values.dtype === RawDtype.bool) return values;
  return ops.notEqual(values, ops.cast(ops.scalar(0), values.dtype));
}

/** One table per channel from the packed read-back. Folded rows merge in row order. */
function decode(packed: Float64Array, k: number, r: number, rows: number): MomentsTable[] {
  const field = (f: number, channel: number, row: number): number => packed[(f * k + channel) * r + row]!;
  return Array.from({ length: k }, (_, channel) => {
    const table = new MomentsTable(rows);
    for (let row = 0; row < r; row++) {
      const value = (name: (typeof FIELDS)[number]): number => field(FIELDS.indexOf(name), channel, row);
      const count = packed[FIELDS.length * k * r + row]!;
      const finite = value('finite');
      const [nan, posInf] = [value('nan'), value('posInf')];
      const [sum, norm] = [value('sum'), value('norm')];
      const record: MomentsRow = {
        count,
        nan,
        posInf,
        negInf: count - finite - nan - posInf,
        sum: value('max') * finite + sum,
        m2: Math.max(0, norm * norm - (sum * sum) / finite),
        min: value('min'),
        max: value('max'),
      };
      table.add(rows === 1 ? 0 : row, finite === 0 ? { ...record, ...NOTHING_FINITE } : record);
    }
    return table;
  });
}

/** Sums and extremes of no elements, whose fillers say nothing. */
const NOTHING_FINITE = {
  sum: emptyRow.sum,
  m2: emptyRow.m2,
  min: emptyRow.min,
  max: emptyRow.max,
};
