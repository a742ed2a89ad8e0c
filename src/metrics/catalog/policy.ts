/** Catalogue: what an update did to the policy, how noisy its gradient is, and what groups of rows teach. */
import { klEstimatorNames } from '../policy/kl.js';
import {
  ANY,
  AT_LEAST_0,
  type CatalogEntry,
  type FamilyEntry,
  NO_TOKEN,
  SHARE,
  meanMaxMinEntries,
  ofFamily,
} from './entry.js';

const TOKENS = 'tokens of response_mask';
const ROWS = 'rows with a token of response_mask';
const CORE = 'verl, trainer/ppo/core_algos.py';

/** A mean over tokens. */
function ofTokens(
  key: string,
  what: Pick<FamilyEntry, 'unit' | 'range' | 'formula' | 'source' | 'reduction' | 'undefinedWhen'>,
): FamilyEntry {
  return { key, population: TOKENS, undefinedWhen: NO_TOKEN, ...what };
}

/** What a loss adds to `ofTokens`. */
const AGGREGATED = {
  reduction: 'lossAggMode',
  undefinedWhen: 'no token is selected (token-sum gives 0), or a NaN is among them',
} as const;

const CLIPPED = { unit: '1', reduction: 'fraction', range: SHARE } as const;
const VANILLA = `${CORE}, compute_policy_loss_vanilla`;
const VALUE_LOSS = `${CORE}, compute_value_loss`;

const policy: readonly FamilyEntry[] = [
  ofTokens('actor/ppo_kl', {
    unit: 'nats',
    reduction: 'mean',
    range: ANY,
    formula: '−d, with d = log_probs − old_log_probs',
    source: VANILLA,
  }),
  ofTokens('actor/pg_loss', {
    unit: 'loss',
    ...AGGREGATED,
    range: ANY,
    formula:
      'max(−A·r, −A·clip(r, 1 − ε_low, 1 + ε_high)), where A < 0 at most −A·c; times rollout_is_weights; r = e^d with d at most 20',
    source: VANILLA,
  }),
  ofTokens('actor/pg_clipfrac', {
    ...CLIPPED,
    formula: 'clipping binds: −A·clip(r, 1 − ε_low, 1 + ε_high) > −A·r',
    source: VANILLA,
  }),
  ofTokens('actor/pg_clipfrac_lower', {
    ...CLIPPED,
    formula: 'the dual clip binds: A < 0 and max(−A·r, −A·clip(r, …)) > −A·c',
    source: VANILLA,
  }),
  ofTokens('actor/entropy', {
    unit: 'nats',
    ...AGGREGATED,
    range: AT_LEAST_0,
    formula: 'entropys',
    source: 'verl, workers/actor/dp_actor.py',
  }),
  ofTokens('actor/kl_loss', {
    unit: 'nats',
    ...AGGREGATED,
    range: ANY,
    formula: 'klPenalty(log_probs, ref_log_prob, klLossType); by default k3, which is at least 0',
    source: `${CORE}, kl_penalty`,
  }),
  {
    key: 'actor/reward_kl_penalty',
    unit: 'nats',
    population: ROWS,
    reduction: 'mean',
    range: ANY,
    formula: "mean over the row's tokens of klPenalty(old_log_probs, ref_log_prob, klPenalty)",
    undefinedWhen: NO_TOKEN,
    source: 'verl, trainer/ppo/ray_trainer.py, apply_kl_penalty',
  },
  ofTokens('critic/vpred_mean', {
    unit: 'reward',
    reduction: 'mean',
    range: ANY,
    formula: 'vpreds',
    source: 'verl, workers/critic/dp_critic.py',
  }),
  ofTokens('critic/vf_loss', {
    unit: 'reward²',
    ...AGGREGATED,
    range: AT_LEAST_0,
    formula: '½·max((vpreds − returns)², (clip(vpreds, values ± cliprangeValue) − returns)²)',
    source: VALUE_LOSS,
  }),
  ofTokens('critic/vf_clipfrac', {
    ...CLIPPED,
    formula: 'the clipped error is the larger one',
    source: VALUE_LOSS,
  }),
];

const KL_FORMULAS = {
  k1: 'd = log_probs − ref_log_prob',
  abs: '|d|',
  k2: 'd² / 2',
  k3: 'e^−d + d − 1, with d clamped to ±20, at most 10',
} as const;

const kl: readonly FamilyEntry[] = klEstimatorNames.flatMap((name) => {
  const range = { k1: ANY, abs: AT_LEAST_0, k2: AT_LEAST_0, k3: { low: 0, high: 10 } }[name];
  const shared = { unit: 'nats', reduction: 'mean', range, undefinedWhen: NO_TOKEN } as const;
  const formula = KL_FORMULAS[name];
  return [
    { key: `${name}/mean`, population: TOKENS, formula, ...shared },
    {
      key: `${name}/seq_mean`,
      population: ROWS,
      formula: `mean over the row's tokens of ${formula}`,
      ...shared,
    },
  ];
});

const COMPARABLE = `${TOKENS}; without one of the response part of attention_mask, else all`;

/** A difference of probabilities over the tokens. */
function ofProbabilities(statistic: 'max' | 'mean' | 'std', undefinedWhen: string = NO_TOKEN): FamilyEntry {
  return {
    key: `training/rollout_probs_diff_${statistic}`,
    unit: '1',
    population: COMPARABLE,
    reduction: statistic,
    range: SHARE,
    formula: `${statistic === 'std' ? 'unbiased std of ' : ''}|exp(old_log_probs) − exp(rollout_log_probs)|`,
    undefinedWhen,
  };
}

