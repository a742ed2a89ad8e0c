/** The parts of a step's metrics: what each asks of the tensors of a batch, and what it makes of the answer. */
import { assertOptions, kindOf } from '../../arguments.js';
import { MissingInputError, ValueError } from '../../errors.js';
import { meantName } from '../../meant-name.js';
import type { MomentsTable } from '../../rows/index.js';
import type { RolloutBatch } from '../batch/batch.js';
import type { RowFacts } from '../batch/lengths.js';
import {
  type DataRows,
  type DataTables,
  type LengthCaps,
  dataMetricsOf,
  dataPlan,
  hasRowMetrics,
} from '../data.js';
import {
  type GroupId,
  type GroupMetricsOptions,
  type GroupTables,
  groupMetricsOf,
  groupPlan,
} from '../groups.js';
import type { Metrics } from '../numbers/statistics.js';
import type { MissingInput, PartialPlan, Plan } from '../plan.js';
import { klMetricsOf, klPlan } from '../policy/kl.js';
import { type PolicyMetricsOptions, policyMetricsOf, policyPlan } from '../policy/policy.js';
import {
  type CorrectionTables,
  correctionReport,
  rolloutCorrectionPlan,
} from '../rollout-correction/correction.js';
import { type DebugTables, debugMetricsOf, debugPlan } from '../rollout-correction/debug.js';
import { type RolloutCorrectionOptions, correctionSettings } from '../rollout-correction/options.js';
import { type Semantics, assertSemantics } from '../semantics.js';
import { type VarianceProxyTables, varianceProxyMetricsOf, varianceProxyPlan } from '../variance-proxy.js';

/** The parts of `computeStepMetrics` that look at tensors. */
export const tensorFamilies = [
  'data',
  'varianceProxy',
  'rolloutCorrection',
  'debug',
  'policy',
  'kl',
  'groups',
] as const;
export type TensorFamily = (typeof tensorFamilies)[number];

/** The parts of `computeStepMetrics`, each the metrics of one `compute…` function. */
export const stepFamilies = [...tensorFamilies, 'timing', 'throughput'] as const;
export type StepFamily = (typeof stepFamilies)[number];

/** Which tokens metrics are over where the rollout correction rejects some: those that are left, or all. */
export const populations = ['kept', 'all'] as const;
export type Population = (typeof populations)[number];

