/** Data metrics of a step: scores, rewards, advantages, returns, values, explained variance, lengths. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { ValueError } from '../errors.js';
import { assertOptions, kindOf } from '../kernels/arguments.js';
import { input, subtract } from '../kernels/expression.js';
import { Moments, type MomentsTable, Pending } from '../kernels/index.js';
import { type MaskWindow, passTables } from '../kernels/moments/pass.js';
import { type RolloutBatch, assertBatch, requireTensors } from './batch.js';
import { explainedVariance } from './explained-variance.js';
import { type RowLengths, promptWidth, rowLengths } from './lengths.js';
import { type Semantics, assertSemantics, usesLengthColumns } from './semantics.js';
import { type Metrics, fraction, meanMaxMin, momentsOf } from './statistics.js';

/** Options of `computeDataMetrics`. */
export interface DataMetricsOptions {
  /** Whether there is a critic: adds `critic/values/*` and `critic/vf_explained_var`. Default true. */
  readonly useCritic?: boolean | undefined;
  /** The cap on response tokens that clip ratios are measured against; default the width T of the response part. */
  readonly maxResponseLength?: number | undefined;
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

const WHERE = 'computeDataMetrics';

/**
 * Statistics of what a training step is fed with, under verl's names.
 *
 * `critic/{score,rewards}/*` are over rows that produced a response (sum over the tokens of the row),
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
  assertOptions(WHERE, options, { useCritic: 'boolean', maxResponseLength: 'any', semantics: 'any' });
  const { useCritic = true, semantics = 'recommended', maxResponseLength } = options;
  assertSemantics(WHERE, semantics);
  assertCap(maxResponseLength);
  assertBatch(WHERE, batch);
  const tokens = requireTensors(WHERE, batch, ['responseMask', 'advantages', 'returns']);
  const scores = requireTensors(WHERE, batch, ['tokenLevelScores', 'tokenLevelRewards']);
  const critic = useCritic ? requireTensors(WHERE, batch, ['values']).values : undefined;

  return Pending.launchAll<[RowLengths, SequenceSums, TokenTables]>([
    () => rowLengths(WHERE, batch, usesLengthColumns(semantics)),
    () => sequenceSums(batch, scores, tokens.responseMask, semantics),
    () => tokenMoments(tokens, critic),
  ]).map(([tokensPerRow, sums, tables]) => ({
    ...scoreMetrics(tokensPerRow, sums),
    ...tokenMetrics(tables, semantics),
    ...lengthMetrics(batch, tokensPerRow, maxResponseLength),
    ...countMetrics(batch),
  }));
}

/** Sum of the token-level tensor per row. */
interface SequenceSums {
  readonly score: Float64Array;
  readonly rewards: Float64Array;
}

interface TokenTables {
  readonly advantages: MomentsTable;
  readonly returns: MomentsTable;
  readonly values?: MomentsTable;
  /** returns − values */
  readonly errors?: MomentsTable;
}

/**
 * verl sums the whole row, so a NaN in the padding poisons the score; recommended selects the tokens that exist.
 * A batch without attention mask (length columns only) falls back to the tokens that the policy wrote.
 */
function sequenceSums(
  batch: RolloutBatch,
  scores: { readonly tokenLevelScores: Tensor; readonly tokenLevelRewards: Tensor },
  responseMask: Tensor,
  semantics: Semantics,
): Pending<SequenceSums> {
  const selected: MaskWindow =
    batch.attentionMask === undefined
      ? wholeMask(responseMask)
      : {
          tensor: batch.attentionMask,
          stride: batch.attentionMask.shape[1]!,
          offset: promptWidth(batch)!,
        };
  return passTables({
    where: WHERE,
    ...responseShape(responseMask),
    inputs: { score: scores.tokenLevelScores, rewards: scores.tokenLevelRewards },
    channels: { score: input('score'), rewards: input('rewards') },
    mask: semantics === 'recommended' ? selected : undefined,
  }).map(({ score, rewards }) => ({ score: sums(score), rewards: sums(rewards) }));
}

function sums(table: MomentsTable): Float64Array {
  return Float64Array.from(table, (row) => new Moments(row).sum);
}

function tokenMoments(
  tokens: { readonly responseMask: Tensor; readonly advantages: Tensor; readonly returns: Tensor },
  values: Tensor | undefined,
): Pending<TokenTables> {
  const { responseMask, advantages, returns } = tokens;
  const pass = {
    where: WHERE,
    ...responseShape(responseMask),
    mask: wholeMask(responseMask),
  };
  const channels = { advantages: input('advantages'), returns: input('returns') };
  if (values === undefined) return passTables({ ...pass, inputs: { advantages, returns }, channels });
  return passTables({
    ...pass,
    inputs: { advantages, returns, values },
    channels: {
      ...channels,
      values: input('values'),
      errors: subtract(input('returns'), input('values')),
    },
  });
}

function wholeMask(tensor: Tensor): MaskWindow {
  return { tensor, stride: tensor.shape[1]!, offset: 0 };
}

function responseShape(responseMask: Tensor): { rows: number; cols: number } {
  return { rows: responseMask.shape[0], cols: responseMask.shape[1]! };
}

function scoreMetrics({ response }: RowLengths, { score, rewards }: SequenceSums): Metrics {
  const produced = (_sum: number, row: number): boolean => response[row] !== 0;
  return {
    ...meanMaxMin('critic/score', momentsOf(score.filter(produced))),
    ...meanMaxMin('critic/rewards', momentsOf(rewards.filter(produced))),
  };
}

function tokenMetrics({ advantages, returns, values, errors }: TokenTables, semantics: Semantics): Metrics {
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

function lengthMetrics(batch: RolloutBatch, lengths: RowLengths, cap: number | undefined): Metrics {
  const { prompt, response } = lengths;
  const produced = response.filter((n) => n !== 0);
  const clipped = cap === undefined ? (n: number) => n === batch.responseWidth : (n: number) => n >= cap;
  const width = promptWidth(batch);
  return {
    ...meanMaxMin('response_length', momentsOf(response)),
    'response_length/clip_ratio': fraction(response, clipped),
    ...meanMaxMin('response_length_non_aborted', momentsOf(produced)),
    'response_length_non_aborted/clip_ratio': fraction(produced, clipped),
    'response/aborted_ratio': fraction(response, (n) => n === 0),
    ...meanMaxMin('prompt_length', momentsOf(prompt)),
    // Without an attention mask nobody knows how wide the prompts were padded.
    'prompt_length/clip_ratio': width === undefined ? NaN : fraction(prompt, (n) => n === width),
  };
}

function countMetrics({ numTurns, toolCallCounts }: RolloutBatch): Metrics {
  return {
    ...(numTurns && meanMaxMin('num_turns', momentsOf(Array.from(numTurns)))),
    ...(toolCallCounts && meanMaxMin('tool_call_counts', momentsOf(Array.from(toolCallCounts)))),
  };
}

function assertCap(cap: number | undefined): void {
  if (cap === undefined || (typeof cap === 'number' && cap > 0)) return;
  throw new ValueError({
    where: WHERE,
    input: 'maxResponseLength',
    expected: 'a positive number of tokens',
    received: kindOf(cap),
    remedy: 'pass the cap that generation was configured with, or leave it out',
  });
}
