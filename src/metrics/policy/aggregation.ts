/**
 * Loss aggregation: how a `[B, T]` loss becomes one number.
 *
 * The modes differ in what weighs the same, tokens or sequences. All of them are functions of the row records, so a
 * loss in any mode costs what its mean costs. With global counts, the losses of micro-batches and of data-parallel
 * ranks add up to the loss of the whole batch.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertOptions, kindOf } from '../../arguments.js';
import { MissingInputError, ShapeError, ValueError } from '../../errors.js';
import { type Expression, input, multiply } from '../../kernels/expression.js';
import { Pending, RowMoments } from '../../kernels/index.js';
import { denseWindow } from '../../kernels/moments/pass.js';
import { assertNumericTensor } from '../../kernels/residency.js';
import { Moments, type MomentsTable } from '../../rows/index.js';
import { responseShape } from '../batch/response-windows.js';
import { total } from '../numbers/statistics.js';
import { type Plan, plan, runPlans } from '../plan.js';
import { type Semantics, assertSemantics } from '../semantics.js';
import { type LossOf, type ResponsePart, partTokens } from './plans.js';

export const lossAggModes = [
  'token-mean',
  'token-sum',
  'seq-mean-token-sum',
  'seq-mean-token-mean',
  'seq-mean-token-sum-norm',
] as const;

/**
 * n tokens in s sequences that have any; row sums S_i over n_i tokens each:
 *
 * `token-mean` ΣS_i / n · `token-sum` ΣS_i · `seq-mean-token-sum` ΣS_i / s · `seq-mean-token-mean` Σ(S_i / n_i) / s ·
 * `seq-mean-token-sum-norm` ΣS_i / (s · scale), the scale being T or `lossScaleFactor`. All are multiplied by `dpSize`.
 */
export type LossAggMode = (typeof lossAggModes)[number];

