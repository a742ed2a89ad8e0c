/**
 * Channel moments: what the metrics are made of. Every channel is an expression over named inputs; all of them are
 * evaluated and reduced in one fused pass, which reads every input once.
 */
import type * as tf from '@tensorflow/tfjs-core';
import { kindOf } from '../../arguments.js';
import { MissingInputError, ShapeError, ValueError } from '../../errors.js';
import type { Moments, MomentsTable } from '../../rows/index.js';
import { Pending } from '../collect.js';
import { type Expression, type Operand, expressionOf, inputNames } from '../expression.js';
import { type MaskTensor, assertMask } from '../masks/compact-mask.js';
import { type NamedTensor, assertNumericTensor } from '../residency.js';
import {
  type MomentsOptions,
  type NamedMask,
  assertRank,
  checkedOptions,
  isRecord,
  sizeOf,
} from './checks.js';
import { type MaskedExpression, type MatrixWindow, denseWindow, passTables, rowWindow } from './pass.js';
import { finisher, mapValues } from './results.js';
import type { RowMoments } from './row-moments.js';

/** A channel of `channelMoments`: an expression, or one with the name of its own mask. */
export type Channel<M extends string = string> =
  | Operand
  | {
      readonly of: Operand;
      /** Name of one of the masks; undefined takes all elements. */
      readonly mask: M | undefined;
    };

/** No mask, one mask for all channels, or named masks that channels choose from. */
export type ChannelMasks<M extends string = string> =
  MaskTensor | Readonly<Record<M, MaskTensor>> | undefined;

/**
 * Moments of expressions over tensors, all in one fused pass and one read-back.
 *
 * The expressions mean their float64 value (see `expression`); float32 backends stay within the numerical contract.
 * Inputs of shape `[B]` or `[B, 1]` are broadcast over the columns of `[B, T]`. Runs on the backend that holds the
 * tensors, launches in the call, carries no gradient; any failure is a rejection, never a synchronous throw.
 *
 * @param channels what to reduce, by the name of the result: an expression, the name of an input, or
 *   `{ of: expression, mask: 'name' }` to reduce it over a mask of its own
 * @param inputs the tensors that the expressions name; float32, int32 or bool, rank 1 to 4. Others may be there too.
 * @param mask same shape as the widest input, or one value per row; every non-zero element selects. A record of masks
 *   is for channels that name theirs. Left out, all elements count. `compactMask` makes one that several calls share
 *   faster.
 * @returns `Moments` by channel, or `RowMoments` (one per row) with `axis: -1`
 * @throws MissingInputError, DisposedTensorError, DtypeError, ShapeError, ValueError for inputs and options that do
 *   not fit; BackendError for tensors that live on two backends, or if the device reported a fault
 * @source docs/numerics.md for the tolerances
 * @example
 *   const { exp, subtract } = expression;
 *   const { ratio } = await channelMoments({ ratio: exp(subtract('new', 'old')) }, { new: a, old: b }, mask);
 */
export function channelMoments<K extends string, M extends string = string>(
  channels: Readonly<Record<K, Channel<M>>>,
  inputs: Readonly<Record<string, tf.Tensor>>,
  mask: ChannelMasks<M>,
  options: MomentsOptions & { readonly axis: -1 },
): Pending<Record<K, RowMoments>>;
export function channelMoments<K extends string, M extends string = string>(
  channels: Readonly<Record<K, Channel<M>>>,
  inputs: Readonly<Record<string, tf.Tensor>>,
  mask?: ChannelMasks<M>,
  options?: MomentsOptions & { readonly axis?: undefined },
): Pending<Record<K, Moments>>;
export function channelMoments<K extends string, M extends string = string>(
  channels: Readonly<Record<K, Channel<M>>>,
  inputs: Readonly<Record<string, tf.Tensor>>,
  mask?: ChannelMasks<M>,
  options?: MomentsOptions,
): Pending<Record<K, Moments | RowMoments>>;
export function channelMoments(
  channels: Readonly<Record<string, Channel>>,
  inputs: Readonly<Record<string, tf.Tensor>>,
  mask?: ChannelMasks,
  options?: MomentsOptions,
): Pending<Record<string, Moments | RowMoments>> {
  return Pending.attempt(() => {
    const { axis, nonFinite } = checkedOptions('channelMoments', options);
    const tables = launchChannels('channelMoments', channels, inputs, mask, axis);
    return tables.map((all) => mapValues(all, finisher(axis, nonFinite)));
  });
}

