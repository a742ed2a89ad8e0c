/** Rejection: which tokens and rows are too far from the policy that sampled them, and statistics of how far. */
import {
  type Expression,
  clamp,
  expm1,
  greater,
  less,
  min,
  multiply,
  negate,
  square,
  subtract,
} from '../../kernels/expression.js';
import { RowMoments } from '../../kernels/index.js';
import type { MaskedExpression } from '../../kernels/moments/pass.js';
import { Moments, type MomentsTable } from '../../rows/index.js';
import type { Steps } from '../batch/steps.js';
import { knownFraction } from '../numbers/comparisons.js';
import { type Metrics, momentsOf, total } from '../numbers/statistics.js';
import type { Semantics } from '../semantics.js';
import { type Interval, intersection, isIn, keptBy } from './interval.js';
import type { Estimator, Rejection } from './options.js';
import { countsRow, cutLogRatio, heldLogRatio, largestDeviation, logRatio, rowStd, spread } from './rows.js';

/** The mask to make on the device. */
export interface RejectionDecision {
  /** Where the log ratio of kept tokens is; undefined if no criterion looks at tokens. */
  readonly tokens: Interval | undefined;
  /** 1 for every row that is kept, else 0; undefined if no criterion looks at rows. */
  readonly rows: Float64Array | undefined;
}

export interface RejectionResult {
  /** Without the prefix `rollout_corr/`. */
  readonly metrics: Metrics;
  readonly decision: RejectionDecision;
  /** Tokens that all criteria keep, per row. */
  readonly kept: Float64Array;
}

type Tables = Readonly<Record<string, MomentsTable>>;

/** The estimators of x; verl's are all of x clamped to ±20, where an exponential alone needs it, and only above. */
function estimatorsOf(semantics: Semantics): Readonly<Record<Estimator, Expression>> {
  const isRecommended = semantics === 'recommended';
  const x = isRecommended ? logRatio : heldLogRatio;
  const exponent = isRecommended ? cutLogRatio : heldLogRatio;
  return {
    k1: negate(x),
    k2: multiply(0.5, square(x)),
    k3: subtract(expm1(exponent), exponent),
  };
}

/** The channel of tokens that all criteria on tokens keep. */
const KEPT = 'kept';

/** What the criteria ask of the tokens of the response mask. */
export function rejectionChannels(
  rejections: readonly Rejection[],
  semantics: Semantics,
): Record<string, MaskedExpression> {
  const mask = 'response';
  const estimators = estimatorsOf(semantics);
  const x = semantics === 'recommended' ? logRatio : heldLogRatio;
  const channels: Record<string, MaskedExpression> = {};
  for (const rejection of rejections) {
    const { name, aggregate, estimator, lower, upper } = rejection;
    const value = estimators[estimator];
    channels[estimator] = { of: value, mask };
    if (aggregate !== 'token') continue;
    const isBounded = lower > -Infinity;
    channels[`${name} clipped`] = { of: isBounded ? clamp(value, lower, upper) : min(value, upper), mask };
    if (estimator === 'k1') {
      // In terms of x, as importance weights are.
      channels[`${name} high`] = { of: less(x, -upper), mask };
      channels[`${name} low`] = { of: greater(x, -lower), mask };
    } else channels[`${name} kept`] = { of: isIn(keptBy(rejection, semantics)), mask };
  }
  const onTokens = rejections.filter(({ aggregate }) => aggregate === 'token');
  // A criterion alone knows itself what it keeps.
  if (onTokens.length > 1) channels[KEPT] = { of: isIn(keptTokens(rejections, semantics)!), mask };
  return channels;
}

/** What all criteria on tokens keep; undefined without any. */
export function keptTokens(rejections: readonly Rejection[], semantics: Semantics): Interval | undefined {
  const onTokens = rejections.filter(({ aggregate }) => aggregate === 'token');
  return intersection(onTokens.map((rejection) => keptBy(rejection, semantics)));
}

/** What criteria decide that look at tokens alone; undefined where one looks at rows, which are decided by their sums. */
export function decisionOnTokens(
  rejections: readonly Rejection[],
  semantics: Semantics,
): RejectionDecision | undefined {
  const areAllOnTokens = rejections.every(({ aggregate }) => aggregate === 'token');
  return areAllOnTokens ? { tokens: keptTokens(rejections, semantics), rows: undefined } : undefined;
}

