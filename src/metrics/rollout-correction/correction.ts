/**
 * Rollout correction: what to do about tokens that one policy sampled and another one is trained on.
 *
 * One pass over the tokens gives the diagnostics, the statistics of importance weights and of rejection, and all that is
 * decided for a whole row. The weights and the mask are then made on the device from those decisions.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { constant } from '../../kernels/expression.js';
import { type Pending, RowMoments, retainTensor } from '../../kernels/index.js';
import type { MomentsTable } from '../../rows/index.js';
import { type RolloutBatch, assertBatch, isOneStep, requireTensors } from '../batch/batch.js';
import { batchShape, requireResponseTokens } from '../batch/response-windows.js';
import type { Steps } from '../batch/steps.js';
import type { Metrics } from '../numbers/statistics.js';
import { type Plan, type PlanChannel, plan, runPlans } from '../plan.js';
import {
  type OffPolicyTables,
  offPolicyChannels,
  offPolicyMetrics,
  offPolicyStepChannels,
} from './off-policy.js';
import {
  type CorrectionSettings,
  type RolloutCorrectionOptions,
  type WeightLevel,
  correctionSettings,
} from './options.js';
import { keptTokens, rejectionChannels, rejectionResult } from './rejection.js';
import { type CorrectionDecisions, type CorrectionInputs, correctionTensors } from './tensors.js';
import { weightChannels, weightResult } from './weights.js';

/** Result of `computeRolloutCorrection`. The tensors are the caller's to dispose. */
export interface RolloutCorrection {
  /** `rollout_corr/*`; undefined numbers are NaN. */
  readonly metrics: Metrics;
  /**
   * `[B, T]` float32, 0 outside the response mask and where a NaN is rejected; only if `rolloutIs` asks for weights. The weight of
   * a NaN that nothing rejects is NaN.
   */
  readonly isWeights?: Tensor;
  /**
   * `[B, T]` bool: the tokens that are not rejected, as `StatsTracker#denominator` takes it. tfjs multiplies it by floats
   * as 0 and 1; `responseMask.toFloat()` is that tensor.
   */
  readonly responseMask: Tensor;
}

/** Metrics, and what is decided for the tensors. */
export interface RolloutCorrectionReport {
  readonly metrics: Metrics;
  readonly decisions: CorrectionDecisions;
}

const WHERE = 'computeRolloutCorrection';
const FIELDS = ['oldLogProbs', 'rolloutLogProbs'] as const;

/**
 * Diagnoses how far the trained policy is from the one that sampled, and makes importance weights and a rejection mask.
 *
 * With x = log π_train − log π_rollout of a token, over the tokens of `response_mask` and the rows that have one. Weights
 * are of x clamped to ±20, as they are applied; elsewhere only what would overflow is cut, eˣ above x = 20:
 *
 * - always: `training_ppl`, `training_log_ppl`, `rollout_ppl`, `rollout_log_ppl`, `ppl_ratio`, `log_ppl_diff`,
 *   `log_ppl_abs_diff`, `log_ppl_diff_{max,min}` (means over rows, of the rows' mean log-probabilities in nats), `kl` =
 *   ⟨−x⟩, `k3_kl` = ⟨eˣ − 1 − x⟩, `chi2_token` = ⟨e²ˣ⟩ − 1, `chi2_seq` = mean over rows of e^(2Σx), − 1;
 * - with `rolloutIs`: `rollout_is_{mean,std,max,min,eff_sample_size}`, `rollout_is_ratio_fraction_{high,low}` (beyond
 *   the threshold and its inverse), `rollout_is_seq_*` (of the mean weight of a row), `rollout_is_oob_ratio` for a
 *   range. With `batchNormalize`, `rollout_is_batch_norm_factor`, the mean over the finite weights of tokens that are not
 *   rejected, and `rollout_is_nonfinite`, how many weights were not finite, if any. The others describe the weights that
 *   are applied, before they are normalised; fractions, and the extremes of sequence weights, describe the weights before truncation;
 * - with `rolloutRs`: `rollout_rs_{criterion}_*` of every criterion, `rollout_rs_masked_fraction` of tokens and
 *   `rollout_rs_seq_masked_fraction` of rows that lose one. Bounds of k1 are bounds of π_rollout / π_train, as in verl's
 *   code, which is the inverse of the ratio in its documentation. Tokens with a NaN are rejected.
 *
 * Under `recommended` std of one row and everything of an empty mask is NaN, and the effective sample size is
 * (Σw)² / (n Σw²); a NaN among the tokens makes every fraction of tokens or rows beyond a bound NaN. The verl presets
 * count rows without tokens as 0, take a NaN for a number within the bounds, add an epsilon to the effective sample size,
 * do not cut x in `k3_kl` and hold it within ±20 in the criteria of rejection, and `verl-2026-01` measures weights before
 * they are truncated.
 *
 * Tokens are compared with the same bounds for the metrics and for the tensors, in the precision of the device each
 * time: a token within rounding of a bound may be on either side.
 *
 * @param batch needs old_log_probs, rollout_log_probs and response_mask, which may be disposed while this waits; one step a
 *   row needs no mask
 * @returns metrics, one read-back; weights and mask on the backend of the batch, made without another. They are outside
 *   of autodiff and of any `tf.tidy` that the call was in
 * @throws MissingInputError, ShapeError, DtypeError, DisposedTensorError, ValueError for options, BackendError
 * @source verl, trainer/ppo/rollout_corr_helper.py, compute_rollout_correction_and_rejection_mask
 * @example
 *   const { metrics, isWeights, responseMask } = await computeRolloutCorrection(batch, {
 *     rolloutIs: 'token', rolloutIsThreshold: 2, rolloutRs: 'token_k1,seq_max_k3', rolloutRsThreshold: '0.5_2,3',
 *   });
 */
