/** How evenly a mixture of experts spreads the tokens of a rollout over its experts, layer by layer. */
import * as tf from '@tensorflow/tfjs-core';
import { assertOptions, kindOf } from '../arguments.js';
import { DtypeError, MissingInputError, ShapeError, ValueError } from '../errors.js';
import { assertNumericTensor, commonBackend } from '../kernels/residency.js';
import { selectionOf, tidyWhere } from '../kernels/resident-ops.js';
import { columnsOf } from './batch/batch.js';
import { type Metrics, momentsOf, total } from './numbers/statistics.js';

/** Options of `computeMoeMetrics`. */
export interface MoeMetricsOptions {
  /** E: experts of a layer that tokens are routed to. */
  readonly numExperts: number;
  /**
   * `[B, P + T]` or the shape of `responseMask`: which tokens there are; every non-zero element selects. Without it nothing follows the last
   * token of `responseMask`, so pass it where tool output can end a row.
   */
  readonly attentionMask?: tf.Tensor | undefined;
}

const WHERE = 'computeMoeMetrics';

/**
 * `rollout/moe/{max,min,avg}_vio/layer_{i}`: how far the load of the busiest expert of a layer, of the idlest, and of all
 * on average, is from an even load: c·E / Σc − 1 for an expert that c tokens were routed to (of `avg_vio` the absolute
 * value); and `rollout/moe/{max,min,avg}_vio/{max,avg}` over layers. 0 is an even load, E − 1 all tokens on one expert.
 *
 * Experts see a token when the next one is sampled, so the last token of a row is left out: it was sampled, and no expert
 * ever saw it. With `attentionMask` that is the last token that there is: where tool output follows what the policy wrote,
 * all that it wrote counts.
 *
 * @param routedExperts int32 `[B, P + T, layers, k]`: the experts of every token, 0 to E − 1; prompts are not counted
 * @param responseMask `[B, T]`, or `[B]` for one step a row; every non-zero element selects
 * @returns plain numbers; an empty record if no token is left. One read-back, of the counts
 * @throws ShapeError, DtypeError, DisposedTensorError, MissingInputError; ValueError for an invalid number of experts,
 *   more than can be counted, or exceeded, and for negative experts; BackendError for tensors on two backends
 * @source verl, trainer/ppo/metric_utils.py (2026), after Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing Strategy
 *   for Mixture-of-Experts" (MaxVio)
 * @example  await computeMoeMetrics(routedExperts, responseMask, { numExperts: 128 });
 */
export async function computeMoeMetrics(
  routedExperts: tf.Tensor,
  responseMask: tf.Tensor,
  options: MoeMetricsOptions,
): Promise<Metrics> {
  const experts = expertsOf(options);
  const { attentionMask } = options;
  assertShapes(routedExperts, responseMask);
  if (attentionMask !== undefined) assertAttention(routedExperts, responseMask, attentionMask);
  const layers = routedExperts.shape[2]!;
  assertCountable(layers, experts);
  const loads = await countsOf({ routedExperts, responseMask, attentionMask }, experts);
  const [negative, beyond] = loads.subarray(layers * experts) as unknown as [number, number];
  if (negative > 0) {
    throw new ValueError({
      where: WHERE,
      input: 'routedExperts',
      expected: 'experts of 0 or more for the selected tokens',
      received: `a negative one, ${negative} times`,
      remedy: 'leave tokens without experts out of the mask; where it does not select, any number will do',
    });
  }
  if (beyond > 0) {
    throw new ValueError({
      where: WHERE,
      input: 'options.numExperts',
      expected: 'more than the largest expert among the selected tokens',
      received: kindOf(experts),
      remedy: 'pass the number of routed experts of a layer, without shared ones',
    });
  }
  const metrics: Metrics = {};
  const found: Record<'max_vio' | 'min_vio' | 'avg_vio', number[]> = {
    max_vio: [],
    min_vio: [],
    avg_vio: [],
  };
  for (let layer = 0; layer < layers; layer++) {
    const own = loads.subarray(layer * experts, (layer + 1) * experts);
    const all = total(own);
    if (all === 0) return {};
    const violations = Float64Array.from(own, (count) => (count * experts) / all - 1);
    const { max, min } = momentsOf(violations);
    found.max_vio.push(max);
    found.min_vio.push(min);
    found.avg_vio.push(momentsOf(violations.map(Math.abs)).mean);
  }
  for (const [name, ofLayers] of Object.entries(found)) {
    for (const [layer, value] of ofLayers.entries()) metrics[`rollout/moe/${name}/layer_${layer}`] = value;
    if (layers === 0) continue;
    const { max, mean } = momentsOf(ofLayers);
    metrics[`rollout/moe/${name}/max`] = max;
    metrics[`rollout/moe/${name}/avg`] = mean;
  }
  return metrics;
}

