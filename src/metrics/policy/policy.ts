/** Policy metrics of an update: how far the policy moved, how often it was clipped, and its losses. */
import { assertOptions, kindOf } from '../../arguments.js';
import { MissingInputError, ValueError } from '../../errors.js';
import { input } from '../../kernels/expression.js';
import { Pending } from '../../kernels/index.js';
import {
  type ResponseField,
  type RolloutBatch,
  assertBatch,
  missingTensor,
  requireTensors,
} from '../batch/batch.js';
import { batchShape } from '../batch/response-windows.js';
import type { Metrics } from '../numbers/statistics.js';
import { type MissingInput, type PartialPlan, type Plan, runPlans } from '../plan.js';
import {
  type LossAggregation,
  type AggLossOptions,
  aggLossKinds,
  checkedAggregation,
  lossFrom,
  lossPlan,
} from './aggregation.js';
import { type KlEstimatorName, type KlPenalty, estimatorOf, klPenalty } from './kl.js';
import { type ClipRange, policyLoss, ppoKl, valueLoss } from './losses.js';
import {
  type RecordTables,
  type ResponsePart,
  meanPlan,
  recordMetricsOf,
  recordPlan,
  responsePart,
  sequenceMeanPlan,
} from './plans.js';

/** Options of `computePolicyMetrics`; the defaults are verl's. */
export interface PolicyMetricsOptions extends AggLossOptions {
  /** ε: the ratio π / π_old is clipped to [1 − clipRatioLow, 1 + clipRatioHigh], both ε by default. Default 0.2. */
  readonly clipRatio?: number | undefined;
  readonly clipRatioLow?: number | undefined;
  readonly clipRatioHigh?: number | undefined;
  /**
   * Bound on the ratio where the advantage is negative (dual clip), above 1; `null` or Infinity for none, as PPO has it.
   * Default 3, as verl has it: with it `actor/pg_loss` is not the loss of a trainer without dual clip.
   */
  readonly clipRatioC?: number | null | undefined;
  /**
   * The critic's predictions are clipped to ± this around those before the update; `null` or Infinity for a trainer that
   * does not clip them. Default 0.5, in the unit of the returns.
   */
  readonly cliprangeValue?: number | null | undefined;
  /** Estimator of `actor/kl_loss`. Default `'low_var_kl'`. */
  readonly klLossType?: KlPenalty | undefined;
  /** Whether the reward has a KL penalty: adds `actor/reward_kl_penalty`. Default false. */
  readonly useKlInReward?: boolean | undefined;
  /** Estimator of `actor/reward_kl_penalty`. Default `'kl'`. */
  readonly klPenalty?: KlPenalty | undefined;
}

const WHERE = 'computePolicyMetrics';

/**
 * What a PPO or GRPO update did, under verl's names. Each key is there if the batch has what it is made of:
 *
 * | key                                         | needs, beside response_mask                        |
 * | ------------------------------------------- | -------------------------------------------------- |
 * | `actor/ppo_kl`                              | log_probs, old_log_probs                           |
 * | `actor/pg_{loss,clipfrac,clipfrac_lower}`   | these and advantages; rollout_is_weights optional  |
 * | `actor/entropy`                             | entropys                                           |
 * | `actor/kl_loss`                             | log_probs, ref_log_prob                            |
 * | `actor/reward_kl_penalty`                   | old_log_probs, ref_log_prob, and `useKlInReward`   |
 * | `critic/vpred_mean`                         | vpreds                                             |
 * | `critic/vf_{loss,clipfrac}`                 | vpreds, values, returns                            |
 *
 * `ppo_kl` (nats, log π_old − log π), clip fractions (in [0, 1]) and `vpred_mean` are means over the tokens of
 * `response_mask`; the losses (of verl's loss mode `vanilla`), `entropy` and `kl_loss` (nats) are aggregated by
 * `lossAggMode`; `reward_kl_penalty` (nats) is the mean over rows of row means. The log-ratio log π − log π_old is cut
 * above 20 where it is exponentiated, and nowhere else; the verl presets hold it within ±20, also in `ppo_kl`. k3 is that
 * of `klPenalty`, which is part of the loss. All of them are over the whole batch, however the trainer splits it into
 * micro-batches. One read-back.
 *
 * A NaN among the tokens makes the clip fractions NaN as it makes the losses NaN; under the verl presets such a token is
 * one that was not clipped.
 *
 * @param batch the `[B, T]` tensors of the table, log_probs being those of the policy that is updated
 * @returns plain numbers; those of nothing are NaN (under the verl presets means and fractions of nothing are 0)
 * @throws MissingInputError if no key can be computed, without response_mask, and as `aggLoss`; ValueError for options
 *   outside their domain; ShapeError, DtypeError, DisposedTensorError, BackendError
 * @source verl, trainer/ppo/core_algos.py; workers/actor/dp_actor.py; workers/critic/dp_critic.py;
 *   trainer/ppo/ray_trainer.py
 * @example  const metrics = await computePolicyMetrics(batch, { clipRatioLow: 0.2, clipRatioHigh: 0.28 });
 */
