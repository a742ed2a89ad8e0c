/** Catalogue: what a step is fed with, and what it costs. */
import {
  ANY,
  AT_LEAST_0,
  COUNT,
  type CatalogEntry,
  type FamilyEntry,
  NO_TOKEN,
  SHARE,
  meanMaxMinEntries,
  ofFamily,
} from './entry.js';

const RESPONDED = 'rows with a response token';
const SELECTED = 'tokens of response_mask';
const NO_ROW = 'the batch has no row';

function ofRows(key: string, tensor: string): FamilyEntry[] {
  return meanMaxMinEntries({
    key,
    unit: 'reward',
    population: RESPONDED,
    range: ANY,
    formula: `Σ of ${tensor} over the row's tokens of attention_mask (without one, response_mask) or before its column response_length`,
    undefinedWhen: 'no row has a response token, or a NaN is among the tokens',
  });
}

function ofTokens(key: string, field: string): FamilyEntry[] {
  return meanMaxMinEntries({
    key,
    unit: 'reward',
    population: SELECTED,
    range: ANY,
    formula: field,
    undefinedWhen: NO_TOKEN,
  });
}

function lengths(
  key: string,
  what: { readonly population: string; readonly tokens: string; readonly none: string },
): FamilyEntry[] {
  const { population, tokens, none } = what;
  return meanMaxMinEntries({
    key,
    unit: 'tokens',
    population,
    range: COUNT,
    formula: `${tokens} tokens of the row: its column ${tokens}_length, else counted in attention_mask`,
    undefinedWhen: none,
  });
}

function clipped(
  key: string,
  what: { readonly population: string; readonly formula: string; readonly none: string },
): FamilyEntry {
  const { population, formula, none } = what;
  return { key, unit: '1', population, reduction: 'fraction', range: SHARE, formula, undefinedWhen: none };
}

function counts(key: string, field: string): FamilyEntry[] {
  return meanMaxMinEntries({
    key,
    unit: '1',
    population: 'all rows, if the batch has them',
    range: COUNT,
    formula: field,
    undefinedWhen: NO_ROW,
  });
}

const NONE_RESPONDED = 'no row has a response token';
const REACHED_CAP =
  'length ≥ maxResponseLength (without that option: length = T), or with the prompt ≥ maxModelLength';
const NO_CAP = 'neither of these options with whole sequences, whose T holds prompts, too, or without T';

const data: readonly FamilyEntry[] = [
  ...ofRows('critic/score', 'token_level_scores'),
  ...ofRows('critic/rewards', 'token_level_rewards'),
  ...ofTokens('critic/advantages', 'advantages; the mean is about 0 where they were normalised'),
  ...ofTokens('critic/returns', 'returns'),
  ...ofTokens('critic/values', 'values'),
  {
    key: 'critic/vf_explained_var',
    unit: '1',
    population: SELECTED,
    reduction: 'ratio',
    range: { high: 1 },
    formula: '1 − Var(returns − values) / Var(returns), variances unbiased',
    undefinedWhen:
      'there are fewer than two tokens, a NaN is among them, or all returns are equal but for float32 rounding',
  },
  ...lengths('response_length', { population: 'all rows', tokens: 'response', none: NO_ROW }),
  clipped('response_length/clip_ratio', {
    population: 'all rows',
    formula: REACHED_CAP,
    none: `${NO_ROW}, or ${NO_CAP}`,
  }),
  ...lengths('response_length_non_aborted', {
    population: RESPONDED,
    tokens: 'response',
    none: NONE_RESPONDED,
  }),
  clipped('response_length_non_aborted/clip_ratio', {
    population: RESPONDED,
    formula: REACHED_CAP,
    none: `${NONE_RESPONDED}, or ${NO_CAP}`,
  }),
  clipped('response/aborted_ratio', {
    population: 'all rows',
    formula: 'no response token',
    none: NO_ROW,
  }),
  ...lengths('prompt_length', { population: 'all rows', tokens: 'prompt', none: NO_ROW }),
  clipped('prompt_length/clip_ratio', {
    population: 'all rows',
    formula: 'length ≥ maxPromptLength (without that option: length = width of the prompt part)',
    none: `${NO_ROW}, or neither maxPromptLength nor an attention_mask, which tells that width`,
  }),
  ...counts('num_turns', '__num_turns__'),
  ...counts('tool_call_counts', 'tool_call_counts'),
];

