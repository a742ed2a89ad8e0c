/**
 * The batch that metrics are computed from: what a PPO or GRPO step has on the device, under one set of names.
 *
 * B rows (sequences), P prompt columns, T response columns. Every tensor is optional here; each metric names what it
 * needs and refuses a batch that lacks it.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertNamed, isArrayLike, kindOf, strangerAt } from '../../arguments.js';
import { DtypeError, MissingInputError, ShapeError, ValueError } from '../../errors.js';
import { assertNumericTensor } from '../../kernels/residency.js';
import { assertFieldNames } from './fields.js';

/** One number per row: a `[B]` tensor or an array of B numbers. */
export type RowColumn = Tensor | ArrayLike<number>;

/**
 * See the file comment. Tensors are float32; masks may be bool, int32 or float32 0/1. Where T is 1, one step a row, `[B]` is as
 * good as `[B, 1]`.
 */
export interface RolloutBatch {
  /** Rows. */
  readonly batchSize: number;
  /** T; undefined if the batch has neither response tensors nor a given width. */
  readonly responseWidth?: number | undefined;
  /**
   * Whether the response tensors span the prompts, too, as in AReaL; see `batchFromAreal`. Lengths then come from the columns below,
   * under all semantics.
   */
  readonly isFullSequence?: boolean | undefined;
  /** `[B, P + T]`: tokens that exist, prompt and response, tool output included. */
  readonly attentionMask?: Tensor | undefined;
  /** `[B, T]`: tokens that the policy wrote and that take part in the loss. */
  readonly responseMask?: Tensor | undefined;
  /** `[B, T]`: the verifier's or reward model's score, usually on the last token. */
  readonly tokenLevelScores?: Tensor | undefined;
  /** `[B, T]`: scores minus penalties. */
  readonly tokenLevelRewards?: Tensor | undefined;
  /** `[B, T]` */
  readonly advantages?: Tensor | undefined;
  /** `[B, T]` */
  readonly returns?: Tensor | undefined;
  /** `[B, T]`: the critic's predictions. */
  readonly values?: Tensor | undefined;
  /** `[B, T]`: the critic's predictions during the update; `values` are those before it. */
  readonly valuePredictions?: Tensor | undefined;
  /** `[B, T]`: log π of the policy that is updated, nats. */
  readonly logProbs?: Tensor | undefined;
  /** `[B, T]`: log π of the policy at the start of the update, nats. */
  readonly oldLogProbs?: Tensor | undefined;
  /** `[B, T]`: log π of the reference policy, nats. */
  readonly refLogProbs?: Tensor | undefined;
  /** `[B, T]`: entropy of the policy's distribution at each token, nats, see `logitsStatistics`. */
  readonly entropys?: Tensor | undefined;
  /** `[B, T]`: log π of the policy that generated, as the rollout engine reported it, nats. */
  readonly rolloutLogProbs?: Tensor | undefined;
  /** `[B, T]`: importance weights π_old / π_rollout as the loss applies them. */
  readonly rolloutIsWeights?: Tensor | undefined;
  /** `[B, T]`: Σπ² over the vocabulary at each token, see `logitsStatistics`. */
  readonly sumPiSquared?: Tensor | undefined;
  /** `[B]`: prompt tokens per row; wins over the attention mask. */
  readonly promptLength?: RowColumn | undefined;
  /** `[B]`: response tokens per row; wins over the attention mask. */
  readonly responseLength?: RowColumn | undefined;
  /** `[B]`: conversation turns per row. */
  readonly numTurns?: ArrayLike<number> | undefined;
  /** `[B]`: tool calls per row. */
  readonly toolCallCounts?: ArrayLike<number> | undefined;
  /** Tokens of every sequence of the global batch, over all ranks; any length. */
  readonly globalTokenNum?: ArrayLike<number> | undefined;
}