/** What the families are asked to do; the same for all parts of a step that are merged. */
export interface FamilyOptions extends LengthCaps {
  /** Options of `computeRolloutCorrection`, whose metrics need rollout_log_probs. `correctedStep` also gives its tensors. */
  readonly rolloutCorrection?: Omit<RolloutCorrectionOptions, 'semantics'> | undefined;
  /** Options of `computePolicyMetrics`. */
  readonly policy?: Omit<PolicyMetricsOptions, 'semantics'> | undefined;
  /**
   * The tokens that metrics are over where `rolloutCorrection.rolloutRs` rejects some. Default `'kept'`, as in verl: the
   * response mask of all families is what rejection leaves, but that of `rollout_corr/*`, which are over all. Lengths,
   * scores and rewards of rows stay: a rejected row has been produced. `'all'`: nothing is taken away.
   */
  readonly population?: Population | undefined;
  /** See `computeGroupMetrics`. */
  readonly rightAbove?: number | undefined;
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

/** What a part of a step is computed from. */
export interface StepStateOptions extends FamilyOptions {
  /**
   * Whether there is a critic: with true, values and returns that the batch lacks are an error, with false nothing is said
   * of values. Default: what the batch has of them.
   */
  readonly useCritic?: boolean | undefined;
  /** The prompt of every row, for the metrics of `computeGroupMetrics`. */
  readonly groups?: ArrayLike<GroupId> | undefined;
  /** The families that are wanted; default all. Those that are not are not looked at. */
  readonly families?: readonly StepFamily[] | undefined;
  /**
   * Called with every family that is wanted and left out, or of which some keys are, and the inputs that it lacks. Without
   * it a warning tells, once for every set of inputs, of families that an option asks for, and of those that the batch has
   * columns of their own for.
   */
  readonly onSkipped?: ((family: StepFamily, reason: string) => void) | undefined;
}

/** The kinds of `StepStateOptions`, for `assertOptions`. */
export const stateKinds = {
  useCritic: 'boolean',
  maxResponseLength: 'any',
  maxPromptLength: 'any',
  maxModelLength: 'any',
  rolloutCorrection: 'object',
  policy: 'object',
  population: 'any',
  groups: 'any',
  rightAbove: 'number',
  semantics: 'any',
  families: 'any',
  onSkipped: 'function',
} as const;

/** @throws ValueError for anything else than a population */
export function assertPopulation(where: string, population: unknown): void {
  if (population === undefined || (populations as readonly unknown[]).includes(population)) return;
  throw new ValueError({
    where,
    input: 'options.population',
    expected: `one of ${populations.join(', ')}`,
    received: kindOf(population),
    remedy: "leave it out for 'kept', the tokens that rejection leaves",
  });
}

/** Options of the families that have an object of their own. */
const NESTED = {
  rolloutCorrection: ['rolloutIs', 'rolloutIsThreshold', 'rolloutRs', 'rolloutRsThreshold', 'batchNormalize'],
  policy: ['clipRatio', 'clipRatioLow', 'clipRatioHigh', 'clipRatioC', 'cliprangeValue', 'klLossType'],
} as const satisfies {
  readonly rolloutCorrection: readonly (keyof RolloutCorrectionOptions)[];
  readonly policy: readonly (keyof PolicyMetricsOptions)[];
};

/** @throws ValueError for an option beside the object that it belongs into */
export function assertNested(where: string, options: unknown): void {
  if (typeof options !== 'object' || options === null) return;
  for (const [part, names] of Object.entries<readonly string[]>(NESTED)) {
    const name = names.find((one) => (options as Readonly<Record<string, unknown>>)[one] !== undefined);
    if (name === undefined) continue;
    throw new ValueError({
      where,
      input: `options.${name}`,
      expected: `${name} in options.${part}`,
      received: 'it beside the others',
      remedy: `pass ${part}: { ${name} }`,
    });
  }
}

/** @throws ValueError for what is not the same everywhere in a step, or is no family */
export function assertStateOptions(where: string, options: StepStateOptions): void {
  assertSemantics(where, options.semantics ?? 'recommended');
  assertPopulation(where, options.population);
  for (const part of ['rolloutCorrection', 'policy'] as const) {
    const own = options[part] as { readonly semantics?: unknown } | undefined;
    if (own?.semantics === undefined) continue;
    throw new ValueError({
      where,
      input: `options.${part}.semantics`,
      expected: 'no semantics of its own',
      received: kindOf(own.semantics),
      remedy: 'pass options.semantics, which is for all families',
    });
  }
  const families: unknown = options.families;
  if (families === undefined) return;
  const isKnown = (family: unknown): boolean => (stepFamilies as readonly unknown[]).includes(family);
  // A hole in a list is passed over by `every`, and by nothing that looks for it.
  const list: readonly unknown[] | undefined = Array.isArray(families) ? Array.from(families) : undefined;
  if (list !== undefined && list.length > 0 && list.every(isKnown)) return;
  const stranger = list?.find((family) => !isKnown(family));
  const meant = typeof stranger === 'string' ? meantName(stranger, stepFamilies) : undefined;
  throw new ValueError({
    where,
    input: 'options.families',
    expected: `a list of some of ${stepFamilies.join(', ')}`,
    received:
      list === undefined
        ? kindOf(families)
        : list.length === 0
          ? 'an empty list'
          : kindOf(list.find((family) => !isKnown(family))),
    remedy: `${meant === undefined ? '' : `did you mean ${meant}? `}leave it out for all that the batch allows`,
  });
}

/** Why a family is missing, or some of its keys are. */
export type Skipped = Readonly<Partial<Record<StepFamily, string>>>;

/** What the families ask of the response part, and what those that lack an input leave out. */
export interface FamilyPlans {
  readonly plans: Readonly<Partial<Record<TensorFamily, Plan<unknown>>>>;
  readonly skipped: Partial<Record<StepFamily, string>>;
}

/**
 * Plans all wanted families, as far as the batch allows.
 *
 * @param sampled the batch with the response mask before rejection, which the rollout correction is over
 * @throws as the single functions do for inputs and options that do not fit; what lacks an input is skipped instead,
 *   unless the options say that it must be there
 */
export function planFamilies(
  where: string,
  batch: RolloutBatch,
  options: StepStateOptions,
  rows: DataRows,
  sampled: RolloutBatch = batch,
): FamilyPlans {
  const { semantics = 'recommended', useCritic } = options;
  const { maxResponseLength, maxPromptLength, maxModelLength, rightAbove, groups, families } = options;
  const plans: Partial<Record<TensorFamily, Plan<unknown>>> = {};
  const skipped: Partial<Record<StepFamily, string>> = {};
  const isWanted = (family: TensorFamily): boolean => families?.includes(family) !== false;
  const offer = (family: TensorFamily, make: () => Plan<unknown> | string): void => {
    if (!isWanted(family)) return;
    const made = unlessMissing(make);
    if (made instanceof MissingInputError) skipped[family] = reasonOf(made);
    else if (typeof made === 'string') skipped[family] = made;
    else plans[family] = made;
  };
  const offerParts = (
    family: TensorFamily,
    make: () => PartialPlan<unknown>,
    hasMore: () => boolean = () => false,
  ): void => {
    if (!isWanted(family)) return;
    const made = unlessMissing(make);
    if (made instanceof MissingInputError) {
      skipped[family] = reasonOf(made);
      return;
    }
    const { plan, missing } = made;
    const required = missing.find(({ isRequired = false }) => isRequired);
    if (required !== undefined) throw required.error;
    if (missing.length > 0) skipped[family] = missing.map(reasonOfPart).join('; ');
    if (Object.keys(plan.channels).length > 0 || hasMore()) plans[family] = plan;
  };
  offerParts(
    'data',
    () =>
      dataPlan(
        batch,
        rows,
        { useCritic, maxResponseLength, maxPromptLength, maxModelLength, semantics },
        where,
      ),
    () => hasRowMetrics(batch, rows),
  );
  offer(
    'varianceProxy',
    () =>
      varianceProxyPlan(batch, { semantics }, where) ??
      'the batch lacks an input, of which this revision says nothing',
  );
  offer('rolloutCorrection', () => {
    const asked = { ...options.rolloutCorrection, semantics };
    const plan = rolloutCorrectionPlan(sampled, asked, where, 'options.rolloutCorrection');
    return sampled === batch ? plan : overSampled(plan);
  });
  offer('debug', () => debugPlan(batch, where));
  offerParts('policy', () => policyPlan(batch, { ...options.policy, semantics }, where, 'options.policy'));
  if (isWanted('policy') && plans.policy === undefined) {
    skipped.policy ??= 'the batch has nothing that an update computed';
  }
  offer('kl', () => klPlan(batch, { semantics }, where));
  if (groups !== undefined) {
    offerParts('groups', () => groupPlan(batch, rows.existing, groups, { rightAbove }, where));
  } else offer('groups', () => 'options.groups is missing');
  return { plans, skipped };
}

/** What passes call the response mask before rejection, beside the one that is left. */
export const SAMPLED = 'sampled';

/** The plan of a correction with that mask. */
export function overSampled<T>(plan: Plan<T>): Plan<T> {
  const channels = Object.entries(plan.channels).map(
    ([name, channel]) =>
      [name, channel.mask === undefined ? channel : { ...channel, mask: SAMPLED }] as const,
  );
  return {
    ...plan,
    masks: { [SAMPLED]: plan.masks.response },
    channels: Object.fromEntries(channels),
  };
}

/** What `make` returns, or the input that it misses. */
export function unlessMissing<T>(make: () => T): T | MissingInputError {
  try {
    return make();
  } catch (error) {
    if (error instanceof MissingInputError) return error;
    throw error;
  }
}

export function reasonOf({ input, expected }: MissingInputError): string {
  return `${input ?? 'an input'} is missing: expected ${expected}`;
}

function reasonOfPart({ error, keys }: MissingInput): string {
  return `${reasonOf(error)}, for ${keys}`;
}

/** What rows are finished with: facts of the rows, and of the step as a whole. */
export interface FinishingFacts {
  readonly rows: RowFacts;
  readonly groups: readonly GroupId[];
  readonly options: FamilyOptions;
  readonly gradientNorm: number | undefined;
}

/** The tables of a family by channel, one row per row of the batch. */
export type FamilyTables = Readonly<Record<string, MomentsTable>>;

/** The metrics of a family from the tables of its plan. */
export function finishFamily(
  where: string,
  family: TensorFamily,
  tables: FamilyTables,
  { rows, groups, options, gradientNorm }: FinishingFacts,
): Metrics {
  const {
    semantics = 'recommended',
    maxResponseLength,
    maxPromptLength,
    maxModelLength,
    rightAbove,
  } = options;
  // The tables are those of the family's own plan.
  const given = tables as unknown;
  switch (family) {
    case 'data':
      return dataMetricsOf(given as DataTables, rows, {
        semantics,
        maxResponseLength,
        maxPromptLength,
        maxModelLength,
      });
    case 'varianceProxy':
      return varianceProxyMetricsOf(given as VarianceProxyTables, { semantics, gradientNorm });
    case 'rolloutCorrection': {
      const settings = correctionSettings(where, { ...options.rolloutCorrection, semantics });
      return correctionReport(given as CorrectionTables, settings).metrics;
    }
    case 'debug':
      return debugMetricsOf(given as DebugTables);
    case 'policy':
      return policyMetricsOf(tables, rows.responseWidth ?? 0, { ...options.policy, semantics }, where);
    case 'kl':
      return klMetricsOf(tables, semantics);
    case 'groups': {
      const checked: GroupMetricsOptions = { rightAbove };
      return groupMetricsOf(given as GroupTables, groups, checked);
    }
  }
}

/** Refuses everything that is no set of options of a step, see `assertOptions`. */
export function assertStepStateOptions(where: string, options: StepStateOptions): void {
  assertNested(where, options);
  assertOptions(where, options, stateKinds);
  assertStateOptions(where, options);
}
