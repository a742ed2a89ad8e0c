/**
 * Masked moments on a GPU of the `tensorflow` backend: a fixed sequence of ops per mask, however many channels.
 *
 * The channels of a mask are stacked and reduced together. Extremes come first; the selected deviations from the
 * maximum are then summed, plain and squared, in float64, where one pass is exact enough: an element of the data is at
 * most √n standard deviations from the mean, so cancellation costs n · 2⁻⁵³.
 */

import { MomentsTable } from '../../../rows/index.js';
import { DeviceBlock, Pending } from '../../collect.js';
import { type MatrixView, type MomentsKernel, type MomentsRequest, isDense } from '../../moments/request.js';
import { lowerToOps } from './lowering.js';
import { type OpScope, RawDtype, type RawTensor, withOps } from './ops.js';
import { tensorflowReader } from './reader.js';

/**
 * What is counted, then what is measured, per channel and row, in the order in which they are read back. Without a
 * mask nobody counts what it selects, and `selected` comes first so that it can be left out.
 */
const FIELDS = ['selected', 'finite', 'nan', 'posInf', 'min', 'max', 'sum', 'norm'] as const;
type Field = (typeof FIELDS)[number];

function fieldsOf({ mask }: Group): readonly Field[] {
  return mask === undefined ? FIELDS.slice(1) : FIELDS;
}

/** Elements that float32 counts exactly. */
const EXACT_FLOAT32_COUNT = 2 ** 24;

/** Up to so many elements the two ops that narrow temporaries take cost more than the bytes that they save. */
const FEW_ELEMENTS = 2 ** 18;

/** Channels that share a mask. */
interface Group {
  /** Index of the mask in the request; undefined selects everything. */
  readonly mask: number | undefined;
  /** Indices of the channels in the request. */
  readonly channels: readonly number[];
}

export const deviceMoments: MomentsKernel = (request) => {
  const groups = groupsOf(request);
  const parts = Pending.launchAll<Float64Array[]>(groups.map((group) => () => launch(request, group)));
  return parts.map((all) => {
    const tables = request.channels.map(() => new MomentsTable(request.rows));
    all.forEach((packed, i) => {
      decode(packed, request, groups[i]!, tables);
    });
    return tables;
  });
};

/** The channels by mask, in order of first use. */
function groupsOf({ channels }: MomentsRequest): Group[] {
  const groups = new Map<number | undefined, number[]>();
  channels.forEach(({ mask }, index) => {
    groups.set(mask, [...(groups.get(mask) ?? []), index]);
  });
  return [...groups].map(([mask, indices]) => ({ mask, channels: indices }));
}

function launch(request: MomentsRequest, group: Group): Pending<Float64Array> {
  const tensor = withOps(request.backend, 'maskedMoments', (ops) => ops.keep(reduce(ops, request, group)));
  const length = fieldsOf(group).length * group.channels.length * request.rows;
  const device = new DeviceBlock(tensorflowReader(request.backend), { tensor, length });
  return new Pending([device], ([bytes]) => new Float64Array(bytes!));
}

/** The fields of a group, `[fields, channels, rows]` in float64. */
function reduce(ops: OpScope, request: MomentsRequest, group: Group): RawTensor {
  const views = new Views(ops, request);
  const values = stackChannels(ops, request, group, views);
  const mask = group.mask === undefined ? undefined : stackMask(ops, request, group, views);
  // What the mask leaves out counts as −Infinity, of which nothing else is asked.
  const nothing = ops.cast(ops.scalar(-Infinity), values.dtype);
  const x = mask ? ops.select(mask, values, nothing) : values;
  if (mask) ops.release(values);

  const elements = group.channels.length * request.rows * request.cols;
  const wide = elements <= FEW_ELEMENTS ? RawDtype.float64 : undefined;
  const axes = views.reducedAxes;

  const finite = ops.isFinite(x);
  const counts = ops.nest((inner) => {
    const infinity = inner.cast(inner.scalar(Infinity), x.dtype);
    const conditions = inner.concat([
      ...(mask ? [mask] : []),
      finite,
      inner.isNan(x),
      inner.equal(x, infinity),
    ]);
    const exact = request.cols > EXACT_FLOAT32_COUNT ? RawDtype.float64 : RawDtype.float32;
    return inner.cast(inner.sum(inner.cast(conditions, wide ?? exact), ...axes), RawDtype.float64);
  });
  const known = ops.nest((inner) => inner.cast(inner.select(finite, x, nothing), wide ?? x.dtype));
  ops.release(x);
  const max = ops.max(known, ...axes);
  // With the maximum in the gaps, what is not selected changes neither the minimum nor any sum of deviations.
  const filled = ops.nest((inner) => inner.cast(inner.select(finite, known, max), RawDtype.float64));
  ops.release(known);
  const pivot = ops.cast(max, RawDtype.float64);
  const min = ops.min(filled, ...axes);
  const deviations = ops.sub(filled, pivot);
  ops.release(filled);
  const [sum, norm] = [ops.sum(deviations, ...axes), ops.euclideanNorm(deviations, ...axes)];
  return ops.concat([counts, min, pivot, sum, norm]);
}