export async function computeRolloutCorrection(
  batch: RolloutBatch,
  options: RolloutCorrectionOptions & { readonly rolloutIs: WeightLevel },
): Promise<RolloutCorrection & { readonly isWeights: Tensor }>;
export async function computeRolloutCorrection(
  batch: RolloutBatch,
  options?: RolloutCorrectionOptions,
): Promise<RolloutCorrection>;
export async function computeRolloutCorrection(
  batch: RolloutBatch,
  options: RolloutCorrectionOptions = {},
): Promise<RolloutCorrection> {
  const pending = rolloutCorrection(batch, options);
  const retained = [...FIELDS, 'responseMask' as const].flatMap((field) => {
    const tensor = batch[field];
    return tensor === undefined ? [] : [[field, retainTensor(tensor)] as const];
  });
  try {
    const { metrics, decisions } = await pending;
    const inputs = Object.fromEntries(retained.map(([field, { tensor }]) => [field, tensor]));
    return { metrics, ...correctionTensors(WHERE, inputs as unknown as CorrectionInputs, decisions) };
  } finally {
    for (const [, tensor] of retained) tensor.release();
  }
}

/** The `Pending` behind `computeRolloutCorrection`, without its tensors. */
export function rolloutCorrection(
  batch: RolloutBatch,
  options: RolloutCorrectionOptions = {},
): Pending<RolloutCorrectionReport> {
  assertBatch(WHERE, batch);
  const correction = rolloutCorrectionPlan(batch, options);
  return runPlans<[RolloutCorrectionReport]>(WHERE, batchShape(batch), [correction]).map(
    ([report]) => report,
  );
}

/** What the correction asks of the response part of a checked batch, to share a pass with others. */
export function rolloutCorrectionPlan(
  batch: RolloutBatch,
  options: RolloutCorrectionOptions = {},
  where = WHERE,
  as = 'options',
): Plan<RolloutCorrectionReport> {
  const settings = correctionSettings(where, options, as);
  return plan({
    inputs: requireTensors(where, batch, FIELDS),
    masks: { response: requireResponseTokens(where, batch) },
    channels: correctionChannels(settings, isOneStep(batch)),
    finish: (tables) => correctionReport(tables as CorrectionTables, settings),
  });
}

/**
 * What is computed of every token.
 *
 * @param areSteps whether every row is one step, so that totals of the steps tell all that records of rows would
 */
export function correctionChannels(
  settings: CorrectionSettings,
  areSteps: boolean,
): Record<string, PlanChannel> {
  const { semantics, weighting, rejections } = areSteps ? ofSteps(settings) : settings;
  const channels: Record<string, PlanChannel> = {
    ...weightChannels(weighting, keptTokens(rejections, semantics), semantics),
    ...rejectionChannels(rejections, semantics),
    ...offPolicyChannels(semantics),
  };
  if (!areSteps) return channels;
  Object.assign(channels, offPolicyStepChannels());
  // The presets count rows without a step, too.
  if (semantics !== 'recommended') channels.rows = { of: constant(1), mask: undefined };
  return Object.fromEntries(
    Object.entries(channels).map(([name, channel]) => [name, { ...channel, isWhole: true }]),
  );
}

/** A row of one step is its token, whatever is decided by rows. */
export function ofSteps({ weighting, rejections, ...settings }: CorrectionSettings): CorrectionSettings {
  return {
    ...settings,
    weighting: weighting && { ...weighting, level: 'token' },
    rejections: rejections.map((rejection) => ({ ...rejection, aggregate: 'token' })),
  };
}

/** One row per row of the batch; where every row is one step, totals. */
export type CorrectionTables = Readonly<Record<string, MomentsTable>> & OffPolicyTables;

/** The report on rows, from the channels of `rolloutCorrectionPlan`. */
export function correctionReport(
  tables: CorrectionTables,
  settings: CorrectionSettings,
): RolloutCorrectionReport {
  return tables.trainingPpl === undefined
    ? reportOf(tables, settings, undefined)
    : reportOf(totalsOf(tables), settings, {
        semantics: settings.semantics,
        rows: tables.rows?.total().count ?? NaN,
      });
}

function totalsOf(tables: CorrectionTables): CorrectionTables {
  const totals = Object.entries(tables).map(([name, table]) => [name, table.merged()] as const);
  return Object.fromEntries(totals) as CorrectionTables;
}

function reportOf(
  tables: CorrectionTables,
  settings: CorrectionSettings,
  steps: Steps | undefined,
): RolloutCorrectionReport {
  const { semantics, weighting } = settings;
  const { rejections } = steps === undefined ? settings : ofSteps(settings);
  const rejection =
    rejections.length === 0
      ? undefined
      : rejectionResult(tables, tables.logRatio, rejections, semantics, steps);
  const kept = rejection?.kept ?? RowMoments.fromTable(tables.logRatio).count;
  const weights = weighting && weightResult(tables, weighting, kept, semantics, steps);
  const metrics = {
    ...weights?.metrics,
    ...rejection?.metrics,
    ...offPolicyMetrics(tables, semantics, steps),
  };
  // Of an empty mask verl raises an exception; some numbers would be defined, and mean nothing.
  const isEmpty = tables.logRatio.total().count === 0;
  return {
    metrics: Object.fromEntries(
      Object.entries(metrics).map(([key, value]) => [`rollout_corr/${key}`, isEmpty ? NaN : value]),
    ),
    decisions: { weights: weights?.decision, rejection: rejection?.decision },
  };
}
