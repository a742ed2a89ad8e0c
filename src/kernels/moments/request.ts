/**
 * What a moments kernel is asked to do: the checked, backend-independent form of one fused pass.
 *
 * All tensors are seen as row-major `[rows, cols]` matrices. Whoever builds a request has checked shapes, dtypes and
 * residency; kernels may rely on it.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import type { Pending } from '../collect.js';
import type { Expression } from '../expression.js';
import type { MomentsTable } from './record.js';

/** A `[rows, cols]` window of a matrix with `stride` columns: element (r, c) is `tensor[r · stride + offset + c]`. */
export interface MaskView {
  /** bool, int32 or float32; an element selects unless it is zero. */
  readonly tensor: TensorInfo;
  readonly stride: number;
  readonly offset: number;
}

/** One pass: the moments of every channel over the elements that the mask selects, one record per row. */
export interface MomentsRequest {
  readonly backend: KernelBackend;
  readonly rows: number;
  /** At least 1: passes over nothing never reach a kernel. */
  readonly cols: number;
  /** Dense `[rows, cols]` tensors, float32, int32 or bool, by the name that the channels use. */
  readonly inputs: ReadonlyMap<string, TensorInfo>;
  /** At least one. */
  readonly channels: readonly Expression[];
  /** Undefined selects everything. */
  readonly mask: MaskView | undefined;
}

/**
 * A backend's implementation: one table of `rows` rows per channel, in the order of the channels.
 *
 * The launch happens in the call, so the inputs may be disposed as soon as it returns.
 */
export type MomentsKernel = (request: MomentsRequest) => Pending<readonly MomentsTable[]>;