/** The tensors of a batch that are `[B, T]`, by field, with verl's names. */
export const RESPONSE_TENSORS = {
  responseMask: 'response_mask',
  tokenLevelScores: 'token_level_scores',
  tokenLevelRewards: 'token_level_rewards',
  advantages: 'advantages',
  returns: 'returns',
  values: 'values',
  valuePredictions: 'vpreds',
  logProbs: 'log_probs',
  oldLogProbs: 'old_log_probs',
  refLogProbs: 'ref_log_prob',
  entropys: 'entropys',
  rolloutLogProbs: 'rollout_log_probs',
  rolloutIsWeights: 'rollout_is_weights',
  sumPiSquared: 'sum_pi_squared',
} as const satisfies Partial<Record<keyof RolloutBatch, string>>;

/** Fields of `RolloutBatch` that hold `[B, T]` tensors. */
export type ResponseField = keyof typeof RESPONSE_TENSORS;

/** T of a batch: as given, else the width of its response tensors; undefined if it has neither. */
export function responseWidthOf(batch: RolloutBatch): number | undefined {
  if (batch.responseWidth !== undefined) return batch.responseWidth;
  const tensors = (Object.keys(RESPONSE_TENSORS) as ResponseField[]).flatMap((field) => batch[field] ?? []);
  const widest = tensors.find(({ rank }) => rank === 2) ?? tensors[0];
  return widest && columnsOf(widest);
}

/**
 * Whether every row is one step, as in classic control: one column and no prompt. Such a batch needs no mask, and its rows have no
 * lengths.
 */
export function isOneStep(batch: RolloutBatch): boolean {
  const { attentionMask, promptLength, responseLength } = batch;
  const hasLengths = promptLength !== undefined || responseLength !== undefined;
  const hasPrompt = attentionMask !== undefined && columnsOf(attentionMask) > 1;
  return !hasLengths && !hasPrompt && responseWidthOf(batch) === 1;
}

/** Columns of a tensor `[B, T]`; `[B]` is one step a row. */
export function columnsOf({ rank, shape }: Tensor): number {
  return rank === 1 ? 1 : shape[1]!;
}

/** verl's names of the columns with one number per row. */
export const ROW_COLUMNS = { promptLength: 'prompt_length', responseLength: 'response_length' } as const;

/** verl's names of the lists that are always on the host. */
export const LISTS = {
  numTurns: '__num_turns__',
  toolCallCounts: 'tool_call_counts',
  globalTokenNum: 'global_token_num',
} as const;

/** All fields, with verl's names where it has them. */
const FIELDS: Readonly<Record<keyof RolloutBatch, string>> = {
  batchSize: 'batch_size',
  responseWidth: 'response_width',
  isFullSequence: 'is_full_sequence',
  attentionMask: 'attention_mask',
  ...RESPONSE_TENSORS,
  ...ROW_COLUMNS,
  ...LISTS,
};

/** @throws ValueError for a width that is no number of columns */
export function assertWidth(where: string, width: number): void {
  if (Number.isSafeInteger(width) && width >= 0) return;
  throw new ValueError({
    where,
    input: where === 'batchFromVerl' ? 'options.responseWidth' : 'responseWidth',
    expected: 'a whole number of response columns',
    received: kindOf(width),
    remedy: 'pass the width T that responses are padded to',
  });
}

/** @throws ValueError for a hand-made batch whose rows nobody counted */
function assertRows(where: string, batchSize: number): void {
  if (Number.isSafeInteger(batchSize) && batchSize >= 0) return;
  throw new ValueError({
    where,
    input: 'batchSize',
    expected: 'a whole number of rows',
    received: kindOf(batchSize),
    remedy: 'make the batch with batchFromVerl, or set batchSize to B',
  });
}

/** Rows of the first field that has rows; 0 for a batch of totals only. */
export function rowsOf(fields: Partial<Record<keyof RolloutBatch, unknown>>): number {
  const tensorFields = ['attentionMask', ...Object.keys(RESPONSE_TENSORS)] as (keyof RolloutBatch)[];
  for (const field of tensorFields) {
    const tensor = fields[field] as Tensor | undefined;
    if (tensor !== undefined) return tensor.shape.at(0) ?? 0;
  }
  for (const field of ['promptLength', 'responseLength', 'numTurns', 'toolCallCounts'] as const) {
    const column = fields[field] as RowColumn | undefined;
    if (column !== undefined) return columnLength(column);
  }
  return 0;
}

