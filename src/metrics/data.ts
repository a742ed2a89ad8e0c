/** Data metrics of a step: scores, rewards, advantages, returns, values, explained variance, lengths. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertOptions, kindOf } from '../arguments.js';
import { MissingInputError, ValueError } from '../errors.js';
import { constant, input, subtract } from '../kernels/expression.js';
import { Pending, RowMoments } from '../kernels/index.js';
import type { MatrixWindow } from '../kernels/moments/pass.js';
import { Moments, type MomentsTable } from '../rows/index.js';
import {
  type ResponseField,
  type RolloutBatch,
  assertBatch,
  isOneStep,
  missingTensor,
} from './batch/batch.js';
import { type NamedMask, withExistingTokens } from './batch/existing-tokens.js';
import {
  type KnownLengths,
  type LengthsSource,
  type RowFacts,
  lengthsSource,
  rowFacts,
  runWithLengths,
} from './batch/lengths.js';
import { responseTokens } from './batch/response-windows.js';
import { explainedVariance } from './numbers/explained-variance.js';
import { type Metrics, fraction, meanMaxMin, momentsOf } from './numbers/statistics.js';
import { type MissingInput, type PartialPlan, type Plan, type PlanChannel, plan, wholePlan } from './plan.js';
import { type Semantics, assertSemantics, usesLengthColumns } from './semantics.js';

/** What ends a response that does not end by itself; clip ratios are measured against it. */
export interface LengthCaps {
  /** The cap on response tokens; default the width T of the response part. */
  readonly maxResponseLength?: number | undefined;
  /** The cap on prompt tokens; default the width of the prompt part, which an attention mask tells. */
  readonly maxPromptLength?: number | undefined;
  /** The cap on prompt and response tokens together, as of the model's context; default none. */
  readonly maxModelLength?: number | undefined;
}

/** Options of `computeDataMetrics`. */
export interface DataMetricsOptions extends LengthCaps {
  /**
   * Whether there is a critic: adds `critic/values/*` and `critic/vf_explained_var`, for which the batch must have values
   * and returns. Default true; with false `critic/returns/*` are there if the batch has returns.
   */
  readonly useCritic?: boolean | undefined;
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

const WHERE = 'computeDataMetrics';

/**
 * Statistics of what a training step is fed with, under verl's names.
 *
 * `critic/{score,rewards}/*` are over rows that produced a response: sums over the tokens of the row that attention_mask
 * has, or that come before its response_length, so that a row whose mask was cleared keeps its reward;
 * `critic/{advantages,returns,values}/*` over the tokens of `response_mask`, lengths over rows. One read-back.
 *
 * @param batch needs attention_mask (or prompt_length and response_length), response_mask, token_level_scores,
 *   token_level_rewards, advantages, and returns and values if there is a critic
 * @returns plain numbers; undefined ones are NaN
 * @throws MissingInputError, ShapeError, DtypeError, DisposedTensorError, ValueError, BackendError
 * @source verl, trainer/ppo/metric_utils.py, compute_data_metrics
 * @example  const metrics = await computeDataMetrics(batch, { useCritic: false });
 */
export async function computeDataMetrics(
  batch: RolloutBatch,
  options: DataMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => dataMetrics(batch, options));
}

/** The `Pending` behind `computeDataMetrics`. */
export function dataMetrics(batch: RolloutBatch, options: DataMetricsOptions = {}): Pending<Metrics> {
  assertOptions(WHERE, options, {
    useCritic: 'boolean',
    maxResponseLength: 'any',
    maxPromptLength: 'any',
    maxModelLength: 'any',
    semantics: 'any',
  });
  assertBatch(WHERE, batch);
  const { useCritic = true, semantics = 'recommended' } = options;
  return withExistingTokens(WHERE, batch, (existing) => {
    const lengths = lengthsSource(WHERE, batch, usesLengthColumns(semantics));
    const data = wholePlan(dataPlan(batch, { existing, lengths }, { ...options, useCritic }));
    return runWithLengths<[(lengths: KnownLengths) => Metrics]>(WHERE, batch, lengths, [data]);
  }).map(([[metricsOf], found]) => metricsOf(found));
}

/** What is known of the rows of a batch before its metrics are planned. */
export interface DataRows {
  /** See `withExistingTokens`. */
  readonly existing: NamedMask | undefined;
  readonly lengths: LengthsSource;
}

/**
 * What the metrics ask of the response part of a checked batch, to share a pass with others: all that its columns allow.
 *
 * @param options without `useCritic` there is a critic if the batch has values
 */
