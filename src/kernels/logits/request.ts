/**
 * What a logits kernel is asked to do, and what it leaves: the checked, backend-independent form of one call.
 *
 * Logits are seen as a row-major `[rows, cols]` matrix, `cols` being the vocabulary. Whoever builds a request has
 * checked shapes, dtypes and residency; kernels may rely on it.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';

/** The statistics of a row, in the order in which kernels compute them. */
export const statisticNames = ['logProbs', 'entropy', 'sumPiSquared', 'maxProb'] as const;
export type StatisticName = (typeof statisticNames)[number];

/** One value per statistic. */
export type PerStatistic<T> = Readonly<Record<StatisticName, T>>;

/** One pass over the logits. */
export interface LogitsRequest {
  readonly backend: KernelBackend;
  /** At least 1, as is `cols`: calls with nothing in them never reach a kernel. */
  readonly rows: number;
  readonly cols: number;
  /** Dense, float32. */
  readonly logits: TensorInfo;
  /** `rows` integers, int32 or float32, not yet known to be columns. */
  readonly labels: TensorInfo;
  /** Positive and finite, see `assertOptions`. */
  readonly temperature: number;
}

/**
 * A backend's implementation: four float32 tensors of `rows` elements on that backend, which belong to the caller.
 *
 * @throws ValueError for a label that is no column, where the host can tell without waiting for a device; elsewhere
 *   the row's log-probability is NaN
 */
export type LogitsKernel = (request: LogitsRequest) => PerStatistic<TensorInfo>;

/** One value per statistic, made from its name. */
export function perStatistic<T>(make: (name: StatisticName) => T): PerStatistic<T> {
  return Object.fromEntries(statisticNames.map((name) => [name, make(name)])) as Record<StatisticName, T>;
}