const PER_TOKEN = {
  unit: 'ms/token',
  reduction: 'ratio',
  range: AT_LEAST_0,
  undefinedWhen: 'there are no such tokens',
} as const;

const timing: readonly FamilyEntry[] = [
  {
    key: 'timing_s/{stage}',
    placeholders: { stage: 'text' },
    unit: 's',
    population: 'the stage of the step',
    reduction: 'sum',
    range: AT_LEAST_0,
    formula: 'timing_raw[stage], as it was measured',
    undefinedWhen: 'the timer says so',
  },
  {
    ...PER_TOKEN,
    key: 'timing_per_token_ms/gen',
    population: 'response tokens of all rows',
    formula: '1000 · timing_raw.gen / response tokens',
  },
  {
    ...PER_TOKEN,
    key: 'timing_per_token_ms/{token_stage}',
    placeholders: { token_stage: ['ref', 'values', 'adv', 'update_critic', 'update_actor'] },
    population: 'prompt and response tokens of all rows',
    formula: '1000 · timing_raw[stage] / (prompt + response tokens)',
  },
];

const throughput: readonly FamilyEntry[] = [
  {
    key: 'perf/total_num_tokens',
    unit: 'tokens',
    population: 'all ranks, if the batch has global_token_num, else all rows',
    reduction: 'sum',
    range: COUNT,
    formula: 'Σ global_token_num, else prompt + response tokens',
  },
  {
    key: 'perf/time_per_step',
    unit: 's',
    population: 'the step',
    reduction: 'sum',
    range: AT_LEAST_0,
    formula: 'timing_raw.step',
    undefinedWhen: 'the timer says so',
  },
  {
    key: 'perf/throughput',
    unit: 'tokens/s/GPU',
    population: 'the step',
    reduction: 'ratio',
    range: AT_LEAST_0,
    formula: 'total_num_tokens / (time_per_step · nGpus)',
    undefinedWhen: 'the step took no time, or there are no GPUs',
  },
];

function perRank(key: string, reduction: FamilyEntry['reduction'], formula: string): FamilyEntry {
  const range = reduction === 'mean' ? AT_LEAST_0 : COUNT;
  return { key: `global_seqlen/${key}`, unit: 'tokens', population: 'ranks', reduction, range, formula };
}

const sequenceBalance: readonly FamilyEntry[] = [
  perRank('min', 'min', 'tokens of a rank, rows dealt in order'),
  perRank('max', 'max', 'tokens of a rank, rows dealt in order'),
  perRank('minmax_diff', 'difference', 'max − min'),
  perRank('balanced_min', 'min', 'tokens of a rank, rows dealt as the partitions say'),
  perRank('balanced_max', 'max', 'tokens of a rank, rows dealt as the partitions say'),
  perRank('mean', 'mean', 'all tokens / ranks'),
];

const METRIC_UTILS = 'verl, trainer/ppo/metric_utils.py';

export const dataEntries: readonly CatalogEntry[] = [
  ...ofFamily('data', `${METRIC_UTILS}, compute_data_metrics`, data),
  ...ofFamily('timing', `${METRIC_UTILS}, compute_timing_metrics`, timing),
  ...ofFamily('throughput', `${METRIC_UTILS}, compute_throughout_metrics`, throughput),
  ...ofFamily('sequenceBalance', 'verl, utils/seqlen_balancing.py, log_seqlen_unbalance', sequenceBalance),
];
