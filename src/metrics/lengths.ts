/** Tokens per row: from the batch's length columns where it has them, else counted in the attention mask. */
import { MissingInputError } from '../errors.js';
import { constant, input } from '../kernels/expression.js';
import { Moments, Pending } from '../kernels/index.js';
import { passTables } from '../kernels/moments/pass.js';
import { type RolloutBatch, type RowColumn, isTensorColumn } from './batch.js';

/** One exact number of tokens per row. */
export interface RowLengths {
  readonly prompt: Float64Array;
  readonly response: Float64Array;
}

/**
 * Prompt and response tokens of every row.
 *
 * @param useColumns whether the columns `prompt_length` and `response_length` win over the attention mask
 * @throws MissingInputError if neither tells the lengths
 */
export function rowLengths(where: string, batch: RolloutBatch, useColumns: boolean): Pending<RowLengths> {
  const { promptLength, responseLength } = batch;
  return Pending.launchAll<[Float64Array, Float64Array]>([
    () =>
      useColumns && promptLength !== undefined
        ? columnValues(where, promptLength)
        : countTokens(where, batch, 'prompt'),
    () =>
      useColumns && responseLength !== undefined
        ? columnValues(where, responseLength)
        : countTokens(where, batch, 'response'),
  ]).map(([prompt, response]) => ({ prompt, response }));
}

/** Columns of the attention mask that are prompt, the rest being response. */
export function promptWidth(batch: RolloutBatch): number | undefined {
  const { attentionMask, responseWidth } = batch;
  if (attentionMask === undefined || responseWidth === undefined) return undefined;
  return attentionMask.shape[1]! - responseWidth;
}

/** The numbers of a column; on a device they are read exactly, as rows of one element. */
function columnValues(where: string, column: RowColumn): Pending<Float64Array> {
  if (!isTensorColumn(column)) return Pending.of(Float64Array.from(column));
  return passTables({
    where,
    rows: column.size,
    cols: 1,
    inputs: { column },
    channels: { column: input('column') },
  }).map(({ column: table }) => Float64Array.from(table, (row) => new Moments(row).sum));
}

function countTokens(where: string, batch: RolloutBatch, part: 'prompt' | 'response'): Pending<Float64Array> {
  const { attentionMask, responseWidth } = batch;
  const width = promptWidth(batch);
  if (attentionMask === undefined || responseWidth === undefined || width === undefined) {
    const missesMask = attentionMask === undefined;
    throw new MissingInputError({
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
  const offset = part === 'prompt' ? 0 : width;
  return passTables({
    where,
    rows: batch.batchSize,
    cols: part === 'prompt' ? width : responseWidth,
    inputs: {},
    channels: { tokens: constant(1) },
    mask: { tensor: attentionMask, stride: attentionMask.shape[1]!, offset },
  }).map(({ tokens }) => Float64Array.from(tokens, (row) => row.count));
}
