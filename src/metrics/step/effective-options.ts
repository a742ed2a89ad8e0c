/** What the options of a step come to, defaults, synonyms and order of writing aside: what parts must agree on to merge. */
import { assertOptions } from '../../arguments.js';
import { MissingInputError } from '../../errors.js';
import { assertCap } from '../data.js';
import { assertThreshold } from '../groups.js';
import { type CheckedPolicyOptions, checkedPolicyOptions } from '../policy/policy.js';
import { correctionSettings } from '../rollout-correction/options.js';
import { assertSemantics } from '../semantics.js';
import {
  type FamilyOptions,
  type StepFamily,
  assertPopulation,
  reasonOf,
  stepFamilies,
  unlessMissing,
} from './families.js';

/** By the name of the option, a text that is equal for options of equal effect. */
export type EffectiveOptions = Readonly<Record<string, string>>;

/**
 * The options in effect.
 *
 * @throws ValueError for options that no step has
 */
export function effectiveOptions(
  where: string,
  options: FamilyOptions,
  families: readonly StepFamily[] | undefined,
): EffectiveOptions {
  assertOptions(where, options, {
    maxResponseLength: 'any',
    maxPromptLength: 'any',
    maxModelLength: 'any',
    rolloutCorrection: 'object',
    policy: 'object',
    population: 'any',
    rightAbove: 'number',
    semantics: 'any',
  });
  const {
    semantics = 'recommended',
    maxResponseLength,
    maxPromptLength,
    maxModelLength,
    rightAbove = 0.5,
  } = options;
  assertSemantics(where, semantics);
  assertPopulation(where, options.population);
  assertCap(where, 'maxResponseLength', maxResponseLength);
  assertCap(where, 'maxPromptLength', maxPromptLength);
  assertCap(where, 'maxModelLength', maxModelLength);
  assertThreshold(where, rightAbove);
  const correction = { ...options.rolloutCorrection, semantics };
  const { weighting, rejections } = correctionSettings(where, correction, 'options.rolloutCorrection');
  const policy = { ...options.policy, semantics };
  const checked = unlessMissing(() => checkedPolicyOptions(where, policy, 'options.policy'));
  return Object.fromEntries(
    Object.entries<Value | readonly Value[]>({
      semantics,
      families: stepFamilies.filter((family) => families?.includes(family) !== false),
      maxResponseLength,
      maxPromptLength,
      maxModelLength,
      rightAbove,
      // Where nothing is rejected, both are the same tokens.
      population: rejections.length === 0 ? 'all' : (options.population ?? 'kept'),
      'rolloutCorrection.rolloutIs': weighting?.level,
      'rolloutCorrection.rolloutIsThreshold': weighting && [weighting.lower, weighting.upper],
      'rolloutCorrection.batchNormalize': weighting?.batchNormalize,
      'rolloutCorrection.rolloutRs': rejections.map(({ name }) => name).sort(),
      'rolloutCorrection.rolloutRsThreshold': rejections
        .map(({ name, lower, upper }) => [name, lower, upper].join(' '))
        .sort(),
      // Options that lack one leave the policy metrics out.
      ...(checked instanceof MissingInputError ? { policy: reasonOf(checked) } : policyOptions(checked)),
    }).map(([name, value]) => [name, spelled(value)]),
  );
}

function policyOptions({
  aggregation,
  range,
  valueRange,
  ...kinds
}: CheckedPolicyOptions): Record<string, Value> {
  return {
    'policy.clipRatioLow': range.low,
    'policy.clipRatioHigh': range.high,
    'policy.clipRatioC': range.dual,
    'policy.cliprangeValue': valueRange,
    'policy.klLossType': kinds.klLossType,
    'policy.klPenalty': kinds.klPenaltyKind,
    'policy.lossAggMode': aggregation.lossAggMode,
    'policy.lossScaleFactor': aggregation.lossScaleFactor,
    'policy.dpSize': aggregation.dpSize,
    'policy.batchNumTokens': aggregation.batchNumTokens,
    'policy.globalBatchSize': aggregation.globalBatchSize,
  };
}

type Value = string | number | boolean | undefined;

/** As a reader would write it; JSON has no infinities. */
function spelled(value: Value | readonly Value[]): string {
  if (typeof value === 'object') return value.length === 0 ? 'none' : value.map(spelled).join(', ');
  return value === undefined ? 'none' : String(value);
}