/**
 * The unfinished form of `channelMoments`: the mergeable rows themselves, for whoever goes on merging them.
 *
 * @returns one table per channel, with one row per row of the tensors for `axis: -1`, else a single row
 */
export function channelTables<K extends string, M extends string = string>(
  channels: Readonly<Record<K, Channel<M>>>,
  inputs: Readonly<Record<string, tf.Tensor>>,
  mask?: ChannelMasks<M>,
  options?: Pick<MomentsOptions, 'axis'>,
): Pending<Record<K, MomentsTable>> {
  return Pending.attempt(() => {
    const { axis } = checkedOptions('channelTables', options);
    return launchChannels<K>('channelTables', channels, inputs, mask, axis);
  });
}

/**
 * The launch behind `channelMoments` and `channelTables`.
 *
 * @param where the function that the user called, for messages
 * @throws what these reject with for inputs that do not fit
 */
export function launchChannels<K extends string>(
  where: string,
  channels: Readonly<Record<K, Channel>>,
  inputs: Readonly<Record<string, tf.Tensor>>,
  mask: ChannelMasks,
  axis: -1 | undefined,
): Pending<Record<K, MomentsTable>> {
  const parsed = parseChannels(where, channels, isRecord(mask) ? Object.keys(mask) : undefined);
  const values = namedInputs(where, parsed, inputs);
  const masks = namedMasks(where, parsed, mask);
  const shape = commonShape(where, [...values, ...masks]);
  const isFlat = axis === undefined && [...values, ...masks].every(({ tensor }) => isWhole(tensor, shape));
  const rows = isFlat ? 1 : sizeOf(shape.slice(0, -1));
  const cols = isFlat ? sizeOf(shape) : shape.at(-1)!;
  const windows = (all: readonly NamedMask[]): Record<string, MatrixWindow> =>
    Object.fromEntries(
      all.map(({ name, tensor }) => [
        name,
        isWhole(tensor, shape) ? denseWindow(tensor, cols) : rowWindow(tensor),
      ]),
    );
  const selections = windows(masks);
  const tables = passTables({
    where,
    rows,
    cols,
    inputs: windows(values),
    channels: parsed,
    ...(isRecord(mask) ? { masks: selections } : { mask: selections.mask }),
  });
  // Rows that were only needed to broadcast are merged again.
  return axis === -1 || isFlat ? tables : tables.map((all) => mapValues(all, (table) => table.merged()));
}

function parseChannels(
  where: string,
  channels: Readonly<Record<string, Channel>>,
  maskNames: readonly string[] | undefined,
): Record<string, Expression | MaskedExpression> {
  if (!isRecord(channels) || Object.keys(channels).length === 0) {
    throw new MissingInputError({
      where,
      input: 'channels',
      expected: 'a record of expressions by name',
      received: isRecord(channels) ? 'an empty record' : kindOf(channels),
      remedy: "pass e.g. { ratio: expression.exp(expression.subtract('new', 'old')) }",
    });
  }
  return Object.fromEntries(
    Object.entries(channels).map(([name, channel]) => [name, parseChannel(where, name, channel, maskNames)]),
  );
}

function parseChannel(
  where: string,
  name: string,
  channel: Channel,
  maskNames: readonly string[] | undefined,
): Expression | MaskedExpression {
  if (isMasked(channel)) {
    const of = expressionOf(channel.of, where);
    if (channel.mask === undefined) return { of, mask: undefined };
    if (maskNames?.includes(channel.mask)) return { of, mask: channel.mask };
    throw new MissingInputError({
      where,
      input: 'mask',
      expected: `a mask called ${typeof channel.mask === 'string' ? `"${channel.mask}"` : kindOf(channel.mask)}`,
      received: maskNames === undefined ? 'no record of masks' : `masks called ${maskNames.join(', ')}`,
      remedy: 'pass a record of masks that has it',
    });
  }
  const expression = expressionOf(channel, where);
  if (maskNames === undefined) return expression;
  // Nobody who passes masks means to have them ignored.
  throw new ValueError({
    where,
    input: `channels.${name}`,
    expected: 'the name of its mask, since there is a record of masks',
    received: 'an expression alone',
    remedy: `write { of: …, mask: "${maskNames[0] ?? 'name'}" }, or mask: undefined for all elements`,
  });
}