/** Options of `aggLoss`. */
export interface AggLossOptions {
  /** Default `'token-mean'`. */
  readonly lossAggMode?: LossAggMode | undefined;
  /** Divisor of `seq-mean-token-sum-norm`; default T, which changes when batches are padded to their longest row. */
  readonly lossScaleFactor?: number | undefined;
  /** Data-parallel ranks whose losses are averaged afterwards; default 1. */
  readonly dpSize?: number | undefined;
  /** Tokens n of the whole batch, all micro-batches and ranks; default those of the mask. */
  readonly batchNumTokens?: number | undefined;
  /** Sequences s of the whole batch, all micro-batches and ranks; default the rows of the mask that have a token. */
  readonly globalBatchSize?: number | undefined;
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

/** Checked options. */
export interface LossAggregation extends AggLossOptions {
  readonly lossAggMode: LossAggMode;
  readonly dpSize: number;
  readonly semantics: Semantics;
}

/** The kinds of `AggLossOptions`, for `assertOptions`; what they hold is checked by `checkedAggregation`. */
export const aggLossKinds = {
  lossAggMode: 'any',
  lossScaleFactor: 'number',
  dpSize: 'number',
  batchNumTokens: 'number',
  globalBatchSize: 'number',
  semantics: 'any',
} as const;

const WHERE = 'aggLoss';

/**
 * A loss per token as one number.
 *
 * Elements outside the mask never matter. Without a token, or a sequence, to average over the result is NaN, also where
 * the global count says so by 0; if it says that there are some elsewhere, this part adds 0. Under the verl presets the sequence modes
 * multiply by the mask as verl does, so NaN and infinities outside it show.
 *
 * @param lossMat `[B, T]`, any unit
 * @param lossMask `[B, T]`; every non-zero element selects
 * @returns the unit of `lossMat`
 * @throws ValueError for an invalid mode (`token-sum` is none under `verl-2026-01`) and for counts that are
 *   negative or infinite, and for ranks and scales that are not positive; MissingInputError for several ranks without the count that the mode divides by (`verl-2026-01` takes the
 *   local one); ShapeError, DtypeError, DisposedTensorError, BackendError
 * @source verl, trainer/ppo/core_algos.py, agg_loss
 * @example  const loss = await aggLoss(losses, responseMask, { lossAggMode: 'seq-mean-token-mean' });
 */
export async function aggLoss(
  lossMat: Tensor,
  lossMask: Tensor,
  options: AggLossOptions = {},
): Promise<number> {
  return Pending.attempt(() => {
    assertOptions(WHERE, options, aggLossKinds);
    const aggregation = checkedAggregation(WHERE, options);
    assertMatrix('loss_mat', lossMat, undefined);
    assertMatrix('loss_mask', lossMask, lossMat.shape);
    const { cols } = responseShape(lossMat);
    const part = { inputs: { lossMat }, response: denseWindow(lossMask, cols), cols };
    const plan = lossPlan(part, input('lossMat'), aggregation);
    const labels = { lossMat: 'loss_mat', response: 'loss_mask', responseMask: 'loss_mask' };
    return runPlans<[number]>(WHERE, responseShape(lossMat), [plan], labels).map(([loss]) => loss);
  });
}

function assertMatrix(name: string, tensor: Tensor, shape: readonly number[] | undefined): void {
  assertNumericTensor(WHERE, name, tensor);
  if (tensor.rank === 2 && (shape?.every((n, axis) => n === tensor.shape[axis]) ?? true)) return;
  throw new ShapeError({
    where: WHERE,
    input: name,
    expected: shape === undefined ? '[batch, response]' : `the shape of loss_mat, [${shape.join(', ')}]`,
    received: `[${tensor.shape.join(', ')}]`,
    remedy: 'pass loss and mask of one batch, padded to one width',
  });
}

/** The loss `of` over the response tokens, aggregated. */
export function lossPlan(part: ResponsePart, of: Expression, aggregation: LossAggregation): Plan<number> {
  const tokens = partTokens(part);
  const { cols, response, isOneStep = false } = part;
  const isWhole = aggregation.lossAggMode.startsWith('token');
  const selected = { of, mask: 'response', isWhole };
  if (isOneStep && !isWhole && aggregation.semantics === 'recommended') {
    return plan({
      ...tokens,
      channels: { steps: { ...selected, isWhole: true } },
      finish: ({ steps }) => lossOfSteps(steps, cols, aggregation),
    });
  }
  if (!multipliesByMask(aggregation)) {
    return plan({
      ...tokens,
      channels: { selected },
      finish: (tables) => aggregate(tables.selected, tables.selected, cols, aggregation),
    });
  }
  return plan({
    masks: tokens.masks,
    inputs: { ...tokens.inputs, ...(response && { responseMask: response }) },
    channels: { selected, products: { of: response ? multiply(of, 'responseMask') : of, mask: undefined } },
    finish: ({ selected: counted, products }) => aggregate(counted, products, cols, aggregation),
  });
}

/** verl's sequence modes sum loss · mask, where NaN · 0 is NaN; its token modes select. */
function multipliesByMask({ semantics, lossAggMode }: LossAggregation): boolean {
  return semantics !== 'recommended' && lossAggMode.startsWith('seq');
}

/** Losses from the channels of `lossPlan`, of batches of `cols` columns. */
export function lossFrom(cols: number, aggregation: LossAggregation): LossOf {
  return ({ selected, products = selected, steps }) =>
    steps ? lossOfSteps(steps, cols, aggregation) : aggregate(selected!, products!, cols, aggregation);
}

/** The loss in a mode of sequences, each of which is one step. */
function lossOfSteps(
  steps: MomentsTable,
  cols: number,
  { lossAggMode, lossScaleFactor = cols, dpSize, globalBatchSize }: LossAggregation,
): number {
  const { count, sum } = new Moments(steps.total());
  const mean = (sum / (globalBatchSize ?? count)) * dpSize;
  return lossAggMode === 'seq-mean-token-sum-norm' ? mean / lossScaleFactor : mean;
}

/**
 * @param counted the loss of the selected tokens, per row
 * @param summed what row sums are taken of
 * @param cols T
 */
function aggregate(
  counted: MomentsTable,
  summed: MomentsTable,
  cols: number,
  aggregation: LossAggregation,
): number {
  const { lossAggMode, lossScaleFactor = cols, dpSize, batchNumTokens, globalBatchSize } = aggregation;
  const counts = RowMoments.fromTable(counted).count;
  const sums = RowMoments.fromTable(summed).sum;
  if (lossAggMode === 'seq-mean-token-sum-norm' && aggregation.semantics === 'verl-2026-01') {
    return total(sums) / lossScaleFactor;
  }
  if (lossAggMode === 'token-sum') return total(sums) * dpSize;
  if (lossAggMode === 'token-mean') return meanOver(batchNumTokens ?? total(counts), total(sums)) * dpSize;
  // Rows without a token are no sequences, whatever verl's product makes of them.
  const hasTokens = (_: number, row: number): boolean => counts[row]! > 0;
  const perSequence = lossAggMode === 'seq-mean-token-mean' ? sums.map((s, i) => s / counts[i]!) : sums;
  const sequences = globalBatchSize ?? counts.filter(hasTokens).length;
  const mean = meanOver(sequences, total(perSequence.filter(hasTokens))) * dpSize;
  return lossAggMode === 'seq-mean-token-sum-norm' ? mean / lossScaleFactor : mean;
}

/** A mean over nothing is NaN, whatever the sum: a global count of 0 denies the tokens that there are. */
function meanOver(count: number, sum: number): number {
  return count === 0 ? NaN : sum / count;
}

/**
 * The options, with defaults, after `assertOptions` has seen them.
 *
 * @param as what the caller knows the options as
 * @throws ValueError, MissingInputError as `aggLoss` does
 */
export function checkedAggregation(where: string, options: AggLossOptions, as = 'options'): LossAggregation {
  const { lossAggMode = 'token-mean', semantics = 'recommended', dpSize = 1 } = options;
  const { batchNumTokens, globalBatchSize, lossScaleFactor } = options;
  assertSemantics(where, semantics);
  const at: Place = { where, as };
  assertMode(at, lossAggMode, semantics);
  for (const [name, value] of Object.entries({ dpSize, lossScaleFactor })) {
    if (value !== undefined && !(value > 0 && value < Infinity))
      throw outOfBounds(at, name, value, 'a positive number');
  }
  // No token in the whole batch is what the mask would say, too, and the mean of nothing is NaN.
  for (const [name, value] of Object.entries({ batchNumTokens, globalBatchSize })) {
    if (value !== undefined && !(value >= 0 && value < Infinity))
      throw outOfBounds(at, name, value, 'a count, 0 or more');
  }
  if (dpSize > 1 && semantics !== 'verl-2026-01') assertGlobalCount(at, lossAggMode, options);
  return { ...options, lossAggMode, semantics, dpSize };
}

/** The public function, and what its caller knows the options as. */
interface Place {
  readonly where: string;
  readonly as: string;
}

function assertMode({ where, as }: Place, mode: string, semantics: Semantics): void {
  const known = lossAggModes.filter((one) => semantics !== 'verl-2026-01' || one !== 'token-sum');
  if ((known as readonly string[]).includes(mode)) return;
  throw new ValueError({
    where,
    input: `${as}.lossAggMode`,
    expected: `one of ${known.join(', ')}`,
    received: kindOf(mode),
    remedy: "leave it out for 'token-mean'",
  });
}

function outOfBounds({ where, as }: Place, name: string, value: number, expected: string): ValueError {
  return new ValueError({
    where,
    input: `${as}.${name}`,
    expected,
    received: kindOf(value),
    remedy: 'leave it out for what the mask says',
  });
}

/** With several ranks, local counts would weigh each rank alike, however few tokens it has. */
function assertGlobalCount(
  { where, as }: Place,
  mode: LossAggMode,
  { batchNumTokens, globalBatchSize, dpSize }: AggLossOptions,
): void {
  if (mode === 'token-sum') return;
  const [name, count, what] =
    mode === 'token-mean'
      ? (['batchNumTokens', batchNumTokens, 'tokens'] as const)
      : (['globalBatchSize', globalBatchSize, 'sequences'] as const);
  if (count !== undefined) return;
  throw new MissingInputError({
    where,
    input: `${as}.${name}`,
    expected: `the ${what} of all ${dpSize} ranks`,
    received: 'nothing',
    remedy: `sum the ${what} over the ranks and pass them as ${name}`,
  });
}