export function dataPlan(
  batch: RolloutBatch,
  rows: DataRows,
  options: DataMetricsOptions = {},
  where = WHERE,
): PartialPlan<(lengths: KnownLengths) => Metrics> {
  const { useCritic, semantics = 'recommended' } = options;
  const { maxResponseLength, maxPromptLength, maxModelLength } = options;
  assertSemantics(where, semantics);
  assertCap(where, 'maxResponseLength', maxResponseLength);
  assertCap(where, 'maxPromptLength', maxPromptLength);
  assertCap(where, 'maxModelLength', maxModelLength);
  const response = responsePlan(batch, rows, useCritic !== false, semantics);
  return {
    missing: [...missingLengths(rows.lengths), ...missingTensors(where, batch, useCritic)],
    plan: {
      ...response,
      finish: (found) => {
        const tables = response.finish(found);
        const settings = { semantics, maxResponseLength, maxPromptLength, maxModelLength };
        return (lengths) => dataMetricsOf(tables, rowFacts(batch, lengths), settings);
      },
    },
  };
}

/** Whether a batch gives metrics of its rows that ask nothing of the response part. */
export function hasRowMetrics({ numTurns, toolCallCounts }: RolloutBatch, { lengths }: DataRows): boolean {
  const isKnown = [lengths.prompt, lengths.response].some(
    (source) => source !== undefined && !(source instanceof MissingInputError),
  );
  return isKnown || numTurns !== undefined || toolCallCounts !== undefined;
}

function missingLengths({ response, prompt }: LengthsSource): MissingInput[] {
  const keysOf = [
    [response, 'response_length/*, response/aborted_ratio'],
    [prompt, 'prompt_length/*'],
  ] as const;
  return keysOf.flatMap(([source, keys]) =>
    source instanceof MissingInputError ? [{ error: source, keys }] : [],
  );
}

function missingTensors(where: string, batch: RolloutBatch, useCritic: boolean | undefined): MissingInput[] {
  const keysOf: Partial<Record<ResponseField, string>> = {
    ...(!isOneStep(batch) && { responseMask: 'critic/{advantages,returns,values}/*' }),
    advantages: 'critic/advantages/*',
    ...(useCritic !== false && { returns: 'critic/returns/*' }),
    tokenLevelScores: 'critic/score/*',
    tokenLevelRewards: 'critic/rewards/*',
    ...(useCritic === true && { values: 'critic/values/*, critic/vf_explained_var' }),
  };
  return Object.entries(keysOf).flatMap(([field, keys]) => {
    const isOfCritic = field === 'returns' || field === 'values';
    const otherwise = isOfCritic ? ', or pass useCritic: false if there is no critic' : '';
    const error = missingTensor(where, batch, field as ResponseField, otherwise);
    return error ? [{ error, keys, isRequired: isOfCritic && useCritic === true }] : [];
  });
}

/** The metrics of these rows, from the channels of `dataPlan`. */
export function dataMetricsOf(
  tables: DataTables,
  facts: RowFacts,
  { semantics = 'recommended', ...caps }: Omit<DataMetricsOptions, 'useCritic'>,
): Metrics {
  return {
    ...scoreMetrics(facts.lengths, tables),
    ...tokenMetrics(tables, semantics),
    ...lengthMetrics(facts, caps),
    ...countMetrics(facts),
  };
}

/** The channels of the data metrics. */
export const dataChannels = [
  'score',
  'rewards',
  'advantages',
  'returns',
  'values',
  /** returns − values */
  'errors',
  /** 1 for every token that exists, where no length tells which rows have one. */
  'produced',
  /** score and rewards where every row is one step. */
  'stepScore',
  'stepRewards',
] as const;

/** One row per row of the batch, for every channel that the batch allows. */
export type DataTables = Readonly<Partial<Record<(typeof dataChannels)[number], MomentsTable>>>;

/** All that is known of the response part. */
function responsePlan(
  batch: RolloutBatch,
  { existing, lengths }: DataRows,
  hasCritic: boolean,
  semantics: Semantics,
): Plan<DataTables> {
  const response = responseTokens(batch);
  const areSteps = isOneStep(batch);
  // verl sums the whole row, so a NaN in the padding poisons the score; recommended selects the tokens that exist. A step
  // has no padding: the sums of rows that have a step are the steps that exist.
  const ofRow = semantics === 'recommended' || areSteps ? existing?.name : undefined;
  const inputs: Record<string, Tensor> = {};
  const channels: Record<string, PlanChannel> = {};
  const ask = (channel: keyof DataTables, field: ResponseField, mask: string | undefined): void => {
    const isWhole = channel !== 'score' && channel !== 'rewards';
    const tensor = batch[field];
    if (tensor === undefined) return;
    inputs[field] = tensor;
    channels[channel] = { of: input(field), mask, isWhole };
  };
  ask(areSteps ? 'stepScore' : 'score', 'tokenLevelScores', ofRow);
  ask(areSteps ? 'stepRewards' : 'rewards', 'tokenLevelRewards', ofRow);
  if (response !== undefined || areSteps) {
    ask('advantages', 'advantages', 'response');
    ask('returns', 'returns', 'response');
    if (hasCritic) ask('values', 'values', 'response');
    if (channels.values && channels.returns) {
      channels.errors = { of: subtract('returns', 'values'), mask: 'response', isWhole: true };
    }
  }
  const sums = channels.score ?? channels.rewards;
  const areRowsUnknown = lengths.response === undefined || lengths.response instanceof MissingInputError;
  if (sums && existing && areRowsUnknown) {
    channels.produced = { of: constant(1), mask: existing.name };
  }
  const masks: Record<string, MatrixWindow | undefined> = {
    ...(existing && { [existing.name]: existing.window }),
    response,
  };
  return plan<DataTables, string>({ inputs, masks, channels, finish: (tables) => tables });
}

