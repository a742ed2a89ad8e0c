/**
 * All metrics of a training step at once: what the batch allows, in one pass over the response part and one over the
 * prompts, read back together.
 */
import { MissingInputError } from '../errors.js';
import { assertOptions } from '../kernels/arguments.js';
import { Pending } from '../kernels/index.js';
import { type RolloutBatch, assertBatch } from './batch.js';
import { type DataMetricsOptions, dataPlan } from './data.js';
import { debugPlan } from './debug.js';
import { type GroupId, groupPlan } from './groups.js';
import { type LengthsSource, type RowLengths, lengthsSource, runWithLengths } from './lengths.js';
import type { Plan } from './plan.js';
import { type PolicyMetricsOptions, policyPlan } from './policy.js';
import type { RolloutCorrectionOptions } from './rollout-correction-options.js';
import { rolloutCorrectionPlan } from './rollout-correction.js';
import { type Semantics, assertSemantics, usesLengthColumns } from './semantics.js';
import type { Metrics } from './statistics.js';
import { stepSeconds, throughputOf } from './throughput.js';
import { type TimingRaw, assertTimings, timingsOf } from './timing.js';
import { varianceProxyPlan } from './variance-proxy.js';

/** The parts of `computeStepMetrics`, each the metrics of one `compute…` function. */
export const stepFamilies = [
  ...(['data', 'timing', 'throughput', 'varianceProxy'] as const),
  ...(['rolloutCorrection', 'debug', 'policy', 'groups'] as const),
] as const;
export type StepFamily = (typeof stepFamilies)[number];

/** Options of `computeStepMetrics`. */
export interface StepMetricsOptions {
  /** Seconds by stage; without them there are no timing and throughput metrics. */
  readonly timing?: TimingRaw | undefined;
  /** GPUs that worked on the step; without them there is no throughput. */
  readonly nGpus?: number | undefined;
  /** Norm of the gradient of the step, before clipping; without it signal and noise of the proxies are NaN. */
  readonly gradientNorm?: number | undefined;
  /** Whether there is a critic. Default: whether the batch has values. */
  readonly useCritic?: boolean | undefined;
  /** See `computeDataMetrics`. */
  readonly maxResponseLength?: number | undefined;
  /** Options of `computeRolloutCorrection`, whose metrics need rollout_log_probs. Its tensors are made by that one. */
  readonly rolloutCorrection?: Omit<RolloutCorrectionOptions, 'semantics'> | undefined;
  /** Options of `computePolicyMetrics`. */
  readonly policy?: Omit<PolicyMetricsOptions, 'semantics'> | undefined;
  /** The prompt of every row, for the metrics of `computeGroupMetrics`. */
  readonly groups?: ArrayLike<GroupId> | undefined;
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
  /** Told of every family that is left out, and why. */
  readonly onSkipped?: ((family: StepFamily, reason: string) => void) | undefined;
}

/** Metrics of a step, and what is not among them. */
export interface StepReport {
  readonly metrics: Metrics;
  /** Why a family is missing. */
  readonly skipped: Readonly<Partial<Record<StepFamily, string>>>;
}

const WHERE = 'computeStepMetrics';

/**
 * Every metric that the batch and the options allow: those of `computeDataMetrics`, `computeTimingMetrics`,
 * `computeThroughputMetrics`, `computeVarianceProxyMetrics`, `computeRolloutCorrection`, `computeDebugMetrics`,
 * `computePolicyMetrics` and `computeGroupMetrics`, under the same keys and with the same values.
 *
 * Tensors are read once however many metrics are made of them, and there is one read-back. What lacks an input is left
 * out, and `onSkipped` says why; an input that does not fit, or an option that makes no sense, is refused as the single
 * functions refuse it, and so is a batch of which nothing can be said.
 *
 * @param batch see the single functions; response_mask is what most of them need
 * @returns plain numbers; undefined ones are NaN
 * @throws MissingInputError if no family has its inputs; ShapeError, DtypeError, DisposedTensorError, ValueError,
 *   BackendError
 * @source verl, trainer/ppo/ray_trainer.py, fit
 * @example
 *   const metrics = await computeStepMetrics(batch, { timing: { gen: 12.5, step: 24 }, nGpus: 8, gradientNorm });
 */
export async function computeStepMetrics(
  batch: RolloutBatch,
  options: StepMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => stepMetrics(batch, options).map(({ metrics }) => metrics));
}

/** The launched form of `computeStepMetrics` with what it left out, to be read together with others. */
export function stepMetrics(batch: RolloutBatch, options: StepMetricsOptions = {}): Pending<StepReport> {
  assertOptions(WHERE, options, {
    timing: 'any',
    nGpus: 'any',
    gradientNorm: 'any',
    useCritic: 'boolean',
    maxResponseLength: 'any',
    rolloutCorrection: 'object',
    policy: 'object',
    groups: 'any',
    semantics: 'any',
    onSkipped: 'function',
  });
  const { semantics = 'recommended' } = options;
  assertSemantics(WHERE, semantics);
  assertBatch(WHERE, batch);
  const skipped: Partial<Record<StepFamily, string>> = {};
  const skip = (family: StepFamily, reason: string): void => {
    skipped[family] = reason;
    options.onSkipped?.(family, reason);
  };
  const lengths = unlessMissing(() => lengthsSource(WHERE, batch, usesLengthColumns(semantics)));
  const plans = [
    ...responsePlans(batch, options, semantics, lengths, skip),
    ...hostPlans(batch, options, semantics, lengths, skip),
  ];
  if (plans.length === 0) throw nothingToCompute(skipped);
  const source = lengths instanceof MissingInputError ? NO_LENGTHS : lengths;
  return runWithLengths<readonly FamilyFinish[]>(WHERE, batch, source, plans).map(([finishes, found]) => ({
    metrics: Object.assign({}, ...finishes.map((finish) => finish(found))) as Metrics,
    skipped,
  }));
}

