/**
 * What a step launches: its families over the tokens that rejection leaves, its rollout correction over those before.
 *
 * Criteria on tokens are intervals of the log ratio, known before anything is computed: the mask that is left is made
 * first, and everything is one pass with one read-back. Criteria on rows are decided by sums of the rows, in float64 on
 * the host: the correction is read first, everything else in a second read-back.
 */
import { MissingInputError } from '../../errors.js';
import type { Pending } from '../../kernels/index.js';
import { type RolloutBatch, assertBatch, isOneStep, responseWidthOf } from '../batch/batch.js';
import { type NamedMask, withExistingTokens } from '../batch/existing-tokens.js';
import { type LengthsSource, lengthsSource, promptWidth, runWithLengths } from '../batch/lengths.js';
import { batchShape } from '../batch/response-windows.js';
import { retainBatch } from '../batch/retained-batch.js';
import { assertGroups } from '../groups.js';
import { type Plan, runPlans } from '../plan.js';
import {
  type CorrectionTables,
  correctionReport,
  ofSteps,
  rolloutCorrectionPlan,
} from '../rollout-correction/correction.js';
import {
  type CorrectionSettings,
  type RolloutCorrectionOptions,
  type Threshold,
  correctionSettings,
} from '../rollout-correction/options.js';
import { type RejectionDecision, decisionOnTokens } from '../rollout-correction/rejection.js';
import {
  type CorrectionDecisions,
  type CorrectionInputs,
  correctionTensors,
} from '../rollout-correction/tensors.js';
import { usesLengthColumns } from '../semantics.js';
import type { StateContents } from './contents.js';
import { effectiveOptions } from './effective-options.js';
import {
  type FamilyOptions,
  type FamilyPlans,
  type FamilyTables,
  type Skipped,
  type StepFamily,
  type StepStateOptions,
  SAMPLED,
  overSampled,
  planFamilies,
  reasonOf,
  unlessMissing,
} from './families.js';
import { missedOf } from './missed.js';
import { tellSkipped } from './notices.js';
import { type StepFacts, StepState, skippedOfHost } from './state.js';

/** The state of a step, and what its rollout correction decides for tensors, if it was asked for. */
export interface LaunchedStep {
  readonly state: StepState;
  readonly decisions: CorrectionDecisions | undefined;
}

/** What is asked for, beside metrics that are computed from the batch and the options. */
export interface StepRequest {
  /** To say what lacks facts of the step; undefined if they are given later. */
  readonly facts?: StepFacts | undefined;
  /** Whether the decisions of the correction are asked for. */
  readonly wantsDecisions?: boolean;
}

/** A rollout correction that options ask for and a batch allows. */
interface Correction {
  readonly settings: CorrectionSettings;
  readonly plan: Plan<FamilyTables>;
}

/**
 * Launches everything that a state needs.
 *
 * @param batch its tensors may be disposed while this waits
 */
export async function launchStep(
  where: string,
  batch: RolloutBatch,
  options: StepStateOptions,
  request: StepRequest = {},
): Promise<LaunchedStep> {
  assertBatch(where, batch);
  // Also options of families that are not wanted: the state is finished and merged by them.
  effectiveOptions(where, kept(options), options.families);
  if (options.groups !== undefined) assertGroups(where, options.groups, batch.batchSize, 'options.groups');
  const found = correctionOf(where, batch, options);
  const [correction, lacking] = found instanceof MissingInputError ? [undefined, found] : [found, undefined];
  const rejects = correction !== undefined && correction.settings.rejections.length > 0;
  const population = rejects && options.population !== 'all' ? 'kept' : 'all';
  const wouldReject = options.rolloutCorrection?.rolloutRs !== undefined && options.population !== 'all';
  const unrejected = wouldReject && lacking ? `${reasonOf(lacking)}; nothing is rejected` : undefined;
  const launch = new StepLaunch(where, batch, { ...options, population }, request, {
    correction,
    unrejected,
  });
  if (!rejects || population === 'all') return launch.over(batch, batch);
  const { rejections, semantics } = isOneStep(batch) ? ofSteps(correction.settings) : correction.settings;
  const onTokens = decisionOnTokens(rejections, semantics);
  if (onTokens !== undefined) {
    return withMask(where, batch, onTokens, (left) => launch.over(left, batch));
  }
  launch.check();
  const held = retainBatch(batch);
  let launched: Promise<LaunchedStep>;
  try {
    const [tables] = await runPlans<[FamilyTables]>(where, batchShape(batch), [correction.plan]);
    const { rejection } = correctionReport(tables as CorrectionTables, correction.settings).decisions;
    launched = withMask(where, held.batch, rejection!, (left) => launch.over(left, held.batch, tables));
  } finally {
    held.release();
  }
  return launched;
}