function scoreMetrics({ response }: KnownLengths, tables: DataTables): Metrics {
  const { score, rewards, produced, stepScore, stepRewards } = tables;
  // Without a length the tokens that exist tell, and without a mask nobody knows a row that has none.
  const tokens = response ?? (produced && RowMoments.fromTable(produced).count);
  const sumsOf = (table: MomentsTable): Float64Array =>
    RowMoments.fromTable(table).sum.filter((_sum, row) => tokens?.[row] !== 0);
  return {
    ...(score && meanMaxMin('critic/score', momentsOf(sumsOf(score)))),
    ...(rewards && meanMaxMin('critic/rewards', momentsOf(sumsOf(rewards)))),
    ...(stepScore && meanMaxMin('critic/score', new Moments(stepScore.total()))),
    ...(stepRewards && meanMaxMin('critic/rewards', new Moments(stepRewards.total()))),
  };
}

function tokenMetrics({ advantages, returns, values, errors }: DataTables, semantics: Semantics): Metrics {
  return {
    ...(advantages && meanMaxMin('critic/advantages', new Moments(advantages.total()))),
    ...(returns && meanMaxMin('critic/returns', new Moments(returns.total()))),
    ...(values && meanMaxMin('critic/values', new Moments(values.total()))),
    ...(returns &&
      errors && { 'critic/vf_explained_var': explainedVariance(returns.total(), errors.total(), semantics) }),
  };
}

function lengthMetrics(facts: RowFacts, caps: LengthCaps): Metrics {
  const { prompt, response } = facts.lengths;
  return {
    ...(response && responseLengthMetrics(response, facts, caps)),
    ...(prompt && promptLengthMetrics(prompt, facts, caps)),
  };
}

function responseLengthMetrics(
  response: Float64Array,
  { lengths: { prompt }, responseWidth, isFullSequence = false }: RowFacts,
  { maxResponseLength, maxModelLength }: LengthCaps,
): Metrics {
  const reachesModelCap = (n: number, row: number): boolean =>
    maxModelLength !== undefined && (prompt?.[row] ?? NaN) + n >= maxModelLength;
  // A row as wide as its padding was cut there, unless prompts share that width.
  const width = isFullSequence ? undefined : responseWidth;
  const reachesCap = (n: number): boolean =>
    maxResponseLength === undefined ? n === width : n >= maxResponseLength;
  const isClipped = Array.from(response, (n, row) => reachesCap(n) || reachesModelCap(n, row));
  const isProduced = (_: unknown, row: number): boolean => response[row] !== 0;
  const produced = response.filter(isProduced);
  // Without the prompts nobody knows which rows reached the cap on both parts.
  const isKnown =
    maxModelLength === undefined
      ? maxResponseLength !== undefined || width !== undefined
      : prompt !== undefined;
  return {
    ...meanMaxMin('response_length', momentsOf(response)),
    'response_length/clip_ratio': isKnown ? fraction(isClipped, Boolean) : NaN,
    ...meanMaxMin('response_length_non_aborted', momentsOf(produced)),
    'response_length_non_aborted/clip_ratio': isKnown ? fraction(isClipped.filter(isProduced), Boolean) : NaN,
    'response/aborted_ratio': fraction(response, (n) => n === 0),
  };
}

function promptLengthMetrics(
  prompt: Float64Array,
  { promptWidth: width }: RowFacts,
  { maxPromptLength: cap }: LengthCaps,
): Metrics {
  const isKnown = cap !== undefined || width !== undefined;
  return {
    ...meanMaxMin('prompt_length', momentsOf(prompt)),
    // Without an attention mask nobody knows how wide the prompts were padded.
    'prompt_length/clip_ratio': isKnown
      ? fraction(prompt, (n) => (cap === undefined ? n === width : n >= cap))
      : NaN,
  };
}

function countMetrics({ numTurns, toolCallCounts }: RowFacts): Metrics {
  return {
    ...(numTurns && meanMaxMin('num_turns', momentsOf(numTurns))),
    ...(toolCallCounts && meanMaxMin('tool_call_counts', momentsOf(toolCallCounts))),
  };
}

/** @throws ValueError for a cap that is no positive number */
export function assertCap(where: string, input: keyof LengthCaps, cap: number | undefined): void {
  if (cap === undefined || (typeof cap === 'number' && cap > 0)) return;
  throw new ValueError({
    where,
    input: `options.${input}`,
    expected: 'a positive number of tokens',
    received: kindOf(cap),
    remedy: 'pass the cap that generation was configured with, or leave it out',
  });
}
