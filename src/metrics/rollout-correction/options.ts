/** What a rollout correction is asked to do: the spellings of its options, read once and checked. */
import { assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { Told, warn } from '../../warning.js';
import { type Semantics, assertSemantics } from '../semantics.js';

/** What shares one importance weight: a token, or all tokens of a row. */
export const weightLevels = ['token', 'sequence'] as const;
export type WeightLevel = (typeof weightLevels)[number];

/** A threshold as verl writes it, a number or a text, or a range as a pair of numbers. */
export type Threshold = number | string | readonly [lower: number, upper: number];

/** Options of `computeRolloutCorrection`; the names are verl's in camel case. */
export interface RolloutCorrectionOptions {
  /** Makes importance weights π_train / π_rollout per token or per sequence. Left out: none. */
  readonly rolloutIs?: WeightLevel | undefined;
  /**
   * A number, or its text, truncates weights to that upper bound; `'lower_upper'` or `[lower, upper]` (IcePop) zeroes
   * weights outside of the range. Default 2. Another one without `rolloutIs` is warned of.
   */
  readonly rolloutIsThreshold?: Threshold | undefined;
  /** What tokens or sequences are rejected by: some of `rejectionNames`, separated by commas. Left out: nothing. */
  readonly rolloutRs?: string | undefined;
  /**
   * One threshold for all, or one for each of `rolloutRs`, separated by commas. k1 takes `'lower_upper'`, bounds of
   * the ratio π_rollout / π_train, or `u` for `'1/u_u'`; k2 and k3 take the largest value that is kept. A pair
   * `[lower, upper]` is the range `'lower_upper'`, for all of `rolloutRs`. Without `rolloutRs` it is warned of.
   */
  readonly rolloutRsThreshold?: Threshold | undefined;
  /**
   * Divides the weights by their mean over the batch: over tokens or over sequences, of the finite weights that are not
   * rejected (the verl presets: of all). Default false.
   */
  readonly batchNormalize?: boolean | undefined;
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

/** Estimators of the divergence of the two policies, of x = log π_train − log π_rollout: −x, x²/2 and eˣ − 1 − x. */
export type Estimator = 'k1' | 'k2' | 'k3';
/** What a rejection compares with its threshold. */
export type Aggregate = 'token' | 'seq_sum' | 'seq_mean' | 'seq_max';

/** What `rolloutRs` can name. */
export const rejectionNames = [
  'token_k1',
  'token_k2',
  'token_k3',
  'seq_sum_k1',
  'seq_sum_k2',
  'seq_sum_k3',
  'seq_mean_k1',
  'seq_mean_k2',
  'seq_mean_k3',
  'seq_max_k2',
  'seq_max_k3',
] as const;
export type RejectionName = (typeof rejectionNames)[number];

/** One criterion of rejection. */
export interface Rejection {
  readonly name: RejectionName;
  readonly aggregate: Aggregate;
  readonly estimator: Estimator;
  /** Smallest value that is kept; −Infinity for k2 and k3, which are never negative. */
  readonly lower: number;
  /** Largest value that is kept. */
  readonly upper: number;
}

/** How weights are made. */
export interface Weighting {
  readonly level: WeightLevel;
  /** Weights above it are truncated, or zeroed if there is a `lower`. */
  readonly upper: number;
  /** Weights below it are zeroed. */
  readonly lower: number | undefined;
  readonly batchNormalize: boolean;
}

/** Checked options. */
export interface CorrectionSettings {
  readonly semantics: Semantics;
  readonly weighting: Weighting | undefined;
  /** Each name once. */
  readonly rejections: readonly Rejection[];
}

/**
 * Reads the options.
 *
 * @param as what the caller knows the options as
 * @throws ValueError naming the option and what it can be
 */
export function correctionSettings(
  where: string,
  options: RolloutCorrectionOptions,
  as = 'options',
): CorrectionSettings {
  const kinds = {
    rolloutIs: 'string',
    rolloutIsThreshold: 'any',
    rolloutRs: 'any',
    rolloutRsThreshold: 'any',
    batchNormalize: 'boolean',
    semantics: 'any',
  } as const;
  assertOptions(where, options, kinds, as);
  const at: Place = { where, as };
  const { rolloutIs, rolloutIsThreshold = DEFAULT_IS_THRESHOLD, rolloutRs, rolloutRsThreshold } = options;
  const { batchNormalize = false, semantics = 'recommended' } = options;
  assertSemantics(where, semantics);
  assertRules(at, rolloutRs);
  warnOfUnused(at, options);
  const level = rolloutIs === undefined ? undefined : weightLevel(at, rolloutIs);
  const bounds = weightBounds(at, spelledRange(rolloutIsThreshold));
  return {
    semantics,
    weighting: level && { level, ...bounds, batchNormalize },
    rejections: rolloutRs === undefined ? [] : rejectionsOf(at, rolloutRs, spelledRange(rolloutRsThreshold)),
  };
}

/** verl's configuration has it whether there are weights or not. */
const DEFAULT_IS_THRESHOLD = 2;

/** @throws ValueError for rules that are no text */
function assertRules({ where, as }: Place, rules: unknown): void {
  if (rules === undefined || typeof rules === 'string') return;
  throw new ValueError({
    where,
    input: `${as}.rolloutRs`,
    expected: 'names separated by commas',
    received: kindOf(rules),
    remedy: Array.isArray(rules)
      ? "join them with commas, e.g. 'token_k1,seq_max_k3'"
      : 'leave it out to reject nothing',
  });
}

function isThresholdOf(threshold: unknown, upper: number): boolean {
  return typeof threshold === 'string' ? Number(threshold) === upper : threshold === upper;
}

/** Warns, once per process and option, of an option that acts only beside another one, which is not there. */
function warnOfUnused({ where, as }: Place, options: RolloutCorrectionOptions): void {
  const { rolloutIs, rolloutIsThreshold = DEFAULT_IS_THRESHOLD, rolloutRs, rolloutRsThreshold } = options;
  const isDefault = isThresholdOf(rolloutIsThreshold, DEFAULT_IS_THRESHOLD);
  const unused: readonly [name: keyof RolloutCorrectionOptions, isUnused: boolean, needed: string][] = [
    ['rolloutIsThreshold', rolloutIs === undefined && !isDefault, "rolloutIs: 'token'"],
    ['batchNormalize', rolloutIs === undefined && options.batchNormalize === true, "rolloutIs: 'token'"],
    [
      'rolloutRsThreshold',
      rolloutRs === undefined && rolloutRsThreshold !== undefined,
      "rolloutRs: 'token_k1'",
    ],
  ];
  for (const [name, isUnused, needed] of unused) {
    if (!isUnused || told.fresh([name]).length === 0) continue;
    warn(
      'TENSORTALLY_UNUSED_OPTION',
      `${where}: ${as}.${name} does nothing without ${needed.split(':')[0]!}: pass e.g. ${needed} too, or leave ${name} out`,
    );
  }
}

const told = new Told();

/** A pair of numbers as verl spells it; anything else as it is. */
function spelledRange(threshold: unknown): unknown {
  const isPair =
    Array.isArray(threshold) && threshold.length === 2 && threshold.every((end) => typeof end === 'number');
  return isPair ? threshold.join('_') : threshold;
}

/** The public function, and what its caller knows the options as. */
interface Place {
  readonly where: string;
  readonly as: string;
}

function weightLevel({ where, as }: Place, given: string): WeightLevel {
  const level = weightLevels.find((name) => name === given);
  if (level !== undefined) return level;
  throw new ValueError({
    where,
    input: `${as}.rolloutIs`,
    expected: `one of ${weightLevels.join(', ')}`,
    received: kindOf(given),
    remedy: 'leave it out for no weights',
  });
}

const WEIGHT_THRESHOLD = {
  expected: "a positive number, or a range of two as 'lower_upper' or [lower, upper]",
  remedy: "pass e.g. 2 to truncate weights, or '0.5_5' to zero what is outside of a range",
};

function weightBounds({ where, as }: Place, threshold: unknown): Pick<Weighting, 'lower' | 'upper'> {
  const read = typeof threshold === 'string' ? rangeOf(threshold) : { upper: threshold };
  if (isRange(read)) return { lower: read.lower, upper: read.upper };
  const input = `${as}.rolloutIsThreshold`;
  throw new ValueError({ where, input, ...WEIGHT_THRESHOLD, received: kindOf(threshold) });
}

function rejectionsOf(at: Place, given: string, threshold: unknown): Rejection[] {
  const names = [...new Set(partsOf(given))];
  const stranger = names.find((name) => !(rejectionNames as readonly string[]).includes(name));
  if (names.length === 0 || stranger !== undefined) {
    throw new ValueError({
      where: at.where,
      input: `${at.as}.rolloutRs`,
      expected: `names from ${rejectionNames.join(', ')}, separated by commas`,
      received: kindOf(stranger ?? given),
      remedy: 'leave it out to reject nothing',
    });
  }
  const specs = thresholdsOf(at, names, threshold);
  return names.map((name, i) => rejectionOf(at, name as RejectionName, specs[i]!));
}

/** As many thresholds as names. */
function thresholdsOf({ where, as }: Place, names: readonly string[], threshold: unknown): string[] {
  const isGiven = typeof threshold === 'string' || typeof threshold === 'number';
  const specs = isGiven ? partsOf(String(threshold)) : [];
  if (specs.length === names.length) return specs;
  if (specs.length === 1) return names.map(() => specs[0]!);
  throw new ValueError({
    where,
    input: `${as}.rolloutRsThreshold`,
    expected:
      names.length === 1
        ? `one threshold, for ${names[0]!}`
        : `one threshold, or ${names.length} separated by commas, one for each of ${names.join(', ')}`,
    received: kindOf(threshold),
    remedy: "pass e.g. '0.5_2' for k1, '0.1' for k2 and k3",
  });
}

function rejectionOf({ where, as }: Place, name: RejectionName, spec: string): Rejection {
  const estimator = name.slice(-2) as Estimator;
  const aggregate = name.slice(0, -3) as Aggregate;
  const read = rangeOf(spec);
  const isRatio = estimator === 'k1';
  const { lower = isRatio ? 1 / read.upper : undefined, upper } = read;
  if (isRange({ lower, upper }) && isRatio === (lower !== undefined)) {
    // k1 of a ratio r = π_rollout / π_train is log r.
    const kept = isRatio ? { lower: Math.log(lower!), upper: Math.log(upper) } : { lower: -Infinity, upper };
    return { name, aggregate, estimator, ...kept };
  }
  throw new ValueError({
    where,
    input: `${as}.rolloutRsThreshold`,
    expected: isRatio
      ? `for ${name} a positive range 'lower_upper' with lower ≤ upper, or one number ≥ 1`
      : `for ${name} one positive number, the largest value that is kept`,
    received: kindOf(spec),
    remedy: isRatio ? "pass e.g. '0.5_2', bounds of π_rollout / π_train" : "pass e.g. '0.1'",
  });
}

function partsOf(list: string): string[] {
  return list
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** `'lower_upper'`, or `'upper'` alone; NaN where there is no number. */
function rangeOf(spec: string): { readonly lower?: number; readonly upper: number } {
  const cut = spec.indexOf('_');
  if (cut === -1) return { upper: numberOf(spec) };
  return { lower: numberOf(spec.slice(0, cut)), upper: numberOf(spec.slice(cut + 1)) };
}

function numberOf(text: string): number {
  const trimmed = text.trim();
  return /^[\d.eE+-]+$/.test(trimmed) ? Number(trimmed) : NaN;
}

/** Positive and in order. */
function isRange(range: {
  readonly lower?: unknown;
  readonly upper: unknown;
}): range is { readonly lower: number | undefined; readonly upper: number } {
  const { lower, upper } = range;
  const isBound = (x: unknown): x is number => typeof x === 'number' && x > 0 && x < Infinity;
  return isBound(upper) && (lower === undefined || (isBound(lower) && lower <= upper));
}
