/** Importance weights ρ = π_train / π_rollout: their statistics, and what to make of them per token or per row. */
import { clamp, exp, greater, less, min, select } from '../../kernels/expression.js';
import { RowMoments } from '../../kernels/index.js';
import type { MaskedExpression } from '../../kernels/moments/pass.js';
import { Moments, type MomentsRow, type MomentsTable } from '../../rows/index.js';
import { type Steps, stepMoments } from '../batch/steps.js';
import { knownFraction } from '../numbers/comparisons.js';
import { type Metrics, momentsOf } from '../numbers/statistics.js';
import type { Semantics } from '../semantics.js';
import { type Interval, insideRange, isIn } from './interval.js';
import type { Weighting } from './options.js';
import { LOG_RATIO_LIMIT, held, heldLogRatio, largestDeviation, rowStd, rowValues, spread } from './rows.js';

/** The weights to make on the device. */
export interface WeightDecision extends Weighting {
  /** What all weights are divided by. */
  readonly factor: number;
  /** One weight per row of the batch, not yet divided, if all its tokens share it. */
  readonly ofRows: Float64Array | undefined;
}

export interface WeightResult {
  /** Without the prefix `rollout_corr/`. */
  readonly metrics: Metrics;
  readonly decision: WeightDecision;
}

/** A mean of the weights up to this is no scale to divide by, verl says; weights of e^−20 have a smaller one. */
const VERL_LEAST_MEAN = 1e-8;
/** What verl adds to the mean of the weights in the effective sample size. */
const ESS_EPSILON = 1e-8;

/** One row per row of the batch. */
interface WeightTables {
  /** Weights as they come. */
  readonly raw: MomentsTable;
  /** Weights truncated or zeroed. */
  readonly applied: MomentsTable;
  /** Weights held between 1/upper and upper, where those are what is measured. */
  readonly clipped?: MomentsTable;
  /** Applied weights of tokens that no criterion on tokens rejects, 0 for the others; only to normalise by. */
  readonly normalised?: MomentsTable;
}

/** Weights above and below the bounds, 0 or 1. */
interface BoundTables {
  readonly high: MomentsTable;
  readonly low: MomentsTable;
}

/**
 * What token weights ask of the tokens of the response mask; sequence weights need the log ratio alone.
 *
 * @param keptTokens the log ratios of tokens that rejection keeps; undefined if it looks at none
 */
export function weightChannels(
  weighting: Weighting | undefined,
  keptTokens: Interval | undefined,
  semantics: Semantics,
): Record<string, MaskedExpression> {
  if (weighting?.level !== 'token') return {};
  const { lower, upper } = weighting;
  const weight = exp(heldLogRatio);
  const applied =
    lower === undefined ? min(weight, upper) : select(isIn(insideRange(lower, upper)), weight, 0);
  const mask = 'response';
  return {
    raw: { of: weight, mask },
    applied: { of: applied, mask },
    // Bounds are compared with the log ratio: a weight has been rounded once more.
    high: { of: greater(heldLogRatio, Math.log(upper)), mask },
    low: { of: less(heldLogRatio, Math.log(lowerBound(weighting))), mask },
    ...(weighting.batchNormalize &&
      semantics === 'recommended' &&
      keptTokens && { normalised: { of: select(isIn(keptTokens), applied, 0), mask } }),
    ...(measuresRaw(weighting, semantics) && { clipped: { of: clamp(weight, 1 / upper, upper), mask } }),
  };
}

/**
 * Whether weights are measured before they are truncated, as the older revision did. It knew no ranges; those follow
 * the newer one.
 */
function measuresRaw({ lower }: Weighting, semantics: Semantics): boolean {
  return semantics === 'verl-2026-01' && lower === undefined;
}

/** A row's weight, truncated or zeroed. */
function appliedToRow(weight: number, { lower, upper }: Weighting): number {
  if (lower === undefined) return Math.min(weight, upper);
  return weight >= lower && weight <= upper ? weight : 0;
}

/** What counts as a low weight. */
function lowerBound({ lower, upper }: Weighting): number {
  return lower ?? 1 / upper;
}

/**
 * Statistics of the weights.
 *
 * @param tables of `weightChannels`, and of the log ratio
 * @param keptOfRows how many tokens of a row are not rejected
 * @param steps where every row is one step: tables are totals of `weightChannels` of tokens, whatever the level
 */