export async function computePolicyMetrics(
  batch: RolloutBatch,
  options: PolicyMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => policyMetrics(batch, options));
}

/** The `Pending` behind `computePolicyMetrics`. */
export function policyMetrics(batch: RolloutBatch, options: PolicyMetricsOptions = {}): Pending<Metrics> {
  assertBatch(WHERE, batch);
  const { plan } = policyPlan(batch, options);
  // Asked for by name, so what it needs must be there.
  if (options.useKlInReward === true) requireTensors(WHERE, batch, REWARD_KL_FIELDS);
  if (Object.keys(plan.channels).length === 0) {
    throw new MissingInputError({
      where: WHERE,
      input: 'log_probs',
      expected: 'log_probs and old_log_probs, log_probs and ref_log_prob, entropys, or vpreds',
      received: 'none of these pairs and tensors',
      remedy: 'put what the update computed into the batch',
    });
  }
  return runPlans<[Metrics]>(WHERE, batchShape(batch), [plan]).map(([metrics]) => metrics);
}

const REWARD_KL_FIELDS = ['oldLogProbs', 'refLogProbs'] as const;

/**
 * What the metrics ask of the response part of a checked batch, to share a pass with others: all that its columns allow,
 * which may be nothing.
 *
 * @throws as `computePolicyMetrics`, but for keys that lack a column
 */
export function policyPlan(
  batch: RolloutBatch,
  options: PolicyMetricsOptions = {},
  where = WHERE,
  as = 'options',
): PartialPlan<Metrics> {
  const checked = checkedPolicyOptions(where, options, as);
  const response = responsePart(where, batch, {});
  const part = (...fields: readonly ResponseField[]): ResponsePart | undefined =>
    fields.every((field) => batch[field] !== undefined)
      ? { ...response, inputs: requireTensors(where, batch, fields) }
      : undefined;
  const plans: Record<string, Plan<number>> = {
    ...updatePlans(part, checked),
    ...klPlans(part, checked),
    ...criticPlans(part, checked),
  };
  return {
    plan: recordPlan(plans, (tables) => policyMetricsOf(tables, response.cols, options, where)),
    missing: missingPartners(where, batch, checked),
  };
}

/** Columns without which others have been put into the batch in vain. */
function missingPartners(
  where: string,
  batch: RolloutBatch,
  { klPenaltyKind }: CheckedPolicyOptions,
): MissingInput[] {
  const { logProbs, oldLogProbs, valuePredictions } = batch;
  const partners: readonly (readonly [boolean, readonly ResponseField[], string])[] = [
    [logProbs !== undefined, ['oldLogProbs'], 'actor/ppo_kl, actor/pg_*'],
    [logProbs !== undefined && oldLogProbs !== undefined, ['advantages'], 'actor/pg_*'],
    [valuePredictions !== undefined, ['values', 'returns'], 'critic/vf_*'],
    [klPenaltyKind !== undefined, REWARD_KL_FIELDS, 'actor/reward_kl_penalty'],
  ];
  return partners.flatMap(([isAsked, fields, keys]) =>
    (isAsked ? fields : []).flatMap((field) => {
      const error = missingTensor(where, batch, field);
      return error === undefined ? [] : [{ error, keys }];
    }),
  );
}

/** The metrics of rows of batches of `cols` columns, from the channels of `policyPlan`. */
export function policyMetricsOf(
  tables: RecordTables,
  cols: number,
  options: PolicyMetricsOptions,
  where = WHERE,
): Metrics {
  const { aggregation } = checkedPolicyOptions(where, options);
  return recordMetricsOf(tables, aggregation.semantics, lossFrom(cols, aggregation));
}

/** Checked options, without synonyms. */
export interface CheckedPolicyOptions {
  readonly aggregation: LossAggregation;
  readonly range: ClipRange;
  readonly valueRange: number;
  readonly klLossType: KlEstimatorName;
  /** Undefined without a penalty. */
  readonly klPenaltyKind: KlEstimatorName | undefined;
}

/** The fields as inputs under their own names; undefined if the batch lacks one. */
type PartOf = (...fields: readonly ResponseField[]) => ResponsePart | undefined;

/** The keys of `policyPlan`. */
export const policyKeys = [
  ...(['actor/ppo_kl', 'actor/pg_loss', 'actor/pg_clipfrac', 'actor/pg_clipfrac_lower'] as const),
  ...(['actor/entropy', 'actor/kl_loss', 'actor/reward_kl_penalty'] as const),
  ...(['critic/vpred_mean', 'critic/vf_loss', 'critic/vf_clipfrac'] as const),
] as const;
type Plans = Partial<Record<(typeof policyKeys)[number], Plan<number>>>;