function columnLength(column: RowColumn): number {
  if (isTensorColumn(column)) return column.size;
  return isArrayLike(column) ? column.length : 0; // what is no list is refused by assertBatch
}

/** Whether a column is on a device. */
export function isTensorColumn(column: RowColumn): column is Tensor {
  return typeof column === 'object' && (column as object | null) !== null && 'dataId' in column;
}

/**
 * Checks that everything in the batch fits together.
 *
 * @throws ShapeError naming the input, both shapes and the remedy; DtypeError, DisposedTensorError; ValueError for a field
 *   that is misspelt or has verl's name
 */
export function assertBatch(where: string, batch: RolloutBatch): void {
  assertNamed(where, 'batch', batch, {
    expected: 'a batch',
    remedy: 'make one with batchFromVerl, or write { batchSize, responseMask, … }',
  });
  assertFieldNames(where, batch, FIELDS);
  const { batchSize, responseWidth, attentionMask } = batch;
  assertRows(where, batchSize);
  if (responseWidth !== undefined) assertWidth(where, responseWidth);
  for (const [field, name] of Object.entries(RESPONSE_TENSORS)) {
    const tensor = batch[field as ResponseField];
    if (tensor !== undefined) assertNumericTensor(where, name, tensor);
  }
  // Where nobody said how wide the response part is, its first tensor does: all have to agree.
  const width = responseWidthOf(batch);
  for (const [field, name] of Object.entries(RESPONSE_TENSORS)) {
    const tensor = batch[field as ResponseField];
    if (tensor === undefined) continue;
    const isMatrix = tensor.rank === 1 || tensor.rank === 2;
    const cols = columnsOf(tensor);
    if (!isMatrix || tensor.shape[0] !== batchSize || cols !== width) {
      refuseResponse(where, name, tensor, [batchSize, width]);
    }
  }
  if (attentionMask !== undefined) {
    assertNumericTensor(where, 'attention_mask', attentionMask);
    const isMatrix = attentionMask.rank === 1 || attentionMask.rank === 2;
    const fits = isMatrix && attentionMask.shape[0] === batchSize && columnsOf(attentionMask) >= (width ?? 0);
    if (!fits) {
      const wanted = `[batch, prompt + response] = [${batchSize}, ≥ ${width ?? 0}]`;
      refuse(where, 'attention_mask', attentionMask, wanted);
    }
  }
  const columns = {
    prompt_length: batch.promptLength,
    response_length: batch.responseLength,
    __num_turns__: batch.numTurns,
    tool_call_counts: batch.toolCallCounts,
  };
  if (batch.globalTokenNum !== undefined) {
    assertCounts(where, 'global_token_num', batch.globalTokenNum, width);
  }
  for (const [name, column] of Object.entries(columns)) {
    if (column === undefined) continue;
    const mayBeTensor = name === 'prompt_length' || name === 'response_length';
    if (mayBeTensor && isTensorColumn(column)) assertNumericTensor(where, name, column);
    else assertCounts(where, name, column, width);
    if (columnLength(column) === batchSize) continue;
    throw new ShapeError({
      where,
      input: name,
      expected: `one number per row, ${batchSize}`,
      received: String(columnLength(column)),
      remedy: 'pass the column of the same batch',
    });
  }
}

/** @throws DtypeError for a column that holds anything but numbers; ValueError for a number that counts nothing */
function assertCounts(where: string, name: string, column: RowColumn, width: number | undefined): void {
  assertNumbers(where, name, column);
  assertEveryCount(where, name, column as ArrayLike<number>, width);
}

/**
 * @param width T; undefined if nobody told
 * @throws ValueError for a number that counts nothing: negative, NaN or infinite, a fraction of a token, or more response
 *   tokens than there are columns
 */
