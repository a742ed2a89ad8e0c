/**
 * What a moments kernel is asked to do: the checked, backend-independent form of one fused pass.
 *
 * Whoever builds a request has checked shapes, dtypes and residency; kernels may rely on it.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import type { MomentsTable } from '../../rows/index.js';
import type { Pending } from '../collect.js';
import type { MaskForm } from '../masks/forms.js';
import type { ProgramNode } from '../program.js';

/**
 * A tensor seen as a `[rows, cols]` matrix: element (r, c) is `tensor[r · stride + offset + c · step]`.
 *
 * A dense tensor has stride `cols`, offset 0 and step 1; a window of a wider matrix a larger stride; one value per row
 * stride 1 and step 0.
 */
export interface MatrixView<T extends TensorInfo = TensorInfo> {
  /** float32, int32 or bool. */
  readonly tensor: T;
  readonly stride: number;
  readonly offset: number;
  readonly step: 0 | 1;
  /** How the tensor holds the elements; left out, one for each. Other forms are only of masks that `compactMask` made. */
  readonly form?: MaskForm;
}

/** Whether the elements of a view of `cols` columns are all elements of its tensor, in order. */
export function isDense({ stride, offset, step }: MatrixView, cols: number): boolean {
  return stride === cols && offset === 0 && step === 1;
}

/** What is reduced, and over which elements. */
export interface ChannelRequest {
  /** Index in `nodes`. */
  readonly node: number;
  /** Index in `masks`; undefined selects everything. */
  readonly mask: number | undefined;
}

/** One pass: the moments of every channel over the elements that its mask selects, one record per row. */
export interface MomentsRequest {
  readonly backend: KernelBackend;
  readonly rows: number;
  /** At least 1: passes over nothing never reach a kernel. */
  readonly cols: number;
  /** The tensors that the nodes read, by name; none besides. */
  readonly inputs: ReadonlyMap<string, MatrixView>;
  /** An element selects unless it is zero. Each is used by at least one channel. */
  readonly masks: readonly MatrixView[];
  /** All that the channels compute, see program.ts; none that no channel needs. */
  readonly nodes: readonly ProgramNode[];
  /** At least one. Two of them may have the same node or the same mask, not both. */
  readonly channels: readonly ChannelRequest[];
}

/**
 * A backend's implementation: one table of `rows` rows per channel, in the order of the channels.
 *
 * The launch happens in the call, so the inputs may be disposed as soon as it returns.
 */
export type MomentsKernel = (request: MomentsRequest) => Pending<readonly MomentsTable[]>;
