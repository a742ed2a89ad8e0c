/**
 * Proxies of the variance of the policy gradient, from what the step already has: no gradient is taken per sample.
 *
 * For a softmax policy the squared norm of a token's score (the gradient of log π with respect to the logits) is
 * w = ‖e_y − π‖² = 1 − 2π + Σπ², so the power of a row's gradient is about A²·Σw, with A its mean advantage.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertOptions, kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import {
  type Expression,
  add,
  divide,
  expm1,
  input,
  max,
  multiply,
  negate,
  square,
  subtract,
} from '../kernels/expression.js';
import { Pending } from '../kernels/index.js';
import { Moments, type MomentsTable } from '../rows/index.js';
import { type RolloutBatch, assertBatch, isOneStep, requireTensors } from './batch/batch.js';
import { batchShape, requireResponseTokens } from './batch/response-windows.js';
import type { Metrics } from './numbers/statistics.js';
import { type Plan, type PlanChannel, plan, runPlans } from './plan.js';
import { type Semantics, assertSemantics } from './semantics.js';

/** Options of `computeVarianceProxyMetrics` and `varianceProxies`. */
export interface VarianceProxyOptions {
  /** Norm of the gradient of the step, before clipping. Without it signal and noise are undefined. */
  readonly gradientNorm?: number | undefined;
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

/** The proxies of one batch. Undefined numbers are NaN. */
export interface VarianceProxies {
  /** ‖ĝ‖²: squared norm of the mean gradient. `variance_proxy/proxy1_signal_strength` */
  readonly signalStrength: number;
  /** Mean over rows of ρ̄²·A²·Σw, with ρ̄ the row's mean importance weight, or 1. `…/proxy2_total_power` */
  readonly totalPower: number;
  /** (totalPower − signalStrength) / (rows − 1), at least 0: variance of the mean gradient. `…/proxy3_pure_noise` */
  readonly pureNoise: number;
  /** Mean over rows of A². `…/expected_a_squared` */
  readonly expectedASquared: number;
  /** Mean over rows of Σw, of Σw·ρ² where there are importance weights. `…/expected_w` */
  readonly expectedW: number;
  /** Rows behind the means. */
  readonly rows: number;
}

const WHERE = 'computeVarianceProxyMetrics';

/**
 * Proxies of the variance of the policy gradient, under verl's names (`variance_proxy/*`).
 *
 * With importance weights in the batch the proxies are those of the weighted gradient. Under `recommended`, rows
 * without a token of `response_mask` are left out of all means, w is at least (1 − π)² whatever rounding or
 * inconsistent inputs say, and without `gradientNorm` signal and noise are NaN. The verl presets count empty rows as
 * 0, report 0 for what they cannot know, lose tokens whose weight is below 1e-5, and answer a batch that lacks an
 * input with an empty record.
 *
 * @param batch needs response_mask, old_log_probs, advantages, sum_pi_squared; uses rollout_is_weights
 * @returns plain numbers; undefined ones are NaN. One read-back
 * @throws MissingInputError (under `recommended`, naming the input), ShapeError, DtypeError, DisposedTensorError,
 *   ValueError for an invalid norm or semantics, BackendError
 * @source verl, trainer/ppo/metric_utils.py, compute_variance_proxy_metrics
 * @example  await computeVarianceProxyMetrics(batch, { gradientNorm: actorMetrics['actor/grad_norm'] });
 */
export async function computeVarianceProxyMetrics(
  batch: RolloutBatch,
  options: VarianceProxyOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => varianceProxyMetrics(batch, options));
}

/** The `Pending` behind `computeVarianceProxyMetrics`. */
export function varianceProxyMetrics(
  batch: RolloutBatch,
  options: VarianceProxyOptions = {},
): Pending<Metrics> {
  assertVarianceProxyOptions(WHERE, options);
  assertBatch(WHERE, batch);
  if (isSilent(batch, options)) return Pending.of({});
  return launched(WHERE, batch, options).map(metricsOf);
}

/**
 * The proxies that `computeVarianceProxyMetrics` reports, by meaning instead of by key, and the rows behind them.
 *
 * @throws as `computeVarianceProxyMetrics`, MissingInputError under all semantics
 * @example  const { signalStrength, pureNoise } = await varianceProxies(batch, { gradientNorm });
 */
export async function varianceProxies(
  batch: RolloutBatch,
  options: VarianceProxyOptions = {},
): Promise<VarianceProxies> {
  return Pending.attempt(() => {
    assertVarianceProxyOptions('varianceProxies', options);
    assertBatch('varianceProxies', batch);
    return launched('varianceProxies', batch, options);
  });
}

