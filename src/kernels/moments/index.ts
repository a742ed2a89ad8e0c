/**
 * Masked moments: count, mean, spread and extremes of the selected elements of tensors, in one pass per mask.
 *
 * This file checks what the caller hands over and gives it to the kernel of the backend that holds it.
 */
import type * as tf from '@tensorflow/tfjs-core';
import { BackendError, MissingInputError, ShapeError, ValueError } from '../../errors.js';
import type { BackendName } from '../backend-names.js';
import { Pending } from '../collect.js';
import { type Expression, input } from '../expression.js';
import { type NamedTensor, assertNumericTensor, commonBackend } from '../residency.js';
import { cpuMoments } from './cpu.js';
import { Moments, MomentsTable, type NonFinitePolicy, RowMoments } from './record.js';
import type { MomentsKernel } from './request.js';
import { tensorflowMoments } from './tensorflow.js';
import { wasmMoments } from './wasm.js';
import { webgpuMoments } from './webgpu.js';

/** The kernels by the name of the backend whose tensors they read. */
export const momentsKernels: Readonly<Record<BackendName, MomentsKernel>> = {
  cpu: cpuMoments,
  wasm: wasmMoments,
  webgpu: webgpuMoments,
  tensorflow: tensorflowMoments,
};

/** Options of `maskedMoments`. */
export interface MaskedMomentsOptions {
  /** −1 gives one result per row, a row being the last axis; left out, all elements are reduced to one. */
  readonly axis?: -1 | undefined;
  /** What selected NaN and ±Infinity do to the result; default `'propagate'`. */
  readonly nonFinite?: NonFinitePolicy | undefined;
}

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

/** A window of the columns of a `[rows, width]` mask, without copying it. */
export interface MaskWindow {
  readonly tensor: tf.Tensor;
  /** First column of the window; the window is as wide as the pass. */
  readonly offset: number;
}

/** One pass over tensors seen as `[rows, cols]`: what to compute, and where. See `passTables`. */
export interface MomentsPass {
  /** The public function that asks, for error messages. */
  readonly where: string;
  readonly rows: number;
  readonly cols: number;
  /** Tensors of rows · cols elements. */
  readonly inputs: Readonly<Record<string, tf.Tensor>>;
  readonly channels: Readonly<Record<string, Expression>>;
  /** Left out, everything is selected. */
  readonly mask?: MaskWindow | undefined;
}

/**
 * Moments per row of channels under one mask window: the form in which metrics ask.
 *
 * The caller has checked shapes and dtypes; residency is checked here.
 */
export function passTables<K extends string>(
  pass: MomentsPass & { readonly channels: Readonly<Record<K, Expression>> },
): Pending<Record<K, MomentsTable>> {
  const { where, rows, cols, inputs, channels, mask } = pass;
  const named = namedTensors(inputs);
  if (mask !== undefined) named.push({ name: 'mask', tensor: mask.tensor });
  return dispatch(where, named, {
    rows,
    cols,
    inputs,
    channels: Object.entries<Expression>(channels),
    mask: mask && { tensor: mask.tensor, stride: mask.tensor.shape.at(-1)!, offset: mask.offset },
  });
}

function launchTables(
  values: Readonly<Record<string, tf.Tensor>>,
  mask: tf.Tensor | undefined,
  axis: -1 | undefined,
): Pending<Record<string, MomentsTable>> {
  assertAxis(axis);
  const named = namedTensors(values);
  if (named.length === 0) {
    throw new MissingInputError({
      where: WHERE,
      input: 'values',
      expected: 'at least one tensor',
      received: 'an empty record',
      remedy: 'pass a tensor or a record of named tensors',
    });
  }
  for (const { name, tensor } of named) assertNumericTensor(WHERE, name, tensor);
  if (mask !== undefined) assertNumericTensor(WHERE, 'mask', mask);
  const { shape } = named[0]!.tensor;
  assertRank(named[0]!);
  for (const other of named.slice(1)) assertSameShape(other, named[0]!);
  if (mask !== undefined) assertSameShape({ name: 'mask', tensor: mask }, named[0]!);

  const size = shape.reduce((product, n) => product * n, 1);
  const last = shape.at(-1)!;
  const rows = axis === -1 ? shape.slice(0, -1).reduce((product, n) => product * n, 1) : 1;
  const cols = axis === -1 ? last : size;
  return dispatch(WHERE, mask === undefined ? named : [...named, { name: 'mask', tensor: mask }], {
    rows,
    cols,
    inputs: values,
    channels: named.map(({ name }) => [name, input(name)]),
    mask: mask && { tensor: mask, stride: cols, offset: 0 },
  });
}

