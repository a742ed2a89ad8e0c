/**
 * Statistics of logits: log-probability of the label, entropy, Σπ² and largest probability of every row, in one pass.
 *
 * The public operation. What it refuses is in checks.ts; the mathematics, in float64, in reference.ts.
 */
import * as tf from '@tensorflow/tfjs-core';
import { residentBackend } from '../backends/table.js';
import { WHERE, assertOptions, assertTensors, warnOfGradient } from './checks.js';
import { type PerStatistic, perStatistic } from './request.js';

/** Options of `logitsStatistics`. */
export interface LogitsStatisticsOptions {
  /** Divides the logits; from 1e-30 to 1e30, default 1. */
  readonly temperature?: number | undefined;
}

/** What `logitsStatistics` gives for logits `[..., V]`: float32 tensors `[...]` on the backend of the logits. */
export interface LogitsStatistics {
  /** log π of the label, in nats; at most 0, −Infinity for a label of probability 0. */
  readonly logProbs: tf.Tensor;
  /** −Σ π log π, in nats; from 0 to ln V. */
  readonly entropy: tf.Tensor;
  /** Σ π²; from 1/V to 1. */
  readonly sumPiSquared: tf.Tensor;
  /** The largest π; from 1/V to 1. */
  readonly maxProb: tf.Tensor;
}

/**
 * Log-probability of the label, entropy, Σπ² and largest probability of π = softmax(logits / temperature), per row.
 *
 * With m = max x, s₁ = Σ e^(x−m), s₂ = Σ e^(2(x−m)), s₃ = Σ (x−m) e^(x−m) over x = logits / temperature:
 * log π_y = x_y − m − ln s₁, entropy = ln s₁ − s₃/s₁, Σπ² = s₂/s₁², max π = 1/s₁. The logits are read once, nothing of
 * their size is allocated on `cpu`, `wasm` and `webgpu`, and nothing is read back.
 *
 * Runs on the backend that holds the tensors. The four results are ordinary tensors, the caller's to dispose: `tf.tidy`
 * and `tf.keep` treat them as they treat the result of an op. They carry no gradient, and a
 * call while one is recorded warns of that, once (`TENSORTALLY_NO_GRADIENT`). Same input, same device: same bits.
 *
 * −Infinity is probability 0. A row that holds NaN or +Infinity, or nothing but −Infinity, has no distribution: all
 * four results are NaN for that row, as those of torch.log_softmax would be, and other rows are not affected.
 *
 * Labels that are no column are refused wherever the host knows the labels without waiting for a device: always on
 * `cpu`, `wasm` and `tensorflow` without a GPU, and on GPUs as long as no kernel has used a tensor made from host data.
 * Labels that exist on a GPU alone are judged there: such a row's log-probability is NaN while its entropy is a
 * number, a pair that no valid label gives, and every statistic over it that propagates NaN shows it.
 *
 * @param logits `[..., V]` float32, rank 1 to 4, V at least 1; a model's unnormalised log-probabilities
 * @param labels `[...]` int32, or float32 with integers in it: one column of the logits for each row
 * @returns four float32 tensors `[...]`; empty ones for no rows
 * @throws MissingInputError, DisposedTensorError, DtypeError, ShapeError or ValueError for inputs and options that do not
 *   fit; BackendError for tensors that live on two backends, or a row that the device cannot bind. A failed call leaves
 *   no tensor behind. Passes over what a fault of a GPU may have spoilt are refused; reading a tensor with `data()` is not
 * @source Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", extended by s₂ and s₃; tolerances in
 *   docs/numerics.md, labels in docs/decisions/0007
 * @example
 *   const { logProbs, entropy } = logitsStatistics(tf.tensor2d([[0, 0]]), tf.tensor1d([1], 'int32'));
 *   // both ±0.6931472: a fair coin
 */
export function logitsStatistics(
  logits: tf.Tensor,
  labels: tf.Tensor,
  options: LogitsStatisticsOptions = {},
): LogitsStatistics {
  assertOptions(options);
  assertTensors(logits, labels);
  warnOfGradient();
  const { kernels, backend } = residentBackend(WHERE, [
    { name: 'logits', tensor: logits },
    { name: 'labels', tensor: labels },
  ]);
  const { shape, size: rows } = labels;
  const results: PerStatistic<tf.TensorInfo> =
    rows === 0
      ? // Nothing to compute is nothing to launch: devices refuse empty buffers.
        perStatistic(() => ({
          dataId: backend.write(new Float32Array(0), shape, 'float32'),
          shape,
          dtype: 'float32' as const,
        }))
      : kernels.logits({
          backend,
          rows,
          cols: logits.shape.at(-1)!,
          logits,
          labels,
          temperature: options.temperature ?? 1,
        });
  // Not by way of tf.engine().runKernel, which would put the call on the tape of a gradient that it has not.
  return perStatistic((statistic) =>
    tf.engine().makeTensorFromTensorInfo({ ...results[statistic], shape, dtype: 'float32' }, backend),
  );
}
