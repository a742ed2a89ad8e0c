/** What a step left out and its caller would miss: what he asked for, and what he put columns into the batch for. */
import { type RolloutBatch, isOneStep } from '../batch/batch.js';
import type { Skipped, StepFamily, StepStateOptions, TensorFamily } from './families.js';
import type { StepFacts } from './state.js';

/** The columns that a batch has for the sake of a family; others, such as old_log_probs, serve several. */
const OWN_COLUMNS: Readonly<Record<TensorFamily, readonly (keyof RolloutBatch)[]>> = {
  data: [
    ...(['tokenLevelScores', 'tokenLevelRewards', 'advantages', 'returns', 'values'] as const),
    ...(['attentionMask', 'promptLength', 'responseLength'] as const),
  ],
  varianceProxy: ['sumPiSquared'],
  rolloutCorrection: ['rolloutLogProbs'],
  debug: ['rolloutLogProbs'],
  policy: ['logProbs', 'entropys', 'valuePredictions'],
  kl: ['refLogProbs'],
  groups: [],
};

/** Those of the reasons that are worth a warning. */
export function missedOf(
  skipped: Skipped,
  batch: RolloutBatch,
  options: StepStateOptions,
  facts: StepFacts = {},
): Skipped {
  const isMissed = (family: StepFamily): boolean =>
    options.families !== undefined || isAskedFor(family, batch, options, facts) || hasColumns(family, batch);
  return Object.fromEntries(Object.entries(skipped).filter(([family]) => isMissed(family as StepFamily)));
}

function hasColumns(family: StepFamily, batch: RolloutBatch): boolean {
  if (family === 'timing' || family === 'throughput') return false;
  return OWN_COLUMNS[family].some((field) => batch[field] !== undefined);
}

/** Whether an option is there that is for this family alone. */
function isAskedFor(
  family: StepFamily,
  batch: RolloutBatch,
  { useCritic, rolloutCorrection, policy, groups }: StepStateOptions,
  { timing, nGpus, gradientNorm }: StepFacts,
): boolean {
  switch (family) {
    case 'data':
      return useCritic === true;
    case 'varianceProxy':
      return gradientNorm !== undefined;
    case 'rolloutCorrection':
      return rolloutCorrection !== undefined;
    case 'policy':
      return policy !== undefined;
    case 'groups':
      return groups !== undefined;
    case 'timing':
      // Nobody asks how long a token of one step takes.
      return timing !== undefined && !isOneStep(batch);
    case 'throughput':
      return nGpus !== undefined || timing?.step !== undefined;
    case 'debug':
    case 'kl':
      return false;
  }
}
