/**
 * Masked moments: count, mean, spread and extremes of the selected elements of tensors, in one pass per mask.
 *
 * The public operations. What they refuse is in checks.ts, how a pass reaches a kernel in pass.ts.
 */
import type * as tf from '@tensorflow/tfjs-core';
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import type { Moments } from '../../rows/index.js';
import type { MomentsTable } from '../../rows/index.js';
import { Pending } from '../collect.js';
import type { MaskTensor } from '../masks/compact-mask.js';
import type { NamedTensor } from '../residency.js';
import { type MomentsOptions, assertTensors, checkedOptions, isRecord, sizeOf } from './checks.js';
import { inputTables } from './pass.js';
import { finisher, mapValues } from './results.js';
import type { RowMoments } from './row-moments.js';

const WHERE = 'maskedMoments';

/**
 * Count, sum, mean, m2, extremes, variance of the elements that a mask selects.
 *
 * Elements outside the mask never matter, whatever they hold. Runs on the backend that holds the tensors, launches in
 * the call (inputs may be disposed in the next line), reads back when awaited; `collect` reads several results at
 * once. Carries no gradient. Any failure is a rejection, never a synchronous throw.
 *
 * @param values a tensor of rank 1 to 4, float32, int32 or bool, or a record of tensors of one shape, all reduced in
 *   the same pass
 * @param mask same shape as the values; bool, int32 or float32, every non-zero element selects. Left out, all count.
 *   `compactMask` makes one that several calls share faster.
 * @returns `Moments`, or `RowMoments` (one per row) with `axis: -1`; a record of them for a record of values
 * @throws MissingInputError, DisposedTensorError, DtypeError, ShapeError, ValueError for inputs and options that do
 *   not fit; BackendError for tensors that live on two backends, or if the device reported a fault
 * @source the row merge of Chan, Golub & LeVeque 1979; tolerances in docs/numerics.md
 * @example
 *   const { mean, max } = await maskedMoments(tf.tensor1d([1, 2, 100]), tf.tensor1d([1, 1, 0], 'bool'));
 *   // mean 1.5, max 2
 */
export function maskedMoments(
  values: tf.Tensor,
  mask: MaskTensor | undefined,
  options: MomentsOptions & { readonly axis: -1 },
): Pending<RowMoments>;
export function maskedMoments(
  values: tf.Tensor,
  mask?: MaskTensor,
  options?: MomentsOptions & { readonly axis?: undefined },
): Pending<Moments>;
export function maskedMoments<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask: MaskTensor | undefined,
  options: MomentsOptions & { readonly axis: -1 },
): Pending<Record<K, RowMoments>>;
export function maskedMoments<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask?: MaskTensor,
  options?: MomentsOptions & { readonly axis?: undefined },
): Pending<Record<K, Moments>>;
export function maskedMoments(
  values: tf.Tensor,
  mask?: MaskTensor,
  options?: MomentsOptions,
): Pending<Moments | RowMoments>;
export function maskedMoments<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask?: MaskTensor,
  options?: MomentsOptions,
): Pending<Record<K, Moments | RowMoments>>;
export function maskedMoments(
  values: tf.Tensor | Readonly<Record<string, tf.Tensor>>,
  mask?: MaskTensor,
  options?: MomentsOptions,
): Pending<Moments | RowMoments | Record<string, Moments | RowMoments>> {
  return Pending.attempt<Moments | RowMoments | Record<string, Moments | RowMoments>>(() => {
    const { axis, nonFinite } = checkedOptions(WHERE, options);
    const finish = finisher(axis, nonFinite);
    if (isRecord(values)) {
      return launchTables(WHERE, values, mask, axis).map((tables) => mapValues(tables, finish));
    }
    return launchTables(WHERE, { values }, mask, axis).map((tables) => finish(tables.values!));
  });
}

/**
 * The unfinished form of `maskedMoments`: the mergeable rows themselves, for whoever goes on merging them.
 *
 * @param values a record of tensors of one shape, see `maskedMoments`
 * @returns one table per name, with one row per row of the tensors for `axis: -1`, else a single row
 */
export function momentsTables<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask?: MaskTensor,
  options?: Pick<MomentsOptions, 'axis'>,
): Pending<Record<K, MomentsTable>> {
  return Pending.attempt(() => {
    const { axis } = checkedOptions('momentsTables', options);
    if (isRecord(values)) return launchTables('momentsTables', values, mask, axis);
    throw new ValueError({
      where: 'momentsTables',
      input: 'values',
      expected: 'a record of tensors',
      received: kindOf(values),
      remedy: 'pass { x: tensor }; maskedMoments takes a single tensor',
    });
  });
}

function launchTables(
  where: string,
  values: Readonly<Record<string, tf.Tensor>>,
  mask: MaskTensor | undefined,
  axis: -1 | undefined,
): Pending<Record<string, MomentsTable>> {
  const named: NamedTensor[] = Object.entries(values).map(([name, tensor]) => ({ name, tensor }));
  // null is no mask that was left out, it is one that is missing; the check says so.
  assertTensors(where, named, mask === undefined ? undefined : { name: 'mask', tensor: mask });
  const { shape } = named[0]!.tensor;
  const rows = axis === -1 ? sizeOf(shape.slice(0, -1)) : 1;
  const cols = axis === -1 ? shape.at(-1)! : sizeOf(shape);
  return inputTables(where, named, mask, rows, cols).map((tables) =>
    Object.fromEntries(named.map(({ name }, i) => [name, tables[i]!])),
  );
}