/** The correction, or the input that it lacks; undefined where nobody asks for one. */
function correctionOf(
  where: string,
  batch: RolloutBatch,
  options: StepStateOptions,
): Correction | MissingInputError | undefined {
  const { rolloutCorrection, semantics } = options;
  if (rolloutCorrection === undefined) return undefined;
  const [own, as] = [{ ...rolloutCorrection, semantics }, 'options.rolloutCorrection'] as const;
  const plan = unlessMissing(() => rolloutCorrectionPlan(batch, own, where, as));
  if (plan instanceof MissingInputError) return plan;
  return { settings: correctionSettings(where, own, as), plan: unfinished(overSampled(plan)) };
}

/**
 * Launches `use` with the batch whose response mask has lost what is rejected.
 *
 * @param use has launched all that reads the mask when it returns
 */
function withMask<T>(
  where: string,
  batch: RolloutBatch,
  rejection: RejectionDecision,
  use: (left: RolloutBatch) => T,
): T {
  const { oldLogProbs, rolloutLogProbs, responseMask } = batch;
  const inputs = { oldLogProbs, rolloutLogProbs, responseMask } as CorrectionInputs;
  const { responseMask: left } = correctionTensors(where, inputs, { weights: undefined, rejection });
  try {
    return use({ ...batch, responseMask: left });
  } finally {
    left.dispose();
  }
}

/** One step, ready to launch. */
class StepLaunch {
  readonly #where: string;
  readonly #batch: RolloutBatch;
  readonly #options: StepStateOptions;
  readonly #request: StepRequest;
  readonly #correction: Correction | undefined;
  /** Why nothing is rejected that options would reject. */
  readonly #unrejected: string | undefined;
  readonly #lengths: LengthsSource;
  readonly #contents: ReturnType<typeof contentsOf>;
  #isChecked = false;