function isMasked(channel: Channel): channel is Extract<Channel, { readonly of: Operand }> {
  return typeof channel === 'object' && (channel as unknown) !== null && 'of' in channel;
}

/** The tensors that the channels read, each once. */
function namedInputs(
  where: string,
  channels: Readonly<Record<string, Expression | MaskedExpression>>,
  inputs: Readonly<Record<string, tf.Tensor>>,
): NamedTensor[] {
  if (!isRecord(inputs)) {
    throw new ValueError({
      where,
      input: 'inputs',
      expected: 'a record of tensors by the names that the expressions use',
      received: kindOf(inputs),
      remedy: 'pass e.g. { new: logProbs, old: oldLogProbs }',
    });
  }
  const known = new Map<string, NamedTensor>();
  for (const [channel, value] of Object.entries(channels)) {
    for (const name of inputNames('of' in value ? value.of : value, where)) {
      if (known.has(name)) continue;
      if (!Object.hasOwn(inputs, name)) {
        throw new MissingInputError({
          where,
          input: name,
          expected: `a tensor, since channel "${channel}" reads it`,
          received: `inputs called ${Object.keys(inputs).join(', ') || 'nothing'}`,
          remedy: `put ${name} into the inputs`,
        });
      }
      const tensor = inputs[name]!;
      assertNumericTensor(where, name, tensor);
      assertRank(where, { name, tensor });
      known.set(name, { name, tensor });
    }
  }
  return [...known.values()];
}

/** The masks that the channels use, under their names; the one for all is called `mask`. */
function namedMasks(
  where: string,
  channels: Readonly<Record<string, Expression | MaskedExpression>>,
  mask: ChannelMasks,
): NamedMask[] {
  if (mask === undefined) return [];
  const all: NamedMask[] = isRecord(mask)
    ? Object.values(channels).flatMap((channel) =>
        'of' in channel && channel.mask !== undefined
          ? [{ name: channel.mask, tensor: mask[channel.mask]! }]
          : [],
      )
    : [{ name: 'mask', tensor: mask }];
  const used = [...new Map(all.map((named) => [named.name, named])).values()];
  for (const named of used) {
    assertMask(where, named.name, named.tensor);
    assertRank(where, named);
  }
  return used;
}

/** The shape that all tensors have or are broadcast to, the widest among them. */
function commonShape(where: string, tensors: readonly NamedMask[]): readonly number[] {
  const [first, ...others] = tensors;
  if (first === undefined) {
    throw new MissingInputError({
      where,
      input: 'inputs',
      expected: 'at least one tensor that a channel reads, or a mask',
      received: 'channels of constants alone',
      remedy: 'pass a mask to count its elements',
    });
  }
  // Of shapes that fit each other the one with more axes, then not one column, is what the others are broadcast to.
  const widest = others.reduce(
    (best, next) =>
      next.tensor.rank > best.tensor.rank ||
      (next.tensor.rank === best.tensor.rank && best.tensor.shape.at(-1) === 1)
        ? next
        : best,
    first,
  );
  const { shape } = widest.tensor;
  for (const { name, tensor } of tensors) {
    if (isWhole(tensor, shape) || isPerRow(tensor, shape)) continue;
    const perRow = shape.slice(0, -1);
    throw new ShapeError({
      where,
      input: name,
      expected: `the shape of ${widest.name}, [${shape.join(', ')}]${perRow.length > 0 ? `, or one value per row, [${perRow.join(', ')}] or [${[...perRow, 1].join(', ')}]` : ''}`,
      received: `[${tensor.shape.join(', ')}]`,
      remedy: 'slice or pad the tensor to the common shape',
    });
  }
  return shape;
}

function isWhole(tensor: MaskTensor, shape: readonly number[]): boolean {
  return sameShape(tensor.shape, shape);
}

function isPerRow(tensor: MaskTensor, shape: readonly number[]): boolean {
  const perRow = shape.slice(0, -1);
  return perRow.length > 0 && (sameShape(tensor.shape, perRow) || sameShape(tensor.shape, [...perRow, 1]));
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((n, axis) => n === b[axis]);
}