/** Runs a checked pass on the backend that holds its tensors. */
function dispatch(
  where: string,
  tensors: readonly NamedTensor[],
  pass: {
    readonly rows: number;
    readonly cols: number;
    readonly inputs: Readonly<Record<string, tf.Tensor>>;
    readonly channels: readonly (readonly [name: string, expression: Expression])[];
    readonly mask:
      { readonly tensor: tf.Tensor; readonly stride: number; readonly offset: number } | undefined;
  },
): Pending<Record<string, MomentsTable>> {
  const { name, backend } = commonBackend(where, tensors);
  const kernel = (momentsKernels as Readonly<Record<string, MomentsKernel | undefined>>)[name];
  if (kernel === undefined) {
    throw new BackendError({
      where,
      input: tensors[0]!.name,
      expected: `a tensor on one of the backends ${Object.keys(momentsKernels).join(', ')}`,
      received: `one on "${name}"`,
      remedy: 'choose a supported backend with initBackend() before the tensors are made',
    });
  }
  const { rows, cols, channels, mask } = pass;
  if (rows === 0 || cols === 0) {
    return Pending.of(Object.fromEntries(channels.map(([channel]) => [channel, new MomentsTable(rows)])));
  }
  const request = {
    backend,
    rows,
    cols,
    inputs: new Map(Object.entries(pass.inputs)),
    channels: channels.map(([, expression]) => expression),
    mask,
  };
  return kernel(request).map((tables) =>
    Object.fromEntries(channels.map(([channel], i) => [channel, tables[i]!])),
  );
}

/** A plain object; anything else is taken for a tensor and refused if it is none. */
function isRecord(values: unknown): values is Readonly<Record<string, tf.Tensor>> {
  if (typeof values !== 'object' || values === null) return false;
  const prototype: unknown = Object.getPrototypeOf(values);
  return prototype === Object.prototype || prototype === null;
}

function namedTensors(values: Readonly<Record<string, tf.Tensor>>): NamedTensor[] {
  return Object.entries(values).map(([name, tensor]) => ({ name, tensor }));
}

function mapValues<A, B>(record: Readonly<Record<string, A>>, map: (value: A) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}

function assertPolicy(nonFinite: string): void {
  if (nonFinite === 'propagate' || nonFinite === 'ignore') return;
  throw new ValueError({
    where: WHERE,
    input: 'options.nonFinite',
    expected: "'propagate' or 'ignore'",
    received: JSON.stringify(nonFinite),
    remedy: "leave it out for 'propagate'",
  });
}

function assertAxis(axis: number | undefined): void {
  if (axis === undefined || axis === -1) return;
  throw new ValueError({
    where: WHERE,
    input: 'options.axis',
    expected: '-1 (one result per row) or nothing (one result for all elements)',
    received: String(axis),
    remedy: 'transpose the tensor so that the axis to reduce is the last one',
  });
}

function assertRank({ name, tensor }: NamedTensor): void {
  if (tensor.rank >= 1 && tensor.rank <= 4) return;
  throw new ShapeError({
    where: WHERE,
    input: name,
    expected: 'a tensor of rank 1 to 4',
    received: `rank ${tensor.rank}, shape [${tensor.shape.join(', ')}]`,
    remedy: tensor.rank === 0 ? 'reshape the scalar to [1]' : 'merge leading axes with tf.reshape',
  });
}

function assertSameShape({ name, tensor }: NamedTensor, reference: NamedTensor): void {
  const { shape } = reference.tensor;
  if (tensor.rank === shape.length && tensor.shape.every((n, axis) => n === shape[axis])) return;
  throw new ShapeError({
    where: WHERE,
    input: name,
    expected: `the shape of ${reference.name}, [${shape.join(', ')}]`,
    received: `[${tensor.shape.join(', ')}]`,
    remedy:
      name === 'mask'
        ? 'slice the mask or pad it with false'
        : 'reduce tensors of other shapes in another call',
  });
}
