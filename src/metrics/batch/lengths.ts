/** Tokens per row: from the batch's length columns where it has them, else counted in the attention mask. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { MissingInputError } from '../../errors.js';
import { constant, input, notEqual } from '../../kernels/expression.js';
import { Pending, RowMoments } from '../../kernels/index.js';
import { type MatrixWindow, passTables } from '../../kernels/moments/pass.js';
import { warn } from '../../warning.js';
import { type Plan, plan, runPlans } from '../plan.js';
import {
  type RolloutBatch,
  type RowColumn,
  assertEveryCount,
  columnsOf,
  isOneStep,
  isTensorColumn,
  responseWidthOf,
} from './batch.js';
import { attendedTokens } from './response-windows.js';

/** One exact number of tokens per row. */
export interface RowLengths {
  readonly prompt: Float64Array;
  readonly response: Float64Array;
}

/** The lengths that a batch tells. */
export type KnownLengths = { readonly [Part in keyof RowLengths]: Float64Array | undefined };

/** What metrics know of the rows of a batch beside its tensors; all lists have one number per row. */
export interface RowFacts {
  readonly lengths: KnownLengths;
  /** Columns of the response part; undefined if nobody told. */
  readonly responseWidth?: number | undefined;
  /** Columns of the prompt part; undefined without an attention mask. */
  readonly promptWidth?: number | undefined;
  /** Whether that width is of prompts and responses together, and so no cap of a response. */
  readonly isFullSequence?: boolean | undefined;
  readonly numTurns?: ArrayLike<number> | undefined;
  readonly toolCallCounts?: ArrayLike<number> | undefined;
}

/** What is known of the rows of a checked batch of these lengths. */
export function rowFacts(batch: RolloutBatch, lengths: KnownLengths): RowFacts {
  const { responseWidth, isFullSequence, numTurns, toolCallCounts } = batch;
  return {
    ...{ lengths, responseWidth, promptWidth: promptWidth(batch), isFullSequence },
    ...{ numTurns, toolCallCounts },
  };
}

/** How the lengths of the rows are found, or the input that they lack; undefined for rows of one step, which have none. */
export interface LengthsSource {
  readonly prompt: (() => Pending<Float64Array>) | MissingInputError | undefined;
  /** Counted in a pass over the response part, or by itself where a column tells. */
  readonly response: Plan<Float64Array> | (() => Pending<Float64Array>) | MissingInputError | undefined;
}

/**
 * How the prompt and response tokens of every row are found; nothing is launched yet.
 *
 * @param useColumns whether the columns `prompt_length` and `response_length` win over the attention mask
 */
export function lengthsSource(where: string, batch: RolloutBatch, useColumns: boolean): LengthsSource {
  const { promptLength, responseLength, isFullSequence = false } = batch;
  if (isOneStep(batch)) return { prompt: undefined, response: undefined };
  const fromColumn = (
    name: string,
    column: RowColumn | undefined,
  ): (() => Pending<Float64Array>) | undefined =>
    (useColumns || isFullSequence) && column !== undefined
      ? () => columnValues(where, name, column, responseWidthOf(batch))
      : undefined;
  return {
    prompt: fromColumn('prompt_length', promptLength) ?? promptTokens(where, batch),
    response: fromColumn('response_length', responseLength) ?? responsePlan(where, batch),
  };
}

/** @throws MissingInputError if neither a column nor the attention mask tells one of the lengths */
function requiredLengths(where: string, batch: RolloutBatch, useColumns: boolean): LengthsSource {
  const source = lengthsSource(where, batch, useColumns);
  for (const part of [source.prompt, source.response]) {
    if (part instanceof MissingInputError) throw part;
  }
  return source;
}

/**
 * Prompt and response tokens of every row, see `lengthsSource`.
 *
 * @throws MissingInputError if neither a column nor the attention mask tells one of them
 */
export function rowLengths(where: string, batch: RolloutBatch, useColumns: boolean): Pending<KnownLengths> {
  return runWithLengths(where, batch, requiredLengths(where, batch, useColumns), []).map(
    ([, lengths]) => lengths,
  );
}

/**
 * Launches plans over the response part, and finds the lengths of the rows on the way.
 *
 * @returns the results of the plans, in their order, and the lengths that the source tells
 */
export function runWithLengths<T extends readonly unknown[]>(
  where: string,
  batch: RolloutBatch,
  { prompt, response }: LengthsSource,
  plans: { readonly [I in keyof T]: Plan<T[I]> },
): Pending<readonly [T, KnownLengths]> {
  const all = plans as readonly Plan<unknown>[];
  const size = { rows: batch.batchSize, cols: responseWidthOf(batch) ?? 0 };
  const isCounted = typeof response === 'object' && !(response instanceof MissingInputError);
  return Pending.launchAll<[unknown[], Float64Array | undefined, Float64Array | undefined]>([
    () => runPlans<unknown[]>(where, size, isCounted ? [...all, response] : all),
    typeof prompt === 'function' ? prompt : () => Pending.of(undefined),
    typeof response === 'function' ? response : () => Pending.of(undefined),
  ]).map(([results, ofPrompt, ofResponse]) => [
    results.slice(0, all.length) as unknown as T,
    { prompt: ofPrompt, response: isCounted ? (results.at(-1) as Float64Array) : ofResponse },
  ]);
}