/** The metrics of a family, once the lengths of the rows are known as well. */
type FamilyFinish = (lengths: RowLengths) => Metrics;
type Lengths = LengthsSource | MissingInputError;
type Skip = (family: StepFamily, reason: string) => void;

/** For batches whose lengths nobody knows; whoever needs them is left out. */
const NO_LENGTHS: LengthsSource = {
  prompt: () => Pending.of(new Float64Array()),
  response: () => Pending.of(new Float64Array()),
};

/** What `make` returns, or the input that it misses. */
function unlessMissing<T>(make: () => T): T | MissingInputError {
  try {
    return make();
  } catch (error) {
    if (error instanceof MissingInputError) return error;
    throw error;
  }
}

/** The families that look at the tensors of the response part. */
function responsePlans(
  batch: RolloutBatch,
  options: StepMetricsOptions,
  semantics: Semantics,
  lengths: Lengths,
  skip: Skip,
): Plan<FamilyFinish>[] {
  const { gradientNorm, maxResponseLength, useCritic = batch.values !== undefined } = options;
  const plans: Plan<FamilyFinish>[] = [];
  const offer = (family: StepFamily, make: () => Plan<FamilyFinish> | string): void => {
    const made = unlessMissing(make);
    if (made instanceof MissingInputError) skip(family, reasonOf(made));
    else if (typeof made === 'string') skip(family, made);
    else plans.push(made);
  };
  offer('data', () => {
    if (lengths instanceof MissingInputError) throw lengths;
    const data: DataMetricsOptions = { useCritic, maxResponseLength, semantics };
    return dataPlan(batch, data, WHERE);
  });
  offer('varianceProxy', () => {
    const asked = varianceProxyPlan(batch, { gradientNorm, semantics }, WHERE);
    return asked === undefined
      ? 'the batch lacks an input, of which this revision says nothing'
      : ready(asked);
  });
  offer('rolloutCorrection', () => {
    const asked = rolloutCorrectionPlan(batch, { ...options.rolloutCorrection, semantics }, WHERE);
    return { ...asked, finish: (tables) => () => asked.finish(tables).metrics };
  });
  offer('debug', () => ready(debugPlan(batch, WHERE)));
  offer('policy', () => {
    const asked = policyPlan(batch, { ...options.policy, semantics }, WHERE);
    return asked === undefined ? 'the batch has nothing that an update computed' : ready(asked);
  });
  offer('groups', () =>
    options.groups === undefined
      ? 'options.groups is missing'
      : ready(groupPlan(batch, options.groups, {}, WHERE)),
  );
  return plans;
}

/** The families that are made of lengths and numbers of the host. */
function hostPlans(
  batch: RolloutBatch,
  { timing, nGpus }: StepMetricsOptions,
  semantics: Semantics,
  lengths: Lengths,
  skip: Skip,
): Plan<FamilyFinish>[] {
  if (timing === undefined) {
    skip('timing', 'options.timing is missing');
    skip('throughput', 'options.timing is missing');
    return [];
  }
  assertTimings(WHERE, timing);
  // The caller may go on timing while the numbers are on their way.
  const seconds = { ...timing };
  const plans: Plan<FamilyFinish>[] = [];
  if (lengths instanceof MissingInputError) skip('timing', reasonOf(lengths));
  else plans.push(ofHost((found) => timingsOf(seconds, found, semantics)));
  if (nGpus === undefined) {
    skip('throughput', 'options.nGpus is missing');
  } else if (lengths instanceof MissingInputError && batch.globalTokenNum === undefined) {
    skip('throughput', reasonOf(lengths));
  } else {
    const step = unlessMissing(() => stepSeconds(WHERE, seconds, nGpus));
    if (step instanceof MissingInputError) skip('throughput', reasonOf(step));
    else plans.push(ofHost((found) => throughputOf(batch, found, step, nGpus)));
  }
  return plans;
}

/** A batch of which nothing can be said is a mistake, and silence would hide it. */
function nothingToCompute(skipped: Readonly<Partial<Record<StepFamily, string>>>): MissingInputError {
  const reasons = Object.entries(skipped).map(([family, reason]) => `${family}: ${reason}`);
  return new MissingInputError({
    where: WHERE,
    input: 'batch',
    expected: 'the inputs of at least one family of metrics',
    received: `none (${reasons.join('; ')})`,
    remedy: 'name the tensors as batchFromVerl does, e.g. response_mask, advantages, returns',
  });
}

function reasonOf({ input, expected }: MissingInputError): string {
  return `${input ?? 'an input'} is missing: expected ${expected}`;
}

/** A plan whose metrics do not depend on lengths. */
function ready(asked: Plan<Metrics>): Plan<FamilyFinish> {
  return {
    ...asked,
    finish: (tables) => {
      const metrics = asked.finish(tables);
      return () => metrics;
    },
  };
}

/** A plan that asks nothing of the tensors. */
function ofHost(finish: FamilyFinish): Plan<FamilyFinish> {
  return { inputs: {}, masks: {}, channels: {}, finish: () => finish };
}
