/** Data metrics of a step: scores, rewards, advantages, returns, values, explained variance, lengths. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { ValueError } from '../errors.js';
import { assertOptions, kindOf } from '../kernels/arguments.js';
import { input, subtract } from '../kernels/expression.js';
import { Moments, type MomentsTable, Pending, RowMoments } from '../kernels/index.js';
import { type MatrixWindow, denseWindow } from '../kernels/moments/pass.js';
import { type RolloutBatch, assertBatch, requireTensors } from './batch.js';
import { type NamedMask, withExistingTokens } from './existing-tokens.js';
import { explainedVariance } from './explained-variance.js';
import { type RowFacts, type RowLengths, lengthsSource, rowFacts, runWithLengths } from './lengths.js';
import { type Plan, plan } from './plan.js';
import { type Semantics, assertSemantics, usesLengthColumns } from './semantics.js';
import { type Metrics, fraction, meanMaxMin, momentsOf } from './statistics.js';

/** What ends a response that does not end by itself; clip ratios are measured against it. */
export interface LengthCaps {
  /** The cap on response tokens; default the width T of the response part. */
  readonly maxResponseLength?: number | undefined;
  /** The cap on prompt and response tokens together, as of the model's context; default none. */
  readonly maxModelLength?: number | undefined;
}

