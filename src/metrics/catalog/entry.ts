/** What the catalogue says of one metric, and the words that many entries share. */
import type { StepFamily } from '../step/families.js';

/** The parts of the catalogue: those of a step, what is computed beside it, and what only the trainer knows. */
export type CatalogFamily = StepFamily | 'sequenceBalance' | 'moe' | 'validation' | 'trainer';

/** Values that a metric can have, both ends included; an end that is left out is an infinity. */
export interface MetricRange {
  readonly low?: number;
  readonly high?: number;
  /** Whether only whole numbers occur. */
  readonly isWhole?: boolean;
}

/** How the numbers of the population become one. */
export type MetricReduction =
  | 'mean'
  | 'max'
  | 'min'
  | 'sum'
  | 'std'
  | 'fraction'
  | 'count'
  | 'difference'
  | 'ratio'
  | 'correlation'
  | 'indicator'
  /** As the option `lossAggMode` says, see `aggLoss`. */
  | 'lossAggMode';

/** One metric, or several whose keys differ in what stands for a placeholder. */
export interface CatalogEntry {
  /** The key; `{name}` stands for a placeholder. */
  readonly key: string;
  /** What a placeholder stands for: one of a list, a number, or any text. */
  readonly placeholders?: Readonly<Record<string, readonly string[] | 'number' | 'text'>>;
  readonly family: CatalogFamily;
  /** `1` for plain numbers and shares. */
  readonly unit: string;
  /** What the number is about: which tokens, rows, prompts, ranks. */
  readonly population: string;
  readonly reduction: MetricReduction;
  /**
   * Of inputs that are what they are called: probabilities at most 1, weights and times not negative. Infinite inputs
   * give infinite results.
   */
  readonly range: MetricRange;
  /** Where the verl presets leave `range`. */
  readonly presetRange?: MetricRange;
  readonly formula: string;
  /** When it is NaN; left out if it never is. */
  readonly undefinedWhen?: string;
  /** Where the definition comes from. */
  readonly source: string;
}

/** The entry but for what its family says once for all. */
export type FamilyEntry = Omit<CatalogEntry, 'family' | 'source'> & Partial<Pick<CatalogEntry, 'source'>>;

/** Adds what all entries of a family share. */
export function ofFamily(
  family: CatalogFamily,
  source: string,
  entries: readonly FamilyEntry[],
): CatalogEntry[] {
  return entries.map((entry) => ({ ...entry, family, source: entry.source ?? source }));
}

export const ANY: MetricRange = {};
export const AT_LEAST_0: MetricRange = { low: 0 };
export const SHARE: MetricRange = { low: 0, high: 1 };
export const COUNT: MetricRange = { low: 0, isWhole: true };

/** Why a number over tokens is undefined. */
export const NO_TOKEN = 'no token is selected, or a NaN is among them';

/** The metrics `{key}/mean`, `{key}/max` and `{key}/min`, whose entries differ in the reduction alone. */
export function meanMaxMinEntries(shared: Omit<FamilyEntry, 'reduction'>): FamilyEntry[] {
  const { low, high } = shared.range;
  // A mean of whole numbers need not be one.
  const ofMean = { ...(low !== undefined && { low }), ...(high !== undefined && { high }) };
  return (['mean', 'max', 'min'] as const).map((reduction) => ({
    ...shared,
    key: `${shared.key}/${reduction}`,
    reduction,
    range: reduction === 'mean' ? ofMean : shared.range,
  }));
}