/**
 * What the metrics ask of the response part of a checked batch, to share a pass with others; undefined where the verl
 * presets report nothing.
 */
export function varianceProxyPlan(
  batch: RolloutBatch,
  options: VarianceProxyOptions = {},
  where = WHERE,
): Plan<Metrics> | undefined {
  assertVarianceProxyOptions(where, options);
  if (isSilent(batch, options)) return undefined;
  const proxies = proxiesPlan(where, batch, options);
  return { ...proxies, finish: (tables) => metricsOf(proxies.finish(tables)) };
}

/** Whether an input is missing and the semantics is one that says nothing about it. */
function isSilent(
  { oldLogProbs, advantages, sumPiSquared }: RolloutBatch,
  options: VarianceProxyOptions,
): boolean {
  const isComplete = oldLogProbs !== undefined && advantages !== undefined && sumPiSquared !== undefined;
  return !isComplete && (options.semantics ?? 'recommended') !== 'recommended';
}

function launched(
  where: string,
  batch: RolloutBatch,
  options: VarianceProxyOptions,
): Pending<VarianceProxies> {
  const proxies = proxiesPlan(where, batch, options);
  return runPlans<[VarianceProxies]>(where, batchShape(batch), [proxies]).map(([all]) => all);
}

function proxiesPlan(
  where: string,
  batch: RolloutBatch,
  { gradientNorm, semantics = 'recommended' }: VarianceProxyOptions,
): Plan<VarianceProxies> {
  const masks = { response: requireResponseTokens(where, batch) };
  const inputs = requireTensors(where, batch, ['oldLogProbs', 'advantages', 'sumPiSquared']);
  const power = scoreNorm(semantics);
  const channels = {
    advantages: { of: input('advantages'), mask: 'response' },
    power: { of: power, mask: 'response' },
  };
  const finish = (rows: VarianceProxyTables): VarianceProxies => finished(rows, gradientNorm, semantics);
  const { rolloutIsWeights } = batch;
  if (isOneStep(batch) && semantics === 'recommended') {
    const ofSteps = stepChannels(power, rolloutIsWeights !== undefined);
    const withWeights: Record<string, Tensor> = { ...inputs, ...(rolloutIsWeights && { rolloutIsWeights }) };
    return plan({ inputs: withWeights, masks, channels: ofSteps, finish });
  }
  if (rolloutIsWeights === undefined) return plan({ inputs, masks, channels, finish });

  const weighted = multiply(power, square('rolloutIsWeights'));
  const unweighted =
    semantics === 'recommended' ? power : divide(weighted, max(square('rolloutIsWeights'), 1e-10));
  const weightedInputs: Record<string, Tensor> = { ...inputs, rolloutIsWeights };
  return plan({
    inputs: weightedInputs,
    masks,
    channels: {
      advantages: channels.advantages,
      power: { of: unweighted, mask: 'response' },
      weightedPower: { of: weighted, mask: 'response' },
      weights: { of: input('rolloutIsWeights'), mask: 'response' },
    },
    finish,
  });
}

/** The products of what rows have, where every row is one step. */
function stepChannels(power: Expression, isWeighted: boolean): Record<keyof StepTables, PlanChannel> {
  const whole = (of: Expression): PlanChannel => ({ of, mask: 'response', isWhole: true });
  const ofRow = multiply(square('advantages'), max(power, 0));
  const weight = square('rolloutIsWeights');
  return {
    aSquared: whole(square('advantages')),
    rowPower: whole(isWeighted ? multiply(ofRow, weight) : ofRow),
    stepPower: whole(isWeighted ? multiply(power, weight) : power),
  };
}

/**
 * w of one token, arranged for probabilities near 1, where 1 − 2π + Σπ² is a small difference of numbers near 1:
 * with q = 1 − π, which expm1 gives without cancellation, w = (Σπ² − 1) + 2q. Since Σπ² ≥ π², w ≥ q²; the verl
 * revisions do not hold it there.
 */
function scoreNorm(semantics: Semantics): Expression {
  const q = negate(expm1('oldLogProbs'));
  const w = add(subtract('sumPiSquared', 1), multiply(2, q));
  return semantics === 'recommended' ? max(w, square(q)) : w;
}