/**
 * Statistics of the criteria, and what they keep together.
 *
 * @param tables of `rejectionChannels`
 * @param logRatio tells which rows have how many tokens
 * @param steps where every row is one step: tables are totals, and all criteria on tokens
 */
export function rejectionResult(
  tables: Tables,
  logRatio: MomentsTable,
  rejections: readonly Rejection[],
  semantics: Semantics,
  steps: Steps | undefined,
): RejectionResult {
  const counts = RowMoments.fromTable(logRatio).count;
  const criteria = rejections.map((rejection) => criterionOf(tables, rejection, counts, semantics, steps));
  const tokens = keptTokens(rejections, semantics);
  const onRows = criteria.filter((_, i) => rejections[i]!.aggregate !== 'token');
  const rows =
    onRows.length === 0
      ? undefined
      : counts.map((_, row) => Number(onRows.every(({ kept }) => kept[row] === counts[row])));
  const [ofTokens] = criteria.filter((_, i) => rejections[i]!.aggregate === 'token');
  const joint = tables[KEPT];
  const keptOfTokens = joint === undefined ? (ofTokens?.kept ?? counts) : sumsOf(joint);
  const kept = rows === undefined ? keptOfTokens : keptOfTokens.map((n, row) => n * rows[row]!);
  const [masked, rowsThatCount] =
    steps === undefined
      ? [maskedRows(kept, counts), counts.filter((count) => countsRow(semantics, count)).length]
      : [total(counts) - total(kept), semantics === 'recommended' ? total(counts) : steps.rows];
  return {
    metrics: {
      ...Object.assign({}, ...criteria.map((criterion) => criterionMetrics(criterion, counts, semantics))),
      rollout_rs_masked_fraction: maskedFraction(kept, counts),
      rollout_rs_seq_masked_fraction: masked / rowsThatCount,
    } as Metrics,
    decision: { tokens, rows },
    kept,
  };
}

/** What one criterion finds. */
interface Criterion {
  readonly rejection: Rejection;
  /** Over tokens, of which those of a row share its value if the criterion is on rows. */
  readonly statistic: Moments;
  /** The same, clamped to the bounds. */
  readonly clipped: Moments;
  /** Over the rows that have a token. */
  readonly rows: RowStatistics;
  /** Shares of tokens, or of rows if the criterion is on rows, beyond the bounds. */
  readonly high: number;
  readonly low: number;
  /** Tokens that are kept, per row. */
  readonly kept: Float64Array;
}

/** One number per row, and what is lost of rows. */
interface RowStatistics {
  readonly moments: Moments;
  /** The largest magnitude. */
  readonly largest: number;
  /** Shares beyond the bounds. */
  readonly high: number;
  readonly low: number;
  /** Share of rows that lose a token. */
  readonly masked: number;
}

function rowStatistics(
  values: Float64Array,
  { lower, upper }: Rejection,
  kept: Float64Array,
  counts: Float64Array,
  semantics: Semantics,
): RowStatistics {
  return {
    moments: momentsOf(values),
    largest: momentsOf(values.map(Math.abs)).max,
    high: knownFraction(values, semantics, (value) => value > upper),
    low: knownFraction(values, semantics, (value) => value < lower),
    masked: maskedRows(kept, counts) / values.length,
  };
}

function criterionOf(
  tables: Tables,
  rejection: Rejection,
  counts: Float64Array,
  semantics: Semantics,
  steps: Steps | undefined,
): Criterion {
  return rejection.aggregate === 'token'
    ? tokenCriterion(tables, rejection, counts, semantics, steps !== undefined)
    : rowCriterion(tables, rejection, counts, semantics);
}

