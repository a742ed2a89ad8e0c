/**
 * Masked moments: count, mean, spread and extremes of the selected elements of tensors, in one pass per mask.
 *
 * The public operations. What they refuse is in checks.ts, how a pass reaches a kernel in pass.ts.
 */
import type * as tf from '@tensorflow/tfjs-core';
import { Pending } from '../collect.js';
import { input } from '../expression.js';
import type { NamedTensor } from '../residency.js';
import { WHERE, assertAxis, assertPolicy, assertTensors } from './checks.js';
import { passTables } from './pass.js';
import { Moments, type MomentsTable, type NonFinitePolicy, RowMoments } from './record.js';

/** Options of `maskedMoments`. */
export interface MaskedMomentsOptions {
  /** −1 gives one result per row, a row being the last axis; left out, all elements are reduced to one. */
  readonly axis?: -1 | undefined;
  /** What selected NaN and ±Infinity do to the result; default `'propagate'`. */
  readonly nonFinite?: NonFinitePolicy | undefined;
}

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
  mask: tf.Tensor | undefined,
  options: MaskedMomentsOptions & { readonly axis: -1 },
): Pending<RowMoments>;
export function maskedMoments(
  values: tf.Tensor,
  mask?: tf.Tensor,
  options?: MaskedMomentsOptions & { readonly axis?: undefined },
): Pending<Moments>;
export function maskedMoments<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask: tf.Tensor | undefined,
  options: MaskedMomentsOptions & { readonly axis: -1 },
): Pending<Record<K, RowMoments>>;
export function maskedMoments<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask?: tf.Tensor,
  options?: MaskedMomentsOptions & { readonly axis?: undefined },
): Pending<Record<K, Moments>>;
export function maskedMoments(
  values: tf.Tensor,
  mask?: tf.Tensor,
  options?: MaskedMomentsOptions,
): Pending<Moments | RowMoments>;
export function maskedMoments<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask?: tf.Tensor,
  options?: MaskedMomentsOptions,
): Pending<Record<K, Moments | RowMoments>>;
export function maskedMoments(
  values: tf.Tensor | Readonly<Record<string, tf.Tensor>>,
  mask?: tf.Tensor,
  options: MaskedMomentsOptions = {},
): Pending<Moments | RowMoments | Record<string, Moments | RowMoments>> {
  return Pending.attempt<Moments | RowMoments | Record<string, Moments | RowMoments>>(() => {
    const { axis, nonFinite = 'propagate' } = options;
    assertPolicy(nonFinite);
    const finish = (table: MomentsTable): Moments | RowMoments =>
      axis === -1 ? RowMoments.fromTable(table, nonFinite) : new Moments(table.total(), nonFinite);
    if (isRecord(values)) {
      return launchTables(values, mask, axis).map((tables) => mapValues(tables, finish));
    }
    return launchTables({ values }, mask, axis).map((tables) => finish(tables.values!));
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
  mask?: tf.Tensor,
  options: { readonly axis?: -1 | undefined } = {},
): Pending<Record<K, MomentsTable>> {
  return Pending.attempt(() => launchTables(values, mask, options.axis));
}

function launchTables(
  values: Readonly<Record<string, tf.Tensor>>,
  mask: tf.Tensor | undefined,
  axis: -1 | undefined,
): Pending<Record<string, MomentsTable>> {
  assertAxis(axis);
  const named: NamedTensor[] = Object.entries(values).map(([name, tensor]) => ({ name, tensor }));
  // null is no mask that was left out, it is one that is missing; the check says so.
  assertTensors(named, mask === undefined ? undefined : { name: 'mask', tensor: mask });
  const { shape } = named[0]!.tensor;
  const rows = axis === -1 ? sizeOf(shape.slice(0, -1)) : 1;
  const cols = axis === -1 ? shape.at(-1)! : sizeOf(shape);
  return passTables({
    where: WHERE,
    rows,
    cols,
    inputs: values,
    channels: Object.fromEntries(named.map(({ name }) => [name, input(name)])),
    mask: mask && { tensor: mask, stride: cols, offset: 0 },
  });
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, n) => product * n, 1);
}

/** A plain object; anything else is taken for a tensor and refused if it is none. */
function isRecord(values: unknown): values is Readonly<Record<string, tf.Tensor>> {
  if (typeof values !== 'object' || values === null) return false;
  const prototype: unknown = Object.getPrototypeOf(values);
  return prototype === Object.prototype || prototype === null;
}

function mapValues<A, B>(record: Readonly<Record<string, A>>, map: (value: A) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