/** The metrics of rows, from the channels of `varianceProxyPlan`. */
export function varianceProxyMetricsOf(tables: VarianceProxyTables, options: VarianceProxyOptions): Metrics {
  return metricsOf(finished(tables, options.gradientNorm, options.semantics ?? 'recommended'));
}

/** Where every row is one step: A², A²·w·ρ² and w·ρ². */
interface StepTables {
  readonly aSquared: MomentsTable;
  readonly rowPower: MomentsTable;
  readonly stepPower: MomentsTable;
}

export type VarianceProxyTables = RowTables | StepTables;

/** One row per row of the batch. */
interface RowTables {
  readonly advantages: MomentsTable;
  /** w */
  readonly power: MomentsTable;
  /** w·ρ², where there are importance weights. */
  readonly weightedPower?: MomentsTable;
  /** ρ */
  readonly weights?: MomentsTable;
}

function finished(
  tables: VarianceProxyTables,
  gradientNorm: number | undefined,
  semantics: Semantics,
): VarianceProxies {
  const isRecommended = semantics === 'recommended';
  const { rows, sumOfPower, sumOfASquared, sumOfW } =
    'aSquared' in tables ? sumsOfSteps(tables) : sumsOfRows(tables, isRecommended);
  const unknown = isRecommended ? NaN : 0;
  const signalStrength = gradientNorm === undefined ? unknown : gradientNorm ** 2;
  const totalPower = sumOfPower / rows;
  const noise = (totalPower - signalStrength) / (rows - 1);
  const isKnown = gradientNorm !== undefined && rows > 1;
  return {
    signalStrength,
    totalPower,
    // Python's max(0, NaN) is 0: the presets hide an undefined noise.
    pureNoise: !isKnown ? unknown : isRecommended ? Math.max(noise, 0) : noise > 0 ? noise : 0,
    expectedASquared: sumOfASquared / rows,
    expectedW: sumOfW / rows,
    rows,
  };
}

/** Sums over the rows that count, and how many those are. */
interface RowSums {
  readonly rows: number;
  readonly sumOfPower: number;
  readonly sumOfASquared: number;
  readonly sumOfW: number;
}

function sumsOfSteps({ aSquared, rowPower, stepPower }: StepTables): RowSums {
  const { count: rows, sum: sumOfASquared } = new Moments(aSquared.total());
  const { sum: sumOfPower } = new Moments(rowPower.total());
  return { rows, sumOfPower, sumOfASquared, sumOfW: new Moments(stepPower.total()).sum };
}

function sumsOfRows(
  { advantages, power, weightedPower = power, weights }: RowTables,
  isRecommended: boolean,
): RowSums {
  let rows = 0;
  let sumOfPower = 0;
  let sumOfASquared = 0;
  let sumOfW = 0;
  for (let row = 0; row < advantages.length; row++) {
    const isEmpty = advantages.row(row).count === 0;
    if (isEmpty && isRecommended) continue;
    rows++;
    if (isEmpty) continue;
    const a = new Moments(advantages.row(row)).mean;
    const rho = weights === undefined ? 1 : new Moments(weights.row(row)).mean;
    sumOfPower += rho * rho * a * a * Math.max(new Moments(power.row(row)).sum, 0);
    sumOfASquared += a * a;
    sumOfW += new Moments(weightedPower.row(row)).sum;
  }
  return { rows, sumOfPower, sumOfASquared, sumOfW };
}

function metricsOf(proxies: VarianceProxies): Metrics {
  return {
    'variance_proxy/proxy1_signal_strength': proxies.signalStrength,
    'variance_proxy/proxy2_total_power': proxies.totalPower,
    'variance_proxy/proxy3_pure_noise': proxies.pureNoise,
    'variance_proxy/expected_a_squared': proxies.expectedASquared,
    'variance_proxy/expected_w': proxies.expectedW,
  };
}

/** @throws ValueError for an invalid norm or semantics */
export function assertVarianceProxyOptions(
  where: string,
  options: VarianceProxyOptions,
  as = 'options',
): void {
  assertOptions(where, options, { gradientNorm: 'number', semantics: 'any' }, as);
  const { gradientNorm, semantics = 'recommended' } = options;
  assertSemantics(where, semantics);
  // NaN and Infinity are what a diverged run has: they show in the result.
  if (gradientNorm === undefined || !(gradientNorm < 0)) return;
  throw new ValueError({
    where,
    input: `${as}.gradientNorm`,
    expected: 'a norm, at least 0',
    received: kindOf(gradientNorm),
    remedy: 'pass the norm of the gradient before clipping, e.g. the metric actor/grad_norm',
  });
}