function tokenCriterion(
  tables: Tables,
  rejection: Rejection,
  counts: Float64Array,
  semantics: Semantics,
  areSteps: boolean,
): Criterion {
  const { name } = rejection;
  const table = tables[rejection.estimator]!;
  const statistic = new Moments(table.total());
  const [highTable, lowTable] = [tables[`${name} high`], tables[`${name} low`]];
  // What is kept is no number that is beyond a bound, and no NaN.
  const beyond = highTable && sumsOf(highTable);
  const below = lowTable && sumsOf(lowTable);
  const { nan, mean } = RowMoments.fromTable(table);
  const kept =
    beyond === undefined || below === undefined
      ? sumsOf(tables[`${name} kept`]!)
      : counts.map((n, row) => n - beyond[row]! - below[row]! - nan[row]!);
  const tokensBelow = below === undefined ? 0 : total(below);
  const tokensBeyond = statistic.count - total(kept) - tokensBelow - statistic.nan;
  const isUnknown = semantics === 'recommended' && statistic.nan > 0;
  const high = isUnknown ? NaN : tokensBeyond / statistic.count;
  const low = isUnknown ? NaN : tokensBelow / statistic.count;
  const valuesOfRows = (): Float64Array => mean.filter((_, row) => counts[row]! > 0);
  return {
    rejection,
    statistic,
    clipped: new Moments(tables[`${name} clipped`]!.total()),
    rows: areSteps
      ? {
          moments: statistic,
          largest: largestDeviation(statistic, 0),
          ...{ high, low },
          masked: maskedFraction(kept, counts),
        }
      : rowStatistics(valuesOfRows(), rejection, kept, counts, semantics),
    high,
    low,
    kept,
  };
}

function sumsOf(table: MomentsTable): Float64Array {
  return RowMoments.fromTable(table).sum;
}

function rowCriterion(
  tables: Tables,
  rejection: Rejection,
  counts: Float64Array,
  semantics: Semantics,
): Criterion {
  const { aggregate, lower, upper } = rejection;
  const table = tables[rejection.estimator]!;
  const ofRows = Float64Array.from(table, (row) => {
    const { sum, mean, max } = new Moments(row);
    return aggregate === 'seq_sum' ? sum : aggregate === 'seq_mean' ? mean : max;
  });
  const values = ofRows.filter((_, row) => counts[row]! > 0);
  const kept = counts.map((n, row) => (ofRows[row]! >= lower && ofRows[row]! <= upper ? n : 0));
  const rows = rowStatistics(values, rejection, kept, counts, semantics);
  return {
    rejection,
    statistic: new Moments(spread(ofRows, table).total()),
    clipped: new Moments(
      spread(
        ofRows.map((value) => Math.min(Math.max(value, lower), upper)),
        table,
      ).total(),
    ),
    rows,
    high: rows.high,
    low: rows.low,
    kept,
  };
}

function criterionMetrics(
  { rejection, statistic, clipped, rows, high, low, kept }: Criterion,
  counts: Float64Array,
  semantics: Semantics,
): Metrics {
  const prefix = `rollout_rs_${rejection.name}`;
  return {
    [`${prefix}_mean`]: statistic.mean,
    [`${prefix}_max`]: statistic.max,
    [`${prefix}_min`]: statistic.min,
    [`${prefix}_fraction_high`]: high,
    [`${prefix}_fraction_low`]: low,
    [`${prefix}_std`]: clipped.std(0),
    [`${prefix}_seq_mean`]: rows.moments.mean,
    [`${prefix}_seq_std`]: rowStd(rows.moments, semantics),
    [`${prefix}_seq_max`]: rows.moments.max,
    [`${prefix}_seq_min`]: rows.moments.min,
    [`${prefix}_seq_max_deviation`]: rows.largest,
    [`${prefix}_seq_fraction_high`]: rows.high,
    ...(rejection.lower > -Infinity && { [`${prefix}_seq_fraction_low`]: rows.low }),
    [`${prefix}_masked_fraction`]: maskedFraction(kept, counts),
    [`${prefix}_seq_masked_fraction`]: rows.masked,
  };
}

/** Share of the tokens that are not kept. */
function maskedFraction(kept: Float64Array, counts: Float64Array): number {
  return (total(counts) - total(kept)) / total(counts);
}

/** How many rows lose a token. */
function maskedRows(kept: Float64Array, counts: Float64Array): number {
  return counts.reduce((rows, count, row) => rows + Number(kept[row]! < count), 0);
}