/** Columns of the attention mask that are prompt, the rest being response. */
export function promptWidth(batch: RolloutBatch): number | undefined {
  const { attentionMask, responseWidth, isFullSequence = false } = batch;
  if (attentionMask === undefined || responseWidth === undefined || isFullSequence) return undefined;
  return columnsOf(attentionMask) - responseWidth;
}

/** The numbers of a column; on a device they are read exactly, as rows of one element. */
function columnValues(
  where: string,
  name: string,
  column: RowColumn,
  width: number | undefined,
): Pending<Float64Array> {
  if (!isTensorColumn(column)) return Pending.of(Float64Array.from(column));
  return passTables({
    where,
    rows: column.size,
    cols: 1,
    inputs: { column },
    channels: { column: input('column') },
  }).map(({ column: table }) => {
    const values = RowMoments.fromTable(table).sum;
    assertEveryCount(where, name, values, width);
    return values;
  });
}

/** Counts the prompt part of the attention mask. */
function promptTokens(where: string, batch: RolloutBatch): LengthsSource['prompt'] {
  const tensor = attentionOf(where, batch, 'prompt');
  if (tensor instanceof MissingInputError) return tensor;
  const cols = promptWidth(batch)!;
  if (cols === 0) return () => noPrompt(where, batch);
  const mask: MatrixWindow = { tensor, stride: columnsOf(tensor), offset: 0, step: 1 };
  const channels = { tokens: constant(1) };
  return () =>
    passTables({ where, rows: batch.batchSize, cols, inputs: {}, channels, mask }).map(
      ({ tokens }) => RowMoments.fromTable(tokens).count,
    );
}

/** Rows of a batch that are looked at for the warning; one that has the mistake has it everywhere. */
const MOST_ROWS = 1024;
let isWarned = false;

/**
 * The prompt lengths of a batch without prompt columns, none. Where rows begin with a token that is not of the response, there are
 * prompts all the same, counted as response: this is warned of, once, from a column that is read with all else.
 */
function noPrompt(where: string, batch: RolloutBatch): Pending<Float64Array> {
  const { batchSize, attentionMask, responseMask, promptLength } = batch;
  const none = new Float64Array(batchSize);
  if (attentionMask === undefined || responseMask === undefined) return Pending.of(none);
  if (promptLength !== undefined || columnsOf(attentionMask) === 1 || isWarned) return Pending.of(none);
  const first = (tensor: Tensor): MatrixWindow => ({ tensor, stride: columnsOf(tensor), offset: 0, step: 1 });
  return passTables({
    where,
    rows: Math.min(batchSize, MOST_ROWS),
    cols: 1,
    inputs: { first: first(responseMask) },
    channels: { isResponse: notEqual('first', 0) },
    mask: first(attentionMask),
  }).map(({ isResponse }) => {
    const { count, sum } = isResponse.total();
    if (sum < count) warnOfPrompts(where);
    return none;
  });
}

function warnOfPrompts(where: string): void {
  if (isWarned) return;
  isWarned = true;
  warn(
    'TENSORTALLY_NO_PROMPT',
    `${where}: rows begin with tokens that attention_mask has and response_mask has not, and there are no prompt columns: ` +
      'prompts are counted as response. Use batchFromAreal for masks over whole sequences, or pass response tensors of the ' +
      'response part alone to batchFromVerl.',
  );
}

/** Counts the response part of the attention mask. */
function responsePlan(where: string, batch: RolloutBatch): LengthsSource['response'] {
  const tensor = attentionOf(where, batch, 'response');
  if (tensor instanceof MissingInputError) return tensor;
  return plan({
    inputs: {},
    masks: { attended: attendedTokens(batch, batch.responseWidth!)! },
    channels: { tokens: { of: constant(1), mask: 'attended' } },
    finish: ({ tokens }) => RowMoments.fromTable(tokens).count,
  });
}

/** The attention mask, or what is missing: the mask, or the width that tells its parts apart. */
function attentionOf(
  where: string,
  { attentionMask, responseWidth }: RolloutBatch,
  part: keyof RowLengths,
): Tensor | MissingInputError {
  if (attentionMask !== undefined && responseWidth !== undefined) return attentionMask;
  const missesMask = attentionMask === undefined;
  return new MissingInputError({
    where,
    input: missesMask ? 'attention_mask' : 'responseWidth',
    expected: missesMask
      ? `a [batch, prompt + response] mask, or the column ${part}_length`
      : 'the width of the response part',
    received: 'nothing',
    remedy: missesMask
      ? 'put attention_mask, or prompt_length and response_length, into the batch'
      : 'put response_mask into the batch or pass options.responseWidth',
  });
}