function updatePlans(part: PartOf, { aggregation, range }: CheckedPolicyOptions): Plans {
  const { semantics } = aggregation;
  const plans: Plans = {};
  const moved = part('logProbs', 'oldLogProbs');
  if (moved !== undefined) plans['actor/ppo_kl'] = meanPlan(moved, ppoKl(semantics), semantics);
  const weighted = part('logProbs', 'oldLogProbs', 'advantages', 'rolloutIsWeights');
  const updated = weighted ?? part('logProbs', 'oldLogProbs', 'advantages');
  if (updated !== undefined) {
    const { loss, isClipped, isClippedLower } = policyLoss(range, weighted !== undefined, semantics);
    plans['actor/pg_loss'] = lossPlan(updated, loss, aggregation);
    plans['actor/pg_clipfrac'] = meanPlan(updated, isClipped, semantics);
    plans['actor/pg_clipfrac_lower'] = meanPlan(updated, isClippedLower, semantics);
  }
  const entropys = part('entropys');
  if (entropys !== undefined) plans['actor/entropy'] = lossPlan(entropys, input('entropys'), aggregation);
  return plans;
}

function klPlans(part: PartOf, { aggregation, klLossType, klPenaltyKind }: CheckedPolicyOptions): Plans {
  const plans: Plans = {};
  const current = part('logProbs', 'refLogProbs');
  if (current !== undefined) {
    const kl = klPenalty('logProbs', 'refLogProbs', klLossType);
    plans['actor/kl_loss'] = lossPlan(current, kl, aggregation);
  }
  const old = part('oldLogProbs', 'refLogProbs');
  if (old !== undefined && klPenaltyKind !== undefined) {
    const kl = klPenalty('oldLogProbs', 'refLogProbs', klPenaltyKind);
    plans['actor/reward_kl_penalty'] = sequenceMeanPlan(old, kl, aggregation.semantics);
  }
  return plans;
}

function criticPlans(part: PartOf, { aggregation, valueRange }: CheckedPolicyOptions): Plans {
  const { semantics } = aggregation;
  const plans: Plans = {};
  const predicted = part('valuePredictions');
  if (predicted !== undefined) {
    plans['critic/vpred_mean'] = meanPlan(predicted, input('valuePredictions'), semantics);
  }
  const updated = part('valuePredictions', 'values', 'returns');
  if (updated !== undefined) {
    const { loss, isClipped } = valueLoss(valueRange, semantics);
    plans['critic/vf_loss'] = lossPlan(updated, loss, aggregation);
    plans['critic/vf_clipfrac'] = meanPlan(updated, isClipped, semantics);
  }
  return plans;
}

/** The options, with defaults. */
export function checkedPolicyOptions(
  where: string,
  options: PolicyMetricsOptions,
  as = 'options',
): CheckedPolicyOptions {
  const kinds = {
    ...aggLossKinds,
    clipRatio: 'number',
    clipRatioLow: 'number',
    clipRatioHigh: 'number',
    clipRatioC: 'any',
    cliprangeValue: 'any',
    klLossType: 'any',
    useKlInReward: 'boolean',
    klPenalty: 'any',
  } as const;
  assertOptions(where, options, kinds, as);
  const { clipRatio = 0.2, clipRatioLow = clipRatio, clipRatioHigh = clipRatio } = options;
  const { klLossType = 'low_var_kl' } = options;
  const { useKlInReward = false, klPenalty: klPenaltyKind = 'kl' } = options;
  for (const [name, value] of Object.entries({ clipRatio, clipRatioLow, clipRatioHigh })) {
    if (value >= 0 && value < Infinity) continue;
    throw outOfBounds(where, `${as}.${name}`, value, 'a finite number of at least 0');
  }
  const dual = switchable(where, `${as}.clipRatioC`, options.clipRatioC, {
    byDefault: 3,
    // At 1 and below the bound would cut into the clip range itself; verl refuses it, too.
    holds: (bound) => bound > 1,
    expected: 'a number above 1, or null for no such bound',
  });
  const valueRange = switchable(where, `${as}.cliprangeValue`, options.cliprangeValue, {
    byDefault: 0.5,
    holds: (bound) => bound >= 0,
    expected: 'a number of at least 0, or null for no clipping',
  });
  const lossKind = estimatorOf(where, `${as}.klLossType`, klLossType);
  const penaltyKind = estimatorOf(where, `${as}.klPenalty`, klPenaltyKind);
  return {
    aggregation: checkedAggregation(where, options, as),
    range: { low: clipRatioLow, high: clipRatioHigh, dual },
    valueRange,
    klLossType: lossKind,
    klPenaltyKind: useKlInReward ? penaltyKind : undefined,
  };
}

/** A bound that `null` and Infinity switch off. */
function switchable(
  where: string,
  input: string,
  given: unknown,
  {
    byDefault,
    holds,
    expected,
  }: { readonly byDefault: number; readonly holds: (bound: number) => boolean; readonly expected: string },
): number {
  const bound = given === null ? Infinity : (given ?? byDefault);
  if (typeof bound === 'number' && holds(bound)) return bound;
  throw outOfBounds(where, input, given, expected);
}

function outOfBounds(where: string, input: string, value: unknown, expected: string): ValueError {
  return new ValueError({
    where,
    input,
    expected,
    received: kindOf(value),
    remedy: "leave it out for verl's default",
  });
}