/** Options of `computeDataMetrics`. */
export interface DataMetricsOptions extends LengthCaps {
  /** Whether there is a critic: adds `critic/values/*` and `critic/vf_explained_var`. Default true. */
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
 *   token_level_rewards, advantages, returns, and values if there is a critic
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

/** The launched form of `computeDataMetrics`, to be read together with others. */
export function dataMetrics(batch: RolloutBatch, options: DataMetricsOptions = {}): Pending<Metrics> {
  assertOptions(WHERE, options, {
    useCritic: 'boolean',
    maxResponseLength: 'any',
    maxModelLength: 'any',
    semantics: 'any',
  });
  assertBatch(WHERE, batch);
  return withExistingTokens(WHERE, batch, (existing) => {
    const data = dataPlan(batch, existing, options);
    const lengths = lengthsSource(WHERE, batch, usesLengthColumns(options.semantics ?? 'recommended'));
    return runWithLengths<[(lengths: RowLengths) => Metrics]>(WHERE, batch, lengths, [data]);
  }).map(([[metricsOf], found]) => metricsOf(found));
}

/**
 * What the metrics ask of the response part of a checked batch, to share a pass with others. The lengths of the rows
 * come from elsewhere.
 *
 * @param existing see `withExistingTokens`
 */
export function dataPlan(
  batch: RolloutBatch,
  existing: NamedMask | undefined,
  options: DataMetricsOptions = {},
  where = WHERE,
): Plan<(lengths: RowLengths) => Metrics> {
  const { useCritic = true, semantics = 'recommended', maxResponseLength, maxModelLength } = options;
  assertSemantics(where, semantics);
  assertCap(where, 'maxResponseLength', maxResponseLength);
  assertCap(where, 'maxModelLength', maxModelLength);
  const tokens = requireTensors(where, batch, ['responseMask', 'advantages', 'returns']);
  const scores = requireTensors(where, batch, ['tokenLevelScores', 'tokenLevelRewards']);
  const values = useCritic ? requireTensors(where, batch, ['values']).values : undefined;
  const response = responsePlan(existing, { ...scores, ...tokens, values }, semantics);
  return {
    ...response,
    finish: (rows) => {
      const tables = response.finish(rows);
      const settings = { semantics, maxResponseLength, maxModelLength };
      return (lengths) => dataMetricsOf(tables, rowFacts(batch, lengths), settings);
    },
  };
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

/** One row per row of the batch. */
export interface DataTables {
  readonly score: MomentsTable;
  readonly rewards: MomentsTable;
  readonly advantages: MomentsTable;
  readonly returns: MomentsTable;
  readonly values?: MomentsTable;
  /** returns − values */
  readonly errors?: MomentsTable;
}

interface ResponseTensors {
  readonly tokenLevelScores: Tensor;
  readonly tokenLevelRewards: Tensor;
  readonly responseMask: Tensor;
  readonly advantages: Tensor;
  readonly returns: Tensor;
  readonly values: Tensor | undefined;
}

/** All that is known of the response part. */
function responsePlan(
  existing: NamedMask | undefined,
  { responseMask, tokenLevelScores, tokenLevelRewards, advantages, returns, values }: ResponseTensors,
  semantics: Semantics,
): Plan<DataTables> {
  const response = denseWindow(responseMask, responseMask.shape[1]!);
  // verl sums the whole row, so a NaN in the padding poisons the score; recommended selects the tokens that exist.
  const ofRow = semantics === 'recommended' ? existing?.name : undefined;
  const inputs = { tokenLevelScores, tokenLevelRewards, advantages, returns };
  const masks: Record<string, MatrixWindow> = {
    ...(existing && { [existing.name]: existing.window }),
    response,
  };
  const channels = {
    score: { of: input('tokenLevelScores'), mask: ofRow },
    rewards: { of: input('tokenLevelRewards'), mask: ofRow },
    advantages: { of: input('advantages'), mask: 'response' },
    returns: { of: input('returns'), mask: 'response' },
  };
  if (values === undefined) return plan({ inputs, masks, channels, finish: (tables) => tables });
  return plan({
    inputs: { ...inputs, values },
    masks,
    channels: {
      ...channels,
      values: { of: input('values'), mask: 'response' },
      errors: { of: subtract('returns', 'values'), mask: 'response' },
    },
    finish: (tables) => tables,
  });
}

function scoreMetrics({ response }: RowLengths, { score, rewards }: DataTables): Metrics {
  const produced = (_sum: number, row: number): boolean => response[row] !== 0;
  return {
    ...meanMaxMin('critic/score', momentsOf(RowMoments.fromTable(score).sum.filter(produced))),
    ...meanMaxMin('critic/rewards', momentsOf(RowMoments.fromTable(rewards).sum.filter(produced))),
  };
}

function tokenMetrics({ advantages, returns, values, errors }: DataTables, semantics: Semantics): Metrics {
  const metrics = {
    ...meanMaxMin('critic/advantages', new Moments(advantages.total())),
    ...meanMaxMin('critic/returns', new Moments(returns.total())),
  };
  if (values === undefined || errors === undefined) return metrics;
  return {
    ...metrics,
    ...meanMaxMin('critic/values', new Moments(values.total())),
    'critic/vf_explained_var': explainedVariance(returns.total(), errors.total(), semantics),
  };
}

function lengthMetrics(facts: RowFacts, { maxResponseLength, maxModelLength }: LengthCaps): Metrics {
  const { lengths, responseWidth, promptWidth: width } = facts;
  const { prompt, response } = lengths;
  const reachesModelCap = (n: number, row: number): boolean =>
    maxModelLength !== undefined && prompt[row]! + n >= maxModelLength;
  const reachesCap = (n: number): boolean =>
    maxResponseLength === undefined ? n === responseWidth : n >= maxResponseLength;
  const isClipped = Array.from(response, (n, row) => reachesCap(n) || reachesModelCap(n, row));
  const isProduced = (_: unknown, row: number): boolean => response[row] !== 0;
  const produced = response.filter(isProduced);
  return {
    ...meanMaxMin('response_length', momentsOf(response)),
    'response_length/clip_ratio': fraction(isClipped, Boolean),
    ...meanMaxMin('response_length_non_aborted', momentsOf(produced)),
    'response_length_non_aborted/clip_ratio': fraction(isClipped.filter(isProduced), Boolean),
    'response/aborted_ratio': fraction(response, (n) => n === 0),
    ...meanMaxMin('prompt_length', momentsOf(prompt)),
    // Without an attention mask nobody knows how wide the prompts were padded.
    'prompt_length/clip_ratio': width === undefined ? NaN : fraction(prompt, (n) => n === width),
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
