/** How far the policy that is trained is from the one that sampled: perplexities, KL and χ² estimates. */
import { abs, add, exp, expm1, input, multiply, negate, subtract } from '../../kernels/expression.js';
import type { MaskedExpression } from '../../kernels/moments/pass.js';
import { Moments, type MomentsTable } from '../../rows/index.js';
import { type Steps, stepMoments } from '../batch/steps.js';
import { type Metrics, momentsOf } from '../numbers/statistics.js';
import type { PlanTables } from '../plan.js';
import type { Semantics } from '../semantics.js';
import { cutLogRatio, held, heldLogRatio, logRatio, rowValues } from './rows.js';

type OffPolicyChannel = 'old' | 'rollout' | 'logRatio' | 'k3Kl' | 'chi2';

/** What else is computed of every step where every row is one: what rows are described by, of which no record is kept then. */
type StepChannel = 'trainingPpl' | 'rolloutPpl' | 'pplRatio' | 'distance';

export type OffPolicyTables = PlanTables<OffPolicyChannel> & Partial<PlanTables<StepChannel>>;

/** What the metrics ask of the tokens of the response mask. */
export function offPolicyChannels(semantics: Semantics): Record<OffPolicyChannel, MaskedExpression> {
  const mask = 'response';
  // verl does not cut the log ratio here, so that one token can make k3 infinite. Only above 0 can it overflow.
  const x = semantics === 'recommended' ? cutLogRatio : logRatio;
  const excess = expm1(heldLogRatio);
  return {
    old: { of: input('oldLogProbs'), mask },
    rollout: { of: input('rolloutLogProbs'), mask },
    logRatio: { of: logRatio, mask },
    k3Kl: { of: subtract(expm1(x), x), mask },
    // ρ² − 1, whose mean is small wherever the policies are close; from ρ − 1, which k3 has already
    chi2: { of: multiply(excess, add(excess, 2)), mask },
  };
}

/** What the metrics ask of the steps where every row is one, beside `offPolicyChannels`. */
export function offPolicyStepChannels(): Record<StepChannel, MaskedExpression> {
  const mask = 'response';
  return {
    trainingPpl: { of: exp(negate(input('oldLogProbs'))), mask },
    rolloutPpl: { of: exp(negate(input('rolloutLogProbs'))), mask },
    pplRatio: { of: exp(negate(logRatio)), mask },
    distance: { of: abs(logRatio), mask },
  };
}

/**
 * The metrics, without the prefix `rollout_corr/`.
 *
 * @param steps where every row is one step
 */
export function offPolicyMetrics(
  tables: OffPolicyTables,
  semantics: Semantics,
  steps: Steps | undefined,
): Metrics {
  return {
    kl: opposite(new Moments(tables.logRatio.total()).mean),
    k3_kl: new Moments(tables.k3Kl.total()).mean,
    chi2_token: new Moments(tables.chi2.total()).mean,
    ...(steps === undefined ? metricsOfRows(tables, semantics) : metricsOfSteps(tables, steps)),
  };
}

/** Means over rows, of the mean log-probability of a row. */
function metricsOfRows(tables: OffPolicyTables, semantics: Semantics): Metrics {
  const trainingLogPpl = rowValues(tables.old, semantics, 'mean').map(opposite);
  const rolloutLogPpl = rowValues(tables.rollout, semantics, 'mean').map(opposite);
  const difference = rowValues(tables.logRatio, semantics, 'mean').map(opposite);
  const sums = rowValues(tables.logRatio, semantics, 'sum');
  const differences = momentsOf(difference);
  return {
    training_ppl: meanOf(trainingLogPpl, Math.exp),
    training_log_ppl: meanOf(trainingLogPpl),
    rollout_ppl: meanOf(rolloutLogPpl, Math.exp),
    rollout_log_ppl: meanOf(rolloutLogPpl),
    log_ppl_diff: differences.mean,
    log_ppl_abs_diff: meanOf(difference, Math.abs),
    log_ppl_diff_max: differences.max,
    log_ppl_diff_min: differences.min,
    ppl_ratio: meanOf(difference, Math.exp),
    chi2_seq: meanOf(sums, (sum) => Math.expm1(2 * held(sum))),
  };
}

/** The same of rows of one step, whose mean and sum are the step. */
function metricsOfSteps(tables: OffPolicyTables, steps: Steps): Metrics {
  // The log-probability of a row without a step is 0 in the presets.
  const x = stepMoments(tables.logRatio, steps);
  const mean = (table: MomentsTable, ofEmpty = 0): number => stepMoments(table, steps, ofEmpty).mean;
  return {
    training_ppl: mean(tables.trainingPpl!, 1),
    training_log_ppl: opposite(mean(tables.old)),
    rollout_ppl: mean(tables.rolloutPpl!, 1),
    rollout_log_ppl: opposite(mean(tables.rollout)),
    log_ppl_diff: opposite(x.mean),
    log_ppl_abs_diff: mean(tables.distance!),
    log_ppl_diff_max: opposite(x.min),
    log_ppl_diff_min: opposite(x.max),
    ppl_ratio: mean(tables.pplRatio!, 1),
    chi2_seq: mean(tables.chi2),
  };
}

/** −x, and 0 of 0: a metric that is −0 would be logged as such. */
function opposite(x: number): number {
  return 0 - x;
}

function meanOf(values: Float64Array, of: (value: number) => number = (value) => value): number {
  return momentsOf(values.map(of)).mean;
}
