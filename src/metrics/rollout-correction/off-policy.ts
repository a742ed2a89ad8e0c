/** How far the policy that is trained is from the one that sampled: perplexities, KL and χ² estimates. */
import { add, expm1, input, multiply, subtract } from '../../kernels/expression.js';
import { Moments } from '../../kernels/index.js';
import type { MaskedExpression } from '../../kernels/moments/pass.js';
import type { PlanTables } from '../plan.js';
import { cutLogRatio, held, heldLogRatio, logRatio, rowValues } from './rows.js';
import type { Semantics } from '../semantics.js';
import { type Metrics, momentsOf } from '../statistics.js';

type OffPolicyChannel = 'old' | 'rollout' | 'logRatio' | 'k3Kl' | 'chi2';

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

/** The metrics, without the prefix `rollout_corr/`. */
export function offPolicyMetrics(tables: PlanTables<OffPolicyChannel>, semantics: Semantics): Metrics {
  const x = new Moments(tables.logRatio.total());
  const trainingLogPpl = rowValues(tables.old, semantics, 'mean').map(opposite);
  const rolloutLogPpl = rowValues(tables.rollout, semantics, 'mean').map(opposite);
  const difference = rowValues(tables.logRatio, semantics, 'mean').map(opposite);
  const sums = rowValues(tables.logRatio, semantics, 'sum');
  const differences = momentsOf(difference);
  return {
    training_ppl: meanOf(trainingLogPpl, Math.exp),
    training_log_ppl: meanOf(trainingLogPpl),
    kl: opposite(x.mean),
    k3_kl: new Moments(tables.k3Kl.total()).mean,
    rollout_ppl: meanOf(rolloutLogPpl, Math.exp),
    rollout_log_ppl: meanOf(rolloutLogPpl),
    log_ppl_diff: differences.mean,
    log_ppl_abs_diff: meanOf(difference, Math.abs),
    log_ppl_diff_max: differences.max,
    log_ppl_diff_min: differences.min,
    ppl_ratio: meanOf(difference, Math.exp),
    chi2_token: new Moments(tables.chi2.total()).mean,
    chi2_seq: meanOf(sums, (sum) => Math.expm1(2 * held(sum))),
  };
}

/** −x, and 0 of 0: a metric that is −0 would be logged as such. */
function opposite(x: number): number {
  return 0 - x;
}

function meanOf(values: Float64Array, of: (value: number) => number = (value) => value): number {
  return momentsOf(values.map(of)).mean;
}
