/**
 * All metrics of a training step at once: what the batch allows, in one pass over the response part and one over the
 * prompts, read back together.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertOptions } from '../../arguments.js';
import { MissingInputError } from '../../errors.js';
import { retainTensor } from '../../kernels/index.js';
import { type RolloutBatch, assertBatch, isOneStep, requireTensors } from '../batch/batch.js';
import type { Metrics } from '../numbers/statistics.js';
import type { WeightLevel } from '../rollout-correction/options.js';
import { type CorrectionInputs, correctionTensors } from '../rollout-correction/tensors.js';
import {
  type StepStateOptions,
  assertNested,
  assertStateOptions,
  assertStepStateOptions,
  stateKinds,
} from './families.js';
import { launchStep } from './launch.js';
import { type StepFacts, type StepState, assertFacts, factKinds } from './state.js';

/** Options of `computeStepMetrics`: what to compute, and what is known of the step as a whole. */
export interface StepMetricsOptions extends StepStateOptions, StepFacts {}

const WHERE = 'computeStepMetrics';

/**
 * Every metric that the batch and the options allow: those of `computeDataMetrics`, `computeTimingMetrics`,
 * `computeThroughputMetrics`, `computeVarianceProxyMetrics`, `computeRolloutCorrection`, `computeDebugMetrics`,
 * `computePolicyMetrics`, `computeKlMetrics` and `computeGroupMetrics`, under the same keys and with the same values.
 *
 * Tensors are read once however many metrics are made of them, and there is one read-back; a second one where
 * `rolloutCorrection.rolloutRs` has a criterion on rows, which must be known for the tokens that are left. Where it rejects
 * tokens, all families but `rollout_corr/*` are over those that are left, see `population`. Keys that lack an input are
 * left out one by one, and `onSkipped` or a warning says why; an input that does not fit, or an option that makes no
 * sense, is refused as the single functions refuse it, and so is a batch of which nothing can be said.
 *
 * @param batch see the single functions; response_mask is what most of them need
 * @returns plain numbers; undefined ones are NaN
 * @throws MissingInputError if no key has its inputs, and for a critic that `useCritic` asks for; ShapeError, DtypeError,
 *   DisposedTensorError, ValueError, BackendError
 * @source verl, trainer/ppo/ray_trainer.py, fit
 * @example
 *   const metrics = await computeStepMetrics(batch, { timing: { gen: 12.5, step: 24 }, nGpus: 8, gradientNorm });
 */
export async function computeStepMetrics(
  batch: RolloutBatch,
  options: StepMetricsOptions = {},
): Promise<Metrics> {
  const { asked, facts } = checkedOptions(WHERE, options);
  const { state } = await launchStep(WHERE, batch, asked, { facts });
  return state.metrics(facts);
}

/** What `correctedStep` gives. The tensors are the caller's to dispose. */
export interface CorrectedStep {
  /** Those of `computeStepMetrics`. */
  readonly metrics: Metrics;
  /** See `RolloutCorrection`; only if `rolloutCorrection.rolloutIs` asks for weights. */
  readonly isWeights?: Tensor;
  /** See `RolloutCorrection`: `[B, T]` bool, the tokens that are not rejected. */
  readonly responseMask: Tensor;
}

/** Options of `correctedStep`. */
export interface CorrectedStepOptions extends StepMetricsOptions {
  readonly rolloutCorrection: NonNullable<StepMetricsOptions['rolloutCorrection']>;
}

const CORRECTED = 'correctedStep';

/**
 * The metrics of a step together with the tensors of its rollout correction, for the pass that the metrics take:
 * `computeStepMetrics` and `computeRolloutCorrection` in one call, which read the batch once.
 *
 * The weights are made here, so the losses of `metrics` (`actor/pg_loss`) are without them, while verl's actor multiplies its loss
 * by them: `computePolicyMetrics({ ...batch, responseMask, rolloutIsWeights: isWeights })` gives the weighted loss.
 *
 * @param batch needs old_log_probs, rollout_log_probs and response_mask, which one step a row does not need; its tensors may
 *   be disposed while this waits
 * @returns metrics, with as many read-backs as `computeStepMetrics`; weights and mask on the backend of the batch, made
 *   without another. They belong to the caller, and are outside of autodiff and of any `tf.tidy` that the call was in
 * @throws as `computeStepMetrics`; MissingInputError for a batch that lacks an input of the correction
 * @source verl, trainer/ppo/rollout_corr_helper.py, compute_rollout_correction_and_add_to_batch
 * @example
 *   const { metrics, isWeights, responseMask } = await correctedStep(batch, {
 *     rolloutCorrection: { rolloutIs: 'token', rolloutRs: 'token_k1', rolloutRsThreshold: '0.5_2' },
 *   });
 */
