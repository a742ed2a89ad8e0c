/**
 * All metrics of a training step at once: what the batch allows, in one pass over the response part and one over the
 * prompts, read back together.
 */
import { MissingInputError } from '../../errors.js';
import { assertOptions } from '../../kernels/arguments.js';
import { Pending } from '../../kernels/index.js';
import { type RolloutBatch, assertBatch, responseWidthOf } from '../batch.js';
import { type NamedMask, withExistingTokens } from '../existing-tokens.js';
import { type LengthsSource, lengthsSource, promptWidth, runWithLengths } from '../lengths.js';
import type { Plan } from '../plan.js';
import { usesLengthColumns } from '../semantics.js';
import type { Metrics } from '../statistics.js';
import { effectiveOptions } from './effective-options.js';
import {
  type FamilyOptions,
  type FamilyTables,
  type Skipped,
  type StepFamily,
  type StepStateOptions,
  assertStateOptions,
  assertStepStateOptions,
  planFamilies,
  reasonOf,
  stateKinds,
} from './families.js';
import { tellSkipped } from './notices.js';
import { type StepFacts, StepState, assertFacts, factKinds, skippedOfHost } from './state.js';

/** Options of `computeStepMetrics`: what to compute, and what is known of the step as a whole. */
export interface StepMetricsOptions extends StepStateOptions, StepFacts {}

const WHERE = 'computeStepMetrics';

/**
 * Every metric that the batch and the options allow: those of `computeDataMetrics`, `computeTimingMetrics`,
 * `computeThroughputMetrics`, `computeVarianceProxyMetrics`, `computeRolloutCorrection`, `computeDebugMetrics`,
 * `computePolicyMetrics`, `computeKlMetrics` and `computeGroupMetrics`, under the same keys and with the same values.
 *
 * Tensors are read once however many metrics are made of them, and there is one read-back. Keys that lack an input are
 * left out one by one, and `onSkipped` or a warning says why; an input that does not fit, or an option that makes no
 * sense, is refused as the single functions refuse it, and so is a batch of which nothing can be said.
 *
 * @param batch see the single functions; response_mask is what most of them need
 * @returns plain numbers; undefined ones are NaN
 * @throws MissingInputError if no key has its inputs, and for a critic that `useCritic` asks for; ShapeError, DtypeError, DisposedTensorError, ValueError,
 *   BackendError
 * @source verl, trainer/ppo/ray_trainer.py, fit
 * @example
 *   const metrics = await computeStepMetrics(batch, { timing: { gen: 12.5, step: 24 }, nGpus: 8, gradientNorm });
 */
export async function computeStepMetrics(
  batch: RolloutBatch,
  options: StepMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => {
    assertOptions(WHERE, options, { ...stateKinds, ...factKinds });
    assertStateOptions(WHERE, options);
    const { timing, nGpus, gradientNorm, ...asked } = options;
    assertFacts(WHERE, { timing, nGpus, gradientNorm }, 'options');
    // The caller may go on timing while the numbers are on their way.
    const facts: StepFacts = { timing: timing && { ...timing }, nGpus, gradientNorm };
    return launchState(WHERE, batch, asked, facts).map((state) => state.metrics(facts));
  });
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
  return Pending.attempt(() => {
    assertStepStateOptions('computeStepState', options);
    return launchState('computeStepState', batch, options, undefined);
  });
}

/**
 * Launches everything that a state needs.
 *
 * @param facts to say what lacks them; undefined if they are given later
 */