const debug: readonly FamilyEntry[] = [
  {
    key: 'training/rollout_probs_diff_valid',
    unit: '1',
    population: COMPARABLE,
    reduction: 'indicator',
    range: { ...SHARE, isWhole: true },
    formula: '1 if a token is selected, else 0',
  },
  ofProbabilities('max'),
  ofProbabilities('mean'),
  ofProbabilities('std', 'there are fewer than two tokens, or a NaN is among them'),
  {
    key: 'training/rollout_actor_probs_pearson_corr',
    unit: '1',
    population: COMPARABLE,
    reduction: 'correlation',
    range: { low: -1, high: 1 },
    formula: 'Pearson correlation of exp(old_log_probs) and exp(rollout_log_probs)',
    undefinedWhen:
      'there are fewer than two tokens, a NaN is among them, one side does not vary, or all of its probabilities are below e^-290 (webgpu) or e^-570',
  },
];

/** A variance proxy, a mean over rows unless it says otherwise. */
function proxy(key: string, what: Pick<FamilyEntry, 'unit' | 'formula'> & Partial<FamilyEntry>): FamilyEntry {
  return {
    key: `variance_proxy/${key}`,
    population: ROWS,
    reduction: 'mean',
    range: AT_LEAST_0,
    undefinedWhen: NO_TOKEN,
    ...what,
  };
}

const varianceProxy: readonly FamilyEntry[] = [
  proxy('proxy1_signal_strength', {
    unit: 'gradient²',
    population: 'the step',
    reduction: 'sum',
    formula: 'gradientNorm², of the gradient before clipping',
    undefinedWhen: 'gradientNorm is left out, or NaN',
  }),
  proxy('proxy2_total_power', {
    unit: 'reward²',
    formula: 'ρ²·A²·Σw: A and ρ the mean advantage and weight of the row, w = max(1 − 2π + Σπ², (1 − π)²)',
  }),
  proxy('proxy3_pure_noise', {
    unit: 'reward²',
    reduction: 'difference',
    formula: 'max((proxy2 − proxy1) / (rows − 1), 0)',
    undefinedWhen: `gradientNorm is left out, there are fewer than two rows, or ${NO_TOKEN}`,
  }),
  proxy('expected_a_squared', { unit: 'reward²', formula: 'A², with A the mean advantage of the row' }),
  proxy('expected_w', {
    unit: '1',
    // Where Σπ² < π², which rounding is enough for.
    presetRange: ANY,
    formula: 'Σw over the tokens of the row; with rollout_is_weights ρ, Σw·ρ²',
  }),
];

const GROUPS = 'groups with a row that has a response token';
const COMPARED = 'groups of two such rows or more';
const NO_GROUP = 'no row has a response token';
const UNCOMPARED = 'no group has two rows, or a NaN is among the tokens';

const groups: readonly FamilyEntry[] = [
  {
    key: 'group/count',
    unit: '1',
    population: GROUPS,
    reduction: 'count',
    range: { low: 0, isWhole: true },
    formula: 'how many there are',
  },
  {
    key: 'group/singleton_count',
    unit: '1',
    population: GROUPS,
    reduction: 'count',
    range: { low: 0, isWhole: true },
    formula: 'groups of one such row, which all shares of groups leave out',
  },
  ...meanMaxMinEntries({
    key: 'group/size',
    unit: 'rows',
    population: GROUPS,
    range: { low: 1, isWhole: true },
    formula: 'rows of the group that have a response token',
    undefinedWhen: NO_GROUP,
  }),
  ...meanMaxMinEntries({
    key: 'group/reward_mean',
    unit: 'reward',
    population: GROUPS,
    range: ANY,
    formula: "mean over the group's rows of Σ token_level_rewards",
    undefinedWhen: `${NO_GROUP}, or a NaN is among the tokens`,
  }),
  ...meanMaxMinEntries({
    key: 'group/reward_std',
    unit: 'reward',
    population: COMPARED,
    range: AT_LEAST_0,
    formula: "unbiased std over the group's rows of Σ token_level_rewards",
    undefinedWhen: UNCOMPARED,
  }),
  {
    key: 'group/zero_std_ratio',
    unit: '1',
    population: COMPARED,
    reduction: 'fraction',
    range: SHARE,
    formula: 'all rewards are equal but for float32 rounding: apart by at most 2⁻²¹·Σ|r| of a row',
    undefinedWhen: UNCOMPARED,
    source: 'tensortally; TRL reports it as frac_reward_zero_std',
  },
  ...(['right', 'wrong'] as const).map((verdict) => ({
    key: `group/all_${verdict}_ratio`,
    unit: '1',
    population: COMPARED,
    reduction: 'fraction' as const,
    range: SHARE,
    formula: `all rows have Σ token_level_scores ${verdict === 'right' ? '>' : '≤'} rightAbove`,
    undefinedWhen: UNCOMPARED,
  })),
];

const METRIC_UTILS = 'verl, trainer/ppo/metric_utils.py';

export const policyEntries: readonly CatalogEntry[] = [
  ...ofFamily('varianceProxy', `${METRIC_UTILS}, compute_variance_proxy_metrics`, varianceProxy),
  ...ofFamily('debug', 'verl, utils/debug/metrics.py, calculate_debug_metrics', debug),
  ...ofFamily('policy', CORE, policy),
  ...ofFamily('kl', `tensortally; the estimators: ${CORE}, kl_penalty`, kl),
  ...ofFamily('groups', 'tensortally', groups),
];
