/**
 * What a histogram kernel is asked to do: the checked, backend-independent form of one call.
 *
 * Whoever builds a request has checked shapes, dtypes and residency; kernels may rely on it.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import type { Histogram } from '../../rows/index.js';
import type { Pending } from '../collect.js';
import type { MaskForm } from '../masks/forms.js';

/** One histogram of each of `values`, over the elements that the mask selects. */
export interface HistogramRequest {
  readonly backend: KernelBackend;
  /** Elements of each tensor; at least 1: calls about nothing never reach a kernel. */
  readonly size: number;
  /** float32, int32 or bool; the latter two are counted as the float32 numbers nearest to them. At least one. */
  readonly values: readonly TensorInfo[];
  /** Undefined selects everything. */
  readonly mask: Selection | undefined;
}

/** What a mask is made of. */
export interface Selection {
  readonly tensor: TensorInfo;
  readonly form: MaskForm;
}

/**
 * A backend's implementation: one histogram per tensor, in order.
 *
 * The launch happens in the call, so the inputs may be disposed as soon as it returns.
 */
export type HistogramKernel = (request: HistogramRequest) => Pending<readonly Histogram[]>;