export async function correctedStep(
  batch: RolloutBatch,
  options: CorrectedStepOptions & { readonly rolloutCorrection: { readonly rolloutIs: WeightLevel } },
): Promise<CorrectedStep & { readonly isWeights: Tensor }>;
export async function correctedStep(
  batch: RolloutBatch,
  options: CorrectedStepOptions,
): Promise<CorrectedStep>;
export async function correctedStep(
  batch: RolloutBatch,
  options: CorrectedStepOptions,
): Promise<CorrectedStep> {
  assertCorrectionAsked(options);
  const { asked, facts } = checkedOptions(CORRECTED, options);
  assertBatch(CORRECTED, batch);
  const { rolloutCorrection = {} } = asked;
  const { responseMask } = batch;
  const tensors = {
    ...requireTensors(CORRECTED, batch, [
      'oldLogProbs',
      'rolloutLogProbs',
      ...(isOneStep(batch) ? [] : (['responseMask'] as const)),
    ]),
    ...(responseMask && { responseMask }),
  };
  const launched = launchStep(
    CORRECTED,
    batch,
    { ...asked, rolloutCorrection },
    { facts, wantsDecisions: true },
  );
  const held = Object.entries(tensors).map(([field, tensor]) => [field, retainTensor(tensor)] as const);
  try {
    const { state, decisions } = await launched;
    const inputs = Object.fromEntries(held.map(([field, { tensor }]) => [field, tensor]));
    return {
      metrics: state.metrics(facts),
      ...correctionTensors(CORRECTED, inputs as unknown as CorrectionInputs, decisions!),
    };
  } finally {
    for (const [, tensor] of held) tensor.release();
  }
}

function assertCorrectionAsked(options: unknown): void {
  if (options !== undefined) return;
  throw new MissingInputError({
    where: CORRECTED,
    input: 'options',
    expected: 'an object with rolloutCorrection',
    received: 'nothing',
    remedy: "call it as correctedStep(batch, { rolloutCorrection: { rolloutIs: 'token' } })",
  });
}

function checkedOptions(
  where: string,
  options: StepMetricsOptions,
): { readonly asked: StepStateOptions; readonly facts: StepFacts } {
  assertNested(where, options);
  assertOptions(where, options, { ...stateKinds, ...factKinds });
  assertStateOptions(where, options);
  const { timing, nGpus, gradientNorm, ...asked } = options;
  assertFacts(where, { timing, nGpus, gradientNorm }, 'options');
  // The caller may go on timing while the numbers are on their way.
  return { asked, facts: { timing: timing && { ...timing }, nGpus, gradientNorm } };
}

/**
 * What the metrics of a step are made of, for parts of a step: states merge, in any split of the rows, to the state of
 * the whole, whose metrics are then those of `computeStepMetrics`.
 *
 * Seconds, GPUs and the norm of the gradient are those of the whole step and are given to `StepState#metrics`.
 *
 * @param batch a micro-batch, or a rank's part; its tensors may be disposed while this waits
 * @returns one read-back
 * @throws as `computeStepMetrics`
 * @source none of verl's functions; the row merge of Chan, Golub & LeVeque 1979
 * @example
 *   const state = await computeStepState(microBatch);
 *   const others = await group.allGather(state.toBytes(), { timeoutMs, signal, context });
 *   StepState.merge(others.map((bytes) => StepState.fromBytes(bytes))).metrics({ timing, nGpus, gradientNorm });
 */
export async function computeStepState(
  batch: RolloutBatch,
  options: StepStateOptions = {},
): Promise<StepState> {
  assertStepStateOptions('computeStepState', options);
  const { state } = await launchStep('computeStepState', batch, options);
  return state;
}