export function weightResult(
  tables: { readonly logRatio: MomentsTable } & Partial<WeightTables & BoundTables>,
  weighting: Weighting,
  keptOfRows: ArrayLike<number>,
  semantics: Semantics,
  steps: Steps | undefined,
): WeightResult {
  const isRaw = measuresRaw(weighting, semantics);
  const weights =
    weighting.level === 'token' || steps !== undefined
      ? tokenWeights(tables as WeightTables & BoundTables, isRaw, keptOfRows, semantics)
      : sequenceWeights(tables.logRatio, weighting, keptOfRows, semantics);
  const isOfSteps = weighting.level === 'sequence' && steps !== undefined;
  const measured = isRaw ? weights.raw : weights.applied;
  const bounded = new Moments((isRaw ? weights.clipped! : weights.applied).total());
  const { mean, notFinite } = weights;
  const leastMean = semantics === 'recommended' ? 0 : VERL_LEAST_MEAN;
  const factor = mean > leastMean ? mean : 1;
  return {
    metrics: {
      rollout_is_mean: new Moments(measured.total()).mean,
      ...weights.metrics,
      rollout_is_std: bounded.std(0),
      rollout_is_eff_sample_size: effectiveSampleSize(bounded, semantics),
      ...(isOfSteps && sequenceMetricsOfSteps(tables as StepTables, weighting, steps)),
      ...(steps === undefined
        ? rowMetrics(measured, weights.raw, weighting, semantics)
        : rowMetricsOfSteps(measured, tables as StepTables, steps)),
      ...(weighting.lower !== undefined && { rollout_is_oob_ratio: weights.outside }),
      ...(weighting.batchNormalize && {
        // Without a mean there is nothing to divide by, which the presets report as dividing by 1.
        rollout_is_batch_norm_factor: semantics === 'recommended' && Number.isNaN(mean) ? NaN : factor,
        ...(notFinite > 0 && { rollout_is_nonfinite: notFinite }),
      }),
    },
    decision: { ...weighting, factor: weighting.batchNormalize ? factor : 1, ofRows: weights.ofRows },
  };
}

/** Weights of either level. */
interface Weights extends WeightTables {
  /** Extremes, and shares beyond the bounds. */
  readonly metrics: Metrics;
  /** Share of tokens whose weight is outside of the bounds. */
  readonly outside: number;
  /**
   * Mean to normalise by: of the finite applied weights that are not rejected, of which a row has one if it has one for
   * all its tokens. In verl of all of them.
   */
  readonly mean: number;
  /** Weights of selected tokens, or rows, that are NaN or infinite. */
  readonly notFinite: number;
  readonly ofRows: Float64Array | undefined;
}

function tokenWeights(
  tables: WeightTables & BoundTables,
  isRaw: boolean,
  keptOfRows: ArrayLike<number>,
  semantics: Semantics,
): Weights {
  const { max, min } = new Moments((isRaw ? tables.raw : tables.applied).total());
  const isUnknown = semantics === 'recommended' && tables.raw.total().nan > 0;
  const [high, low] = isUnknown ? [NaN, NaN] : [meanOf(tables.high), meanOf(tables.low)];
  return {
    ...tables,
    metrics: {
      rollout_is_ratio_fraction_high: high,
      rollout_is_ratio_fraction_low: low,
      rollout_is_max: max,
      rollout_is_min: min,
    },
    outside: high + low,
    mean: semantics === 'recommended' ? keptMean(tables, keptOfRows) : meanOf(tables.applied),
    notFinite: notFiniteOf(tables.applied.total()),
    ofRows: undefined,
  };
}

/** A row's weight is the product of its tokens'. */
function sequenceWeights(
  logRatio: MomentsTable,
  weighting: Weighting,
  keptOfRows: ArrayLike<number>,
  semantics: Semantics,
): Weights {
  const { upper } = weighting;
  const lower = lowerBound(weighting);
  const { count, sum } = RowMoments.fromTable(logRatio);
  const raw = sum.map((log) => Math.exp(held(log)));
  const ofRows = raw.map((weight) => appliedToRow(weight, weighting));
  const applied = spread(ofRows, logRatio);
  const logs = rowValues(logRatio, semantics, 'sum');
  const isRecommended = semantics === 'recommended';
  const hasTokens = (_weight: number, row: number): boolean => count[row]! > 0;
  const isFiniteAndKept = (weight: number, row: number): boolean =>
    Number.isFinite(weight) && keptOfRows[row]! > 0;
  return {
    raw: spread(raw, logRatio),
    applied,
    clipped: spread(
      raw.map((weight) => Math.min(Math.max(weight, 1 / upper), upper)),
      logRatio,
    ),
    metrics: {
      ...extremesOfSequences(momentsOf(logs), semantics),
      rollout_is_ratio_fraction_high: knownFraction(logs, semantics, (log) => log > Math.log(upper)),
      rollout_is_ratio_fraction_low: knownFraction(logs, semantics, (log) => log < Math.log(lower)),
    },
    outside: meanOf(
      spread(
        raw.map((weight) =>
          isRecommended && Number.isNaN(weight) ? NaN : Number(weight < lower || weight > upper),
        ),
        logRatio,
      ),
    ),
    mean: momentsOf(isRecommended ? ofRows.filter(isFiniteAndKept) : ofRows.filter(hasTokens)).mean,
    notFinite: notFiniteOf(momentsOf(ofRows.filter(hasTokens))),
    ofRows,
  };
}