  constructor(
    where: string,
    batch: RolloutBatch,
    options: StepStateOptions,
    request: StepRequest,
    { correction, unrejected }: { correction: Correction | undefined; unrejected: string | undefined },
  ) {
    const { groups, families } = options;
    this.#where = where;
    this.#batch = batch;
    // The caller may go on changing his options while a first part is read.
    this.#options = {
      ...options,
      ...kept(options),
      groups: groups && Array.from(groups),
      families: families && [...families],
    };
    this.#request = request;
    this.#correction = correction;
    this.#unrejected = unrejected;
    this.#lengths = lengthsSource(where, batch, usesLengthColumns(options.semantics ?? 'recommended'));
    this.#contents = contentsOf(batch, this.#options);
  }

  /** Refuses what a later launch would refuse, and tells what is left out. */
  check(): void {
    this.#settle(
      planFamilies(this.#where, this.#batch, this.#options, { lengths: this.#lengths, existing: undefined }),
    );
  }

  /**
   * Launches the families.
   *
   * @param left the batch that most of them are over
   * @param sampled the same with the response mask before rejection, and with tensors that are alive now
   * @param corrected the tables of the correction, if they were read before
   */
  async over(left: RolloutBatch, sampled: RolloutBatch, corrected?: FamilyTables): Promise<LaunchedStep> {
    const where = this.#where;
    const { semantics = 'recommended', groups } = this.#options;
    const lengths =
      left === this.#batch ? this.#lengths : lengthsSource(where, sampled, usesLengthColumns(semantics));
    const launch = (found: NamedMask | undefined): Pending<LaunchedStep> => {
      // A row that lost its tokens to rejection has been produced all the same.
      const existing = left === sampled || found?.name !== 'response' ? found : { ...found, name: SAMPLED };
      const planned = planFamilies(where, left, this.#options, { lengths, existing }, sampled);
      this.#settle(planned);
      return this.#run(planned, left, lengths, corrected);
    };
    const needsExisting =
      this.#isWanted('data') &&
      (semantics === 'recommended' ||
        lengths.response === undefined ||
        lengths.response instanceof MissingInputError);
    const asksWhichExist = needsExisting || (this.#isWanted('groups') && groups !== undefined);
    return asksWhichExist ? withExistingTokens(where, sampled, launch) : launch(undefined);
  }

  #isWanted(family: StepFamily): boolean {
    return this.#options.families?.includes(family) !== false;
  }

  /** Tells what is left out, once. */
  #settle({ plans, skipped: ofTensors }: FamilyPlans): void {
    if (this.#isChecked) return;
    const { families, onSkipped } = this.#options;
    const { facts } = this.#request;
    const lengths = this.#reasons();
    const { globalTokenNum } = this.#batch;
    const host = { lengths, globalTokenNum: globalTokenNum && NONE, families };
    const skipped: Skipped = {
      ...ofTensors,
      // Also where its own metrics are not wanted: all others are over other tokens than was asked for.
      ...(this.#unrejected !== undefined && { rolloutCorrection: this.#unrejected }),
      ...(facts && skippedOfHost(host, facts)),
    };
    const isTimed = facts?.timing !== undefined && (this.#isWanted('timing') || this.#isWanted('throughput'));
    const tellsTokens = Object.values(lengths).includes(NONE) || globalTokenNum !== undefined;
    const isSilent = facts === undefined ? !tellsTokens : !isTimed;
    if (Object.keys(plans).length === 0 && isSilent) {
      for (const [family, why] of Object.entries(skipped)) onSkipped?.(family as StepFamily, why);
      throw nothingToCompute(this.#where, skipped);
    }
    const missed = missedOf(skipped, this.#batch, this.#options, facts);
    tellSkipped(this.#where, skipped, missed, onSkipped);
    this.#isChecked = true;
  }

  /** Why lengths are unknown; nothing yet for those that will be known. */
  #reasons(): { readonly prompt: Float64Array | string; readonly response: Float64Array | string } {
    const { prompt, response } = this.#lengths;
    const reason = (source: LengthsSource[keyof LengthsSource]): Float64Array | string => {
      if (source === undefined) return 'rows of one step have no lengths';
      return source instanceof MissingInputError ? reasonOf(source) : NONE;
    };
    return { prompt: reason(prompt), response: reason(response) };
  }

  #run(
    { plans, skipped }: FamilyPlans,
    batch: RolloutBatch,
    lengths: LengthsSource,
    corrected: FamilyTables | undefined,
  ): Pending<LaunchedStep> {
    const correction = this.#correction;
    const wantsDecisions = this.#request.wantsDecisions === true && correction !== undefined;
    const asked: Record<string, Plan<FamilyTables>> = wantsDecisions
      ? { rolloutCorrection: correction.plan }
      : {};
    for (const [family, plan] of Object.entries(plans)) asked[family] = unfinished(plan);
    if (corrected !== undefined) delete asked.rolloutCorrection;
    const contents = this.#contents;
    const groups = plans.groups && (this.#options.groups as readonly (string | number)[]);
    const reasons = this.#reasons();
    return runWithLengths<readonly FamilyTables[]>(this.#where, batch, lengths, Object.values(asked)).map(
      ([tables, found]) => {
        const all: Record<string, FamilyTables> = Object.fromEntries(
          Object.keys(asked).map((family, i) => [family, tables[i]!]),
        );
        const ofCorrection = corrected ?? all.rolloutCorrection;
        const own = Object.keys(plans).map(
          (family) => [family, family === 'rolloutCorrection' ? ofCorrection! : all[family]!] as const,
        );
        const state = new StepState({
          ...contents,
          skipped,
          groups,
          tables: Object.fromEntries(own),
          lengths: { prompt: found.prompt ?? reasons.prompt, response: found.response ?? reasons.response },
        });
        if (!wantsDecisions) return { state, decisions: undefined };
        const report = correctionReport(ofCorrection as CorrectionTables, correction.settings);
        return { state, decisions: report.decisions };
      },
    );
  }
}

/** What a state keeps of the batch and the options. */
function contentsOf(
  batch: RolloutBatch,
  options: StepStateOptions,
): Omit<StateContents, 'skipped' | 'groups' | 'tables' | 'lengths'> {
  const { numTurns, toolCallCounts, globalTokenNum } = batch;
  return {
    options: kept(options),
    rows: batch.batchSize,
    families: options.families,
    responseWidth: responseWidthOf(batch),
    promptWidth: promptWidth(batch),
    isFullSequence: batch.isFullSequence,
    numTurns: numTurns && Float64Array.from(numTurns),
    toolCallCounts: toolCallCounts && Float64Array.from(toolCallCounts),
    globalTokenNum: globalTokenNum && Float64Array.from(globalTokenNum),
  };
}

/** Lengths that are known once they are read. */
const NONE = new Float64Array();

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
  population,
  semantics,
}: FamilyOptions): FamilyOptions {
  return {
    maxResponseLength,
    maxPromptLength,
    maxModelLength,
    rolloutCorrection: rolloutCorrection && withOwnThresholds(rolloutCorrection),
    policy: policy && { ...policy },
    rightAbove,
    population,
    semantics,
  };
}

/** A copy that shares no pair with its original. */
function withOwnThresholds(options: RolloutCorrectionOptions): RolloutCorrectionOptions {
  const own = (threshold: Threshold | undefined): Threshold | undefined =>
    typeof threshold === 'object' ? [threshold[0], threshold[1]] : threshold;
  const { rolloutIsThreshold, rolloutRsThreshold } = options;
  return {
    ...options,
    ...(rolloutIsThreshold !== undefined && { rolloutIsThreshold: own(rolloutIsThreshold) }),
    ...(rolloutRsThreshold !== undefined && { rolloutRsThreshold: own(rolloutRsThreshold) }),
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