/** `[channels, …, cols]`: the values of the channels of a group. */
function stackChannels(ops: OpScope, request: MomentsRequest, group: Group, views: Views): RawTensor {
  const wanted = group.channels.map((channel) => request.channels[channel]!.node);
  const values = lowerToOps(ops, request.nodes, wanted, (name) => views.read(request.inputs.get(name)!));
  return ops.pack(
    values.map((value, i) => (isFull(request, wanted[i]!) ? value : ops.broadcastTo(value, ...views.shape))),
  );
}

/** Whether a node has a value per element, and not per row or one for all. */
function isFull({ nodes, inputs }: MomentsRequest, node: number): boolean {
  const full: boolean[] = [];
  for (const next of nodes.slice(0, node + 1)) {
    if (next.op === 'input') full.push(inputs.get(next.name)!.step === 1);
    else full.push('args' in next && next.args.some((arg) => full[arg]));
  }
  return full[node]!;
}

/** `[channels, …]` bool: the mask, copied for every channel, so that one concat joins it with the conditions. */
function stackMask(ops: OpScope, request: MomentsRequest, group: Group, views: Views): RawTensor {
  const view = request.masks[group.mask!]!;
  // As a number becomes bool, NaN is true and both zeros are false.
  const selected = ops.cast(views.read(view), RawDtype.bool);
  const full = view.step === 1 ? selected : ops.broadcastTo(selected, ...views.shape);
  return ops.pack(Array<RawTensor>(group.channels.length).fill(full));
}

/** The tensors of a pass, all of one shape or one value per row of it. */
class Views {
  /** The shape of full tensors: their own, as long as nothing has to be cut or broadcast. */
  readonly shape: readonly number[];
  /** Axes of the stacked channels that one row of the pass is made of. */
  readonly reducedAxes: readonly number[];
  readonly #ops: OpScope;
  readonly #request: MomentsRequest;
  readonly #isNatural: boolean;

  constructor(ops: OpScope, request: MomentsRequest) {
    const { rows, cols, inputs, masks } = request;
    const views = [...inputs.values(), ...masks];
    const natural = views[0]?.tensor.shape ?? [];
    this.#isNatural =
      (rows === 1 || natural.at(-1) === cols) &&
      views.every((view) => isDense(view, cols) && view.tensor.shape.join() === natural.join());
    this.shape = this.#isNatural ? natural : [rows, cols];
    const isWhole = this.#isNatural && rows === 1;
    this.reducedAxes = isWhole ? natural.map((_, axis) => axis + 1) : [-1];
    this.#ops = ops;
    this.#request = request;
  }

  read({ tensor, stride, offset, step }: MatrixView): RawTensor {
    const whole = this.#ops.input(tensor);
    if (this.#isNatural) return whole;
    const { rows, cols } = this.#request;
    if (step === 0) return this.#ops.reshape(whole, rows, 1);
    const matrix = this.#ops.reshape(whole, rows, stride);
    return stride === cols ? matrix : this.#ops.slice(matrix, [0, offset], [rows, cols]);
  }
}

/** Puts the fields of a group into the tables of its channels. */
function decode(
  packed: Float64Array,
  { rows, cols }: MomentsRequest,
  group: Group,
  tables: readonly MomentsTable[],
): void {
  const { channels, mask } = group;
  const fields = fieldsOf(group);
  channels.forEach((channel, k) => {
    const column = (name: Field): Float64Array => {
      const start = (fields.indexOf(name) * channels.length + k) * rows;
      return packed.subarray(start, start + rows);
    };
    const counts = mask === undefined ? undefined : column('selected');
    const [finites, nans, posInfs] = [column('finite'), column('nan'), column('posInf')];
    const [mins, maxs, sums, norms] = [column('min'), column('max'), column('sum'), column('norm')];
    const { cells } = tables[channel]!;
    for (let row = 0, at = 0; row < rows; row++, at += MomentsTable.WIDTH) {
      const count = counts === undefined ? cols : counts[row]!;
      const [finite, nan, posInf] = [finites[row]!, nans[row]!, posInfs[row]!];
      const [max, sum, norm] = [maxs[row]!, sums[row]!, norms[row]!];
      // Where nothing is finite the fillers say nothing.
      const isEmpty = finite === 0;
      cells[at] = count;
      cells[at + 1] = nan;
      cells[at + 2] = posInf;
      cells[at + 3] = count - finite - nan - posInf;
      cells[at + 4] = isEmpty ? 0 : max * finite + sum;
      cells[at + 5] = isEmpty ? 0 : Math.max(0, norm * norm - (sum * sum) / finite);
      cells[at + 6] = isEmpty ? Infinity : mins[row]!;
      cells[at + 7] = isEmpty ? -Infinity : max;
    }
  });
}