type StepTables = { readonly logRatio: MomentsTable } & WeightTables & BoundTables;

/** What sequences of one step have other than tokens: extremes before truncation, and shares of rows. */
function sequenceMetricsOfSteps(tables: StepTables, weighting: Weighting, steps: Steps): Metrics {
  return {
    ...extremesOfSequences(stepMoments(tables.logRatio, steps), steps.semantics),
    rollout_is_ratio_fraction_high: shareOfSteps(tables, 'high', steps, 1 > weighting.upper),
    rollout_is_ratio_fraction_low: shareOfSteps(tables, 'low', steps, 1 < lowerBound(weighting)),
  };
}

/** Share of rows of one step beyond a bound. */
function shareOfSteps(
  tables: StepTables,
  side: keyof BoundTables,
  steps: Steps,
  areEmptyBeyond: boolean,
): number {
  if (steps.semantics === 'recommended' && tables.raw.total().nan > 0) return NaN;
  return stepMoments(tables[side], steps, Number(areEmptyBeyond)).mean;
}

/** Of the weights before they are truncated; verl does not hold the smaller end, which leaves the range of float32. */
function extremesOfSequences({ max, min }: Moments, semantics: Semantics): Metrics {
  const isRecommended = semantics === 'recommended';
  return {
    rollout_is_max: Math.exp(isRecommended ? held(max) : Math.min(max, LOG_RATIO_LIMIT)),
    rollout_is_min: Math.exp(isRecommended ? held(min) : min),
  };
}

/** Mean of the finite applied weights of tokens that are not rejected; NaN if there are none. */
function keptMean({ applied, normalised }: WeightTables, keptOfRows: ArrayLike<number>): number {
  let [sum, count] = [0, 0];
  for (let i = 0; i < applied.length; i++) {
    const kept = keptOfRows[i]!;
    if (kept === 0) continue;
    // A criterion on tokens rejects those whose weight is not finite.
    const row = (normalised ?? applied).row(i);
    sum += row.sum;
    count += normalised === undefined ? row.count - notFiniteOf(row) : kept;
  }
  return sum / count;
}

function notFiniteOf({ nan, posInf, negInf }: Pick<MomentsRow, 'nan' | 'posInf' | 'negInf'>): number {
  return nan + posInf + negInf;
}

/** Statistics of the mean weight of a row. */
function rowMetrics(
  measured: MomentsTable,
  raw: MomentsTable,
  weighting: Weighting,
  semantics: Semantics,
): Metrics {
  const means = rowValues(measured, semantics, 'mean');
  const rows = momentsOf(means);
  // Truncated weights never exceed the bound, nor does their mean.
  const rawMeans = rowValues(raw, semantics, 'mean');
  const lower = lowerBound(weighting);
  return {
    rollout_is_seq_mean: rows.mean,
    rollout_is_seq_std: rowStd(rows, semantics),
    rollout_is_seq_max: rows.max,
    rollout_is_seq_min: rows.min,
    rollout_is_seq_max_deviation: momentsOf(means.map((mean) => Math.abs(mean - 1))).max,
    rollout_is_seq_fraction_high: knownFraction(rawMeans, semantics, (mean) => mean > weighting.upper),
    rollout_is_seq_fraction_low: knownFraction(rawMeans, semantics, (mean) => mean < lower),
  };
}

/** The same of rows of one step, whose mean weight is the step's. A row without one has the weight 0 in the presets. */
function rowMetricsOfSteps(measured: MomentsTable, tables: StepTables, steps: Steps): Metrics {
  const rows = stepMoments(measured, steps);
  return {
    rollout_is_seq_mean: rows.mean,
    rollout_is_seq_std: rowStd(rows, steps.semantics),
    rollout_is_seq_max: rows.max,
    rollout_is_seq_min: rows.min,
    rollout_is_seq_max_deviation: largestDeviation(rows, 1),
    rollout_is_seq_fraction_high: shareOfSteps(tables, 'high', steps, false),
    rollout_is_seq_fraction_low: shareOfSteps(tables, 'low', steps, true),
  };
}

/** (Σw)² / (n Σw²): the share of independent equal samples that would tell as much. NaN if all weights are 0. */
function effectiveSampleSize(weights: Moments, semantics: Semantics): number {
  const { mean } = weights;
  const meanSquare = mean * mean + weights.variance(0);
  if (meanSquare === 0) return NaN;
  return (semantics === 'recommended' ? mean * mean : (mean + ESS_EPSILON) ** 2) / meanSquare;
}

function meanOf(table: MomentsTable): number {
  return new Moments(table.total()).mean;
}