function launchState(
  where: string,
  batch: RolloutBatch,
  options: StepStateOptions,
  facts: StepFacts | undefined,
): Pending<StepState> {
  assertBatch(where, batch);
  const { semantics = 'recommended', families, onSkipped } = options;
  const lengths = lengthsSource(where, batch, usesLengthColumns(semantics));
  const isWanted = (family: StepFamily): boolean => families?.includes(family) !== false;
  const groups = options.groups && Array.from(options.groups);
  const own = kept(options);
  // Also those of families that are not wanted: the state is finished and merged by them.
  effectiveOptions(where, own, families);
  const known = {
    options: own,
    rows: batch.batchSize,
    families: families && [...families],
    responseWidth: responseWidthOf(batch),
    promptWidth: promptWidth(batch),
    numTurns: batch.numTurns && Float64Array.from(batch.numTurns),
    toolCallCounts: batch.toolCallCounts && Float64Array.from(batch.toolCallCounts),
    globalTokenNum: batch.globalTokenNum && Float64Array.from(batch.globalTokenNum),
  };
  const launch = (existing: NamedMask | undefined): Pending<StepState> => {
    const { plans, skipped: ofTensors } = planFamilies(where, batch, options, { lengths, existing });
    const reasons = { prompt: reasonOfLength(lengths.prompt), response: reasonOfLength(lengths.response) };
    const areLengthsKnown = { prompt: reasons.prompt ?? NONE, response: reasons.response ?? NONE };
    const { globalTokenNum } = known;
    const ofHost =
      facts === undefined ? {} : skippedOfHost({ lengths: areLengthsKnown, globalTokenNum, families }, facts);
    const skipped: Skipped = { ...ofTensors, ...ofHost };
    const isTimed = facts?.timing !== undefined && (isWanted('timing') || isWanted('throughput'));
    const tellsTokens = Object.values(reasons).includes(undefined) || globalTokenNum !== undefined;
    const isSilent = facts === undefined ? !tellsTokens : !isTimed;
    if (Object.keys(plans).length === 0 && isSilent) {
      for (const [family, why] of Object.entries(skipped)) onSkipped?.(family as StepFamily, why);
      throw nothingToCompute(where, skipped);
    }
    tellSkipped(where, skipped, onSkipped);

    const planned = Object.entries(plans).map(([family, plan]) => ({ family, plan: unfinished(plan) }));
    const contents = { ...known, skipped: ofTensors, groups: plans.groups && groups };
    const asked = planned.map(({ plan }) => plan);
    return runWithLengths<readonly FamilyTables[]>(where, batch, lengths, asked).map(
      ([tables, found]) =>
        new StepState({
          ...contents,
          tables: Object.fromEntries(planned.map(({ family }, i) => [family, tables[i]!])),
          lengths: {
            prompt: found.prompt ?? areLengthsKnown.prompt,
            response: found.response ?? areLengthsKnown.response,
          },
        }),
    );
  };
  const needsExisting =
    isWanted('data') && (semantics === 'recommended' || lengths.response instanceof MissingInputError);
  const asksWhichExist = needsExisting || (isWanted('groups') && groups !== undefined);
  return asksWhichExist ? withExistingTokens(where, batch, launch) : launch(undefined);
}

const NONE = new Float64Array();

function reasonOfLength(source: LengthsSource[keyof LengthsSource]): string | undefined {
  return source instanceof MissingInputError ? reasonOf(source) : undefined;
}

/** The plan that ends with the rows themselves. */
function unfinished({ inputs, masks, channels }: Plan<unknown>): Plan<FamilyTables> {
  return { inputs, masks, channels, finish: (tables) => tables };
}

/** What rows are finished with later; a copy, since the caller may go on changing his options. */
function kept({
  maxResponseLength,
  maxPromptLength,
  maxModelLength,
  rolloutCorrection,
  policy,
  rightAbove,
  semantics,
}: FamilyOptions): FamilyOptions {
  return {
    maxResponseLength,
    maxPromptLength,
    maxModelLength,
    rolloutCorrection: rolloutCorrection && { ...rolloutCorrection },
    policy: policy && { ...policy },
    rightAbove,
    semantics,
  };
}

/** A batch of which nothing can be said is a mistake, and silence would hide it. */
function nothingToCompute(where: string, skipped: Skipped): MissingInputError {
  const reasons = Object.entries(skipped).map(([family, reason]) => `${family}: ${reason}`);
  return new MissingInputError({
    where,
    input: 'batch',
    expected: 'the inputs of at least one family of metrics',
    received: `none (${reasons.join('; ')})`,
    remedy: 'name the tensors as batchFromVerl does, e.g. response_mask, advantages, returns',
  });
}
