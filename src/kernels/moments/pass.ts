/**
 * One moments pass, from named tensors to the kernel of the backend that holds them.
 *
 * The operations and the metrics describe what they want as a pass; which backend runs it is decided here and nowhere
 * else.
 */
import type * as tf from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';
import type { BackendName } from '../backend-names.js';
import { Pending } from '../collect.js';
import type { Expression } from '../expression.js';
import { type NamedTensor, commonBackend } from '../residency.js';
import { cpuMoments } from './cpu.js';
import { MomentsTable } from './record.js';
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

/** A window of the columns of a `[rows, width]` mask, without copying it. */
export interface MaskWindow {
  readonly tensor: tf.Tensor;
  /** Columns of the whole mask, seen as a matrix with as many rows as the pass. */
  readonly stride: number;
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
 * Launches a pass: one table of `rows` rows per channel.
 *
 * The caller has checked shapes and dtypes; residency is checked here.
 *
 * @throws BackendError for tensors on two backends, or on one without kernels
 */
export function passTables<K extends string>(
  pass: MomentsPass & { readonly channels: Readonly<Record<K, Expression>> },
): Pending<Record<K, MomentsTable>> {
  const { where, rows, cols, inputs, mask } = pass;
  const channels = Object.entries<Expression>(pass.channels);
  const named: NamedTensor[] = Object.entries(inputs).map(([name, tensor]) => ({ name, tensor }));
  if (mask !== undefined) named.push({ name: 'mask', tensor: mask.tensor });
  const { name, backend } = commonBackend(where, named);
  const kernel = (momentsKernels as Readonly<Record<string, MomentsKernel | undefined>>)[name];
  if (kernel === undefined) {
    throw new BackendError({
      where,
      input: named[0]!.name,
      expected: `a tensor on one of the backends ${Object.keys(momentsKernels).join(', ')}`,
      received: `one on "${name}"`,
      remedy: 'choose a supported backend with initBackend() before the tensors are made',
    });
  }
  const perChannel = (tableOf: (index: number) => MomentsTable): Record<K, MomentsTable> =>
    Object.fromEntries(channels.map(([channel], index) => [channel, tableOf(index)])) as Record<
      K,
      MomentsTable
    >;
  // Nothing to reduce is nothing to launch: devices refuse empty buffers.
  if (rows === 0 || cols === 0) return Pending.of(perChannel(() => new MomentsTable(rows)));
  const tables = kernel({
    backend,
    rows,
    cols,
    inputs: new Map(Object.entries(inputs)),
    channels: channels.map(([, expression]) => expression),
    mask: mask && { tensor: mask.tensor, stride: mask.stride, offset: mask.offset },
  });
  return tables.map((all) => perChannel((index) => all[index]!));
}
