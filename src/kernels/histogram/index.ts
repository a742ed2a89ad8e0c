/**
 * Masked histograms: how often numbers of each size were selected, for quantiles of what is spread over micro-batches,
 * windows and ranks.
 *
 * The public operation. The buckets are in buckets.ts, what is done with them on the host in histogram.ts.
 */
import * as tf from '@tensorflow/tfjs-core';
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { Histogram } from '../../rows/index.js';
import { residentBackend } from '../backends/table.js';
import { Pending } from '../collect.js';
import { CompactMask, type MaskTensor } from '../masks/compact-mask.js';
import { assertTensors, isRecord } from '../moments/checks.js';
import type { NamedTensor } from '../residency.js';

const WHERE = 'maskedHistograms';

/**
 * Histograms of the elements that a mask selects, made on the device.
 *
 * Elements outside the mask never matter, whatever they hold. Runs on the backend that holds the tensors, launches in
 * the call (inputs may be disposed in the next line), reads back when awaited: 139 KiB per tensor on `webgpu`, 278 KiB
 * on `tensorflow` with a GPU, however large the tensors; `collect` reads several results at once. Counts are exact, and
 * the same on every backend. Carries no gradient. Any failure is a rejection, never a synchronous throw.
 *
 * @param values a tensor of rank 1 to 4, or a record of tensors of one shape; float32, or int32 and bool, which are counted as the
 *   float32 numbers nearest to them
 * @param mask same shape as the values; bool, int32 or float32, every non-zero element selects. Left out, all count.
 *   `compactMask` makes one that several calls share faster.
 * @returns a `Histogram`, or one per name for a record; that of nothing is `Histogram.empty`
 * @throws MissingInputError, DisposedTensorError, DtypeError, ShapeError, ValueError for inputs that do not fit;
 *   BackendError for tensors that live on two backends, or if the device reported a fault
 * @source Masson, Rim & Lee 2019, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
 *   with buckets that a shift of the bits finds instead of a logarithm; docs/decisions/0012
 * @example
 *   const { ratio } = await maskedHistograms({ ratio: tf.tensor1d([1, 2, 4, 100]) }, tf.tensor1d([1, 1, 1, 0], 'bool'));
 *   ratio.quantile(0.5); // 2
 */
export function maskedHistograms(values: tf.Tensor, mask?: MaskTensor): Pending<Histogram>;
export function maskedHistograms<K extends string>(
  values: Readonly<Record<K, tf.Tensor>>,
  mask?: MaskTensor,
): Pending<Record<K, Histogram>>;
export function maskedHistograms(
  values: tf.Tensor | Readonly<Record<string, tf.Tensor>>,
  mask?: MaskTensor,
): Pending<Histogram | Record<string, Histogram>> {
  return Pending.attempt<Histogram | Record<string, Histogram>>(() => {
    if (values instanceof tf.Tensor) return launchHistograms({ values }, mask).map((all) => all.values!);
    if (!isRecord(values)) {
      throw new ValueError({
        where: WHERE,
        input: 'values',
        expected: 'a record of tensors or a tensor',
        received: kindOf(values),
        remedy: 'pass a tensor or { x: tensor }',
      });
    }
    return launchHistograms(values, mask);
  });
}

function launchHistograms(
  values: Readonly<Record<string, tf.Tensor>>,
  mask: MaskTensor | undefined,
): Pending<Record<string, Histogram>> {
  const named: NamedTensor[] = Object.entries<tf.Tensor>(values).map(([name, tensor]) => ({
    name,
    tensor,
  }));
  // null is no mask that was left out, it is one that is missing; the check says so.
  assertTensors(WHERE, named, mask === undefined ? undefined : { name: 'mask', tensor: mask });
  const selection =
    mask instanceof CompactMask
      ? mask.stored(WHERE, 'mask')
      : mask && ({ tensor: mask, form: 'elements' } as const);
  const { kernels, backend } = residentBackend(WHERE, [
    ...named,
    ...(selection ? [{ name: 'mask', tensor: selection.tensor }] : []),
  ]);
  const { size } = named[0]!.tensor;
  const histograms =
    size === 0
      ? // Nothing to count is nothing to launch: devices refuse empty buffers.
        Pending.of(named.map(() => Histogram.empty))
      : kernels.histograms({ backend, size, values: named.map(({ tensor }) => tensor), mask: selection });
  return histograms.map((all) => Object.fromEntries(named.map(({ name }, i) => [name, all[i]!])));
}