export function assertEveryCount(
  where: string,
  name: string,
  values: ArrayLike<number>,
  width: number | undefined,
): void {
  const ofTokens = /length|token/.test(name);
  const most = name === ROW_COLUMNS.responseLength ? (width ?? Infinity) : Infinity;
  for (let i = 0; i < values.length; i++) {
    const count = values[i]!;
    if (count >= 0 && count < Infinity && count <= most && (!ofTokens || Number.isInteger(count))) continue;
    throw new ValueError({
      where,
      input: name,
      expected: ofTokens
        ? `whole numbers of tokens, 0 ${most === Infinity ? 'or more' : `to ${most}, the width of the response part`}`
        : 'numbers of turns or calls, 0 or more',
      received: `${kindOf(count)} at ${i}`,
      remedy: 'count again, or leave the column out',
    });
  }
}

/** @throws DtypeError for a column that holds anything but numbers, e.g. BigInts, booleans, text or nulls */
function assertNumbers(where: string, name: string, column: RowColumn): void {
  const values: ArrayLike<unknown> | undefined = isArrayLike(column) ? column : undefined;
  const stranger = values === undefined ? 0 : strangerAt(values, (value) => typeof value === 'number');
  if (stranger === -1) return;
  throw new DtypeError({
    where,
    input: name,
    expected: 'an array of numbers',
    received: values === undefined ? kindOf(column) : `${kindOf(values[stranger])} at ${stranger}`,
    remedy: 'convert it first, e.g. Float64Array.from(column, Number), or Array.from(await tensor.data())',
  });
}

function refuse(where: string, name: string, tensor: Tensor, expected: string): never {
  throw new ShapeError({
    where,
    input: name,
    expected,
    received: `[${tensor.shape.join(', ')}]`,
    remedy: 'pass all tensors of one batch, padded to one width',
  });
}

/** Columns with the score of a sequence in place of those of its tokens are the usual mistake. */
const SCORES: readonly string[] = [RESPONSE_TENSORS.tokenLevelScores, RESPONSE_TENSORS.tokenLevelRewards];

/** @param expected B and T */
function refuseResponse(
  where: string,
  name: string,
  tensor: Tensor,
  [rows, cols]: readonly [number, number | undefined],
): never {
  const isOnePerRow = tensor.size === rows && tensor.shape[0] === rows;
  const ofScores =
    `put each number on the last token of its row, e.g. ${name}: ` +
    `tf.where(tf.cast(tf.oneHot(lastToken, ${cols}), 'bool'), tf.reshape(scores, [-1, 1]), 0)`;
  const ofSteps = 'pass all tensors padded to one width, or for one step a row all of them as [batch]';
  throw new ShapeError({
    where,
    input: name,
    expected: `[batch, response] = [${rows}, ${cols ?? 'T'}]${cols === 1 ? ` or [${rows}]` : ''}`,
    received: `[${tensor.shape.join(', ')}]`,
    remedy: !isOnePerRow
      ? 'pass all tensors of one batch, padded to one width'
      : SCORES.includes(name)
        ? ofScores
        : ofSteps,
  });
}

/**
 * The refusal of a batch that lacks a `[B, T]` tensor; undefined if the batch has it.
 *
 * @param otherwise what else than putting the tensor into the batch helps
 */
export function missingTensor(
  where: string,
  batch: RolloutBatch,
  field: ResponseField,
  otherwise = '',
): MissingInputError | undefined {
  if (batch[field] !== undefined) return undefined;
  return new MissingInputError({
    where,
    input: RESPONSE_TENSORS[field],
    expected: 'a [batch, response] tensor',
    received: 'nothing',
    remedy: `put ${RESPONSE_TENSORS[field]} into the batch${otherwise}`,
  });
}

/**
 * The `[B, T]` tensors that a metric needs.
 *
 * @throws MissingInputError naming the first that is not there
 */
export function requireTensors<F extends ResponseField>(
  where: string,
  batch: RolloutBatch,
  fields: readonly F[],
): Record<F, Tensor> {
  const found: Partial<Record<F, Tensor>> = {};
  for (const field of fields) {
    const missing = missingTensor(where, batch, field);
    if (missing !== undefined) throw missing;
    found[field] = batch[field];
  }
  return found as Record<F, Tensor>;
}
