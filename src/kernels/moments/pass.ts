/**
 * One moments pass, from named tensors to the kernel of the backend that holds them.
 *
 * The operations and the metrics describe what they want as a pass; which backend runs it is decided here and nowhere
 * else.
 */
import * as tf from '@tensorflow/tfjs-core';
import { repeatRow, MomentsTable } from '../../rows/index.js';
import { residentBackend } from '../backends/table.js';
import { Pending } from '../collect.js';
import { type Expression, evaluate } from '../expression.js';
import { CompactMask, type MaskTensor } from '../masks/compact-mask.js';
import { compile, programInputs } from '../program.js';
import type { NamedTensor } from '../residency.js';
import type { ChannelRequest, MatrixView, MomentsRequest } from './request.js';

/** A tensor seen as a matrix with the rows and columns of the pass; nothing is copied. */
export type MatrixWindow = MatrixView<tf.Tensor>;

/** A channel over the elements that a mask of the pass selects. */
export interface MaskedExpression<M extends string = string> {
  readonly of: Expression;
  /** Name of the mask; undefined selects everything. */
  readonly mask: M | undefined;
}

/** One pass over tensors seen as `[rows, cols]`: what to compute, and where. See `passTables`. */
export interface MomentsPass {
  /** The public function that asks, for error messages. */
  readonly where: string;
  readonly rows: number;
  readonly cols: number;
  /** Windows of tensors, or dense tensors of rows · cols elements. */
  readonly inputs: Readonly<Record<string, tf.Tensor | MatrixWindow>>;
  readonly channels: Readonly<Record<string, Expression | MaskedExpression>>;
  /** Selects the elements of the channels that name no other mask; left out, those take all. */
  readonly mask?: MatrixWindow | undefined;
  /** The masks that channels name; undefined selects all elements. */
  readonly masks?: Readonly<Record<string, MatrixWindow | undefined>>;
  /** What the caller knows inputs and masks as, by name, for error messages. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** A dense window of `cols` columns. */
export function denseWindow(tensor: MaskTensor, cols: number): MatrixWindow {
  return windowOf(tensor, cols, 1);
}

/** One value per row. */
export function rowWindow(tensor: MaskTensor): MatrixWindow {
  return windowOf(tensor, 1, 0);
}

function windowOf(mask: MaskTensor, stride: number, step: 0 | 1): MatrixWindow {
  if (!(mask instanceof CompactMask)) return { tensor: mask, stride, offset: 0, step };
  const { tensor, form } = mask.stored('passTables', 'mask');
  return { tensor, stride, offset: 0, step, form };
}

/**
 * Launches a pass: one table of `rows` rows per channel.
 *
 * The caller has checked shapes and dtypes, and that the inputs and masks which the channels name exist; residency is
 * checked here.
 *
 * @throws BackendError for tensors on two backends, or on one without kernels
 */
export function passTables<K extends string>(
  pass: MomentsPass & { readonly channels: Readonly<Record<K, Expression | MaskedExpression>> },
): Pending<Record<K, MomentsTable>> {
  const { where, rows, cols, labels = {} } = pass;
  const channels = Object.entries<Expression | MaskedExpression>(pass.channels);
  const { nodes, outputs } = compile(
    channels.map(([, channel]) => channelExpression(channel)),
    where,
  );
  const inputs = new Map<string, MatrixWindow>();
  for (const name of programInputs({ nodes })) {
    const tensor = pass.inputs[name]!;
    inputs.set(name, tensor instanceof tf.Tensor ? denseWindow(tensor, cols) : tensor);
  }
  const masks = new Map<MatrixWindow, { readonly index: number; readonly name: string }>();
  const maskOf = channels.map(([, channel]): number | undefined => {
    const name = 'of' in channel ? channel.mask : 'mask';
    if (name === undefined) return undefined;
    const mask = 'of' in channel ? pass.masks![name] : pass.mask;
    if (mask === undefined) return undefined;
    const known = masks.get(mask) ?? { index: masks.size, name };
    masks.set(mask, known);
    return known.index;
  });
  const named: NamedTensor[] = [
    ...[...inputs].map(([name, { tensor }]) => ({ name: labels[name] ?? name, tensor })),
    ...[...masks].map(([{ tensor }, { name }]) => ({ name: labels[name] ?? name, tensor })),
  ];
  const perChannel = (tableOf: (index: number) => MomentsTable): Record<K, MomentsTable> =>
    Object.fromEntries(channels.map(([channel], index) => [channel, tableOf(index)])) as Record<
      K,
      MomentsTable
    >;
  if (named.length === 0) {
    return Pending.of(
      perChannel((index) => constantTable(channelExpression(channels[index]![1]), rows, cols)),
    );
  }
  const requests = distinct(outputs.map((node, index) => ({ node, mask: maskOf[index] })));
  const tables = launch(where, named, {
    rows,
    cols,
    inputs,
    masks: [...masks.keys()],
    nodes,
    channels: requests.channels,
  });
  return tables.map((all) => perChannel((index) => all[requests.positions[index]!]!));
}

/**
 * Launches the pass whose channels are its inputs, as records of trackers are: many and small, so that nothing is compiled
 * for them. One table per tensor, in order.
 *
 * @throws as `passTables`, whose caller has checked the same
 */
export function inputTables(
  where: string,
  tensors: readonly NamedTensor[],
  mask: MaskTensor | undefined,
  rows: number,
  cols: number,
): Pending<readonly MomentsTable[]> {
  const window = mask && denseWindow(mask, cols);
  const named = window === undefined ? tensors : [...tensors, { name: 'mask', tensor: window.tensor }];
  return launch(where, named, {
    rows,
    cols,
    inputs: new Map(tensors.map(({ name, tensor }) => [name, denseWindow(tensor, cols)])),
    masks: window === undefined ? [] : [window],
    nodes: tensors.map(({ name }) => ({ op: 'input', name })),
    channels: tensors.map((_, node) => ({ node, mask: window && 0 })),
  });
}

/** @param named all tensors of the request */
function launch(
  where: string,
  named: readonly NamedTensor[],
  request: Omit<MomentsRequest, 'backend'>,
): Pending<readonly MomentsTable[]> {
  const { kernels, backend } = residentBackend(where, named);
  const { rows, cols, channels } = request;
  // Nothing to reduce is nothing to launch: devices refuse empty buffers.
  if (rows === 0 || cols === 0) return Pending.of(channels.map(() => new MomentsTable(rows)));
  return kernels.moments({ backend, ...request });
}

/** The channels without repetition, and where each of those that were asked for is among them. */
function distinct(asked: readonly ChannelRequest[]): {
  readonly channels: readonly ChannelRequest[];
  readonly positions: readonly number[];
} {
  const keys = asked.map(({ node, mask }) => `${node} ${mask}`);
  const positionOf = new Map<string, number>();
  const channels = asked.filter((_, i) => {
    const isNew = !positionOf.has(keys[i]!);
    if (isNew) positionOf.set(keys[i]!, positionOf.size);
    return isNew;
  });
  return { channels, positions: keys.map((key) => positionOf.get(key)!) };
}

function channelExpression(channel: Expression | MaskedExpression): Expression {
  return 'of' in channel ? channel.of : channel;
}

/**
 * Rows of `cols` times the same number, as a pass without tensors has them.
 *
 * @param expression reads no input once it is compiled, so that the numbers of those that it names do not matter
 */
function constantTable(expression: Expression, rows: number, cols: number): MomentsTable {
  const table = new MomentsTable(rows);
  const record = repeatRow(
    evaluate(expression, () => 0),
    cols,
  );
  for (let row = 0; row < rows && cols > 0; row++) table.set(row, record);
  return table;
}