/** Counts of all layers that fit into a buffer of any device, and far more than any model has. */
const MOST_PLACES = 2 ** 22;

function assertCountable(layers: number, experts: number): void {
  if (layers * experts <= MOST_PLACES) return;
  throw new ValueError({
    where: WHERE,
    input: 'options.numExperts',
    expected: `at most ${Math.floor(MOST_PLACES / layers)} experts in each of ${layers} layers`,
    received: kindOf(experts),
    remedy: 'pass the number of routed experts of one layer, or fewer layers at a time',
  });
}

/** Choices that are counted at once: float32 counts are exact up to here, and what a part takes on the way is bounded. */
const MOST_COUNTED = 2 ** 24;

interface MoeTensors {
  readonly routedExperts: tf.Tensor;
  readonly responseMask: tf.Tensor;
  readonly attentionMask: tf.Tensor | undefined;
}

/**
 * Tokens by layer and expert, one after the other, then those routed to an expert below 0, and to one that there is not.
 *
 * An expert's place among those of all layers makes one count of it all.
 */
async function countsOf(
  { routedExperts, responseMask, attentionMask }: MoeTensors,
  experts: number,
): Promise<Float64Array> {
  const [rows, width, layers, choices] = routedExperts.shape as [number, number, number, number];
  const cols = columnsOf(responseMask);
  const places = layers * experts + 2;
  const counts = new Float64Array(places);
  if (responseMask.size === 0 || layers * choices === 0) return counts;
  const named = [
    { name: 'routedExperts', tensor: routedExperts },
    { name: 'responseMask', tensor: responseMask },
    ...(attentionMask === undefined ? [] : [{ name: 'options.attentionMask', tensor: attentionMask }]),
  ];
  const rowsAtOnce = Math.max(1, Math.floor(MOST_COUNTED / (cols * layers * choices)));
  const packed = tidyWhere(WHERE, named, () => {
    const parts: tf.Tensor[] = [];
    for (let row = 0; row < rows; row += rowsAtOnce) {
      const own = Math.min(rowsAtOnce, rows - row);
      // What a part takes on the way, several times its ids, is gone before the next one.
      const part = tf.tidy(() => {
        const ids = tf.slice(routedExperts, [row, width - cols, 0, 0], [own, cols, layers, choices]);
        // One step a row is one column.
        const lastColumns = (of: tf.Tensor): tf.Tensor =>
          tf.slice(tf.reshape(of, [rows, columnsOf(of)]), [row, columnsOf(of) - cols], [own, cols]);
        const mask = lastColumns(responseMask);
        const attended = attentionMask && lastColumns(attentionMask);
        return countPart(ids, withoutLast(mask, attended), experts, places);
      });
      parts.push(part);
    }
    return tf.stack(parts);
  });
  try {
    const found = await packed.data();
    for (let i = 0; i < found.length; i++) counts[i % places]! += found[i]!;
  } finally {
    packed.dispose();
  }
  return counts;
}

/** The mask without the token of every row that none follows: none of the mask, nor of those attended. */
function withoutLast(mask: tf.Tensor, attended: tf.Tensor | undefined): tf.Tensor {
  const selected = selectionOf(mask);
  const existing = attended === undefined ? selected : tf.logicalOr(selected, selectionOf(attended));
  const positions = tf.add(tf.zeros(mask.shape), tf.expandDims(tf.range(0, mask.shape[1]!, 1, 'float32'), 0));
  const last = tf.max(tf.where(existing, positions, -1), 1, true);
  return tf.logicalAnd(selected, tf.less(positions, last));
}

function countPart(ids: tf.Tensor, selected: tf.Tensor, experts: number, places: number): tf.Tensor {
  const [, , layers] = ids.shape as [number, number, number];
  const offsets = tf.mul(tf.range(0, layers, 1, 'int32'), tf.scalar(experts, 'int32'));
  const isNegative = tf.less(ids, tf.scalar(0, 'int32'));
  const isBeyond = tf.greaterEqual(ids, tf.scalar(experts, 'int32'));
  const known = tf.add(ids, tf.reshape(offsets, [1, 1, layers, 1]));
  const place = tf.where(
    isNegative,
    tf.scalar(places - 2, 'int32'),
    tf.where(isBeyond, tf.scalar(places - 1, 'int32'), known),
  );
  const weights = tf.add(
    tf.zeros(ids.shape),
    tf.reshape(tf.cast(selected, 'float32'), [...selected.shape, 1, 1]),
  );
  const flat = tf.reshape<tf.Rank.R1>(place, [-1]);
  const flatWeights = tf.reshape<tf.Rank.R1>(weights, [-1]);
  const { name } = commonBackend(WHERE, [{ name: 'routedExperts', tensor: ids }]);
  const counter = tf.getKernel('DenseBincount', name) as tf.KernelConfig | undefined;
  // Not every backend has both.
  return counter === undefined
    ? tf.unsortedSegmentSum(flatWeights, flat, places)
    : tf.denseBincount(flat, flatWeights, places);
}

function expertsOf(options: MoeMetricsOptions): number {
  if ((options as unknown) === undefined) {
    throw new MissingInputError({
      where: WHERE,
      input: 'options',
      expected: 'the number of experts',
      received: 'undefined',
      remedy: 'pass { numExperts }',
    });
  }
  assertOptions(WHERE, options, { numExperts: 'any', attentionMask: 'any' });
  const { numExperts } = options;
  if (Number.isSafeInteger(numExperts) && numExperts > 0) return numExperts;
  throw new ValueError({
    where: WHERE,
    input: 'options.numExperts',
    expected: 'a whole number of experts, 1 or more',
    received: kindOf(numExperts),
    remedy: 'pass the number of routed experts of a layer',
  });
}

function assertAttention(routedExperts: tf.Tensor, responseMask: tf.Tensor, attentionMask: tf.Tensor): void {
  assertNumericTensor(WHERE, 'options.attentionMask', attentionMask);
  const { rank, shape } = attentionMask;
  const widths = [routedExperts.shape[1], columnsOf(responseMask)];
  const isMatrix = rank === 1 || rank === 2;
  if (isMatrix && shape[0] === responseMask.shape[0] && widths.includes(columnsOf(attentionMask))) return;
  throw new ShapeError({
    where: WHERE,
    input: 'options.attentionMask',
    expected: `[batch, prompt + response] = [${responseMask.shape[0]}, ${widths[0]}], or the shape of responseMask`,
    received: `[${shape.join(', ')}]`,
    remedy: 'pass the attention mask of the same batch',
  });
}

function assertShapes(routedExperts: tf.Tensor, responseMask: tf.Tensor): void {
  assertNumericTensor(WHERE, 'routedExperts', routedExperts);
  assertNumericTensor(WHERE, 'responseMask', responseMask);
  const [rows, width] = routedExperts.shape;
  const isMatrix = responseMask.rank === 1 || responseMask.rank === 2;
  const refuse = (input: string, expected: string, { shape }: tf.Tensor): never => {
    throw new ShapeError({
      where: WHERE,
      input,
      expected,
      received: `[${shape.join(', ')}]`,
      remedy: 'pass experts and mask of one batch, padded alike',
    });
  };
  if (routedExperts.rank !== 4 || routedExperts.dtype !== 'int32') {
    if (routedExperts.rank === 4) {
      throw new DtypeError({
        where: WHERE,
        input: 'routedExperts',
        expected: 'int32',
        received: routedExperts.dtype,
        remedy: 'cast it: routedExperts.toInt()',
      });
    }
    refuse('routedExperts', '[batch, prompt + response, layers, choices]', routedExperts);
  }
  if (!isMatrix || responseMask.shape[0] !== rows || columnsOf(responseMask) > width!) {
    const expected = `[batch, response] = [${rows}, ≤ ${width}], or [${rows}] for one step a row`;
    refuse('responseMask', expected, responseMask);
  }
}
