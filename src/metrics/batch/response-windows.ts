/** Which elements of the response part `[B, T]` a metric looks at, as windows of the batch's masks. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { type MatrixWindow, denseWindow } from '../../kernels/moments/pass.js';
import { type RolloutBatch, columnsOf, isOneStep, requireTensors, responseWidthOf } from './batch.js';

/** Rows and columns of the response part of a checked batch. */
export function batchShape(batch: RolloutBatch): { rows: number; cols: number } {
  return { rows: batch.batchSize, cols: responseWidthOf(batch) ?? 0 };
}

/** Rows and columns of a `[B, T]` tensor; `[B]` has one column. */
export function responseShape(tensor: Tensor): { rows: number; cols: number } {
  return { rows: tensor.shape[0], cols: columnsOf(tensor) };
}

/** The tokens that take part in the loss; undefined without a response mask. */
export function responseTokens({ responseMask }: RolloutBatch): MatrixWindow | undefined {
  return responseMask && denseWindow(responseMask, columnsOf(responseMask));
}

/**
 * The tokens that take part in the loss, of a batch that must tell them; undefined for all steps of a batch of one step a
 * row, which needs no mask.
 *
 * @throws MissingInputError without a response mask
 */
export function requireResponseTokens(where: string, batch: RolloutBatch): MatrixWindow | undefined {
  if (!isOneStep(batch)) requireTensors(where, batch, ['responseMask']);
  return responseTokens(batch);
}

/**
 * The tokens among the last `cols` columns of the attention mask: those of the response part that are no padding, tool
 * output included. Undefined without an attention mask.
 */
export function attendedTokens({ attentionMask }: RolloutBatch, cols: number): MatrixWindow | undefined {
  if (attentionMask === undefined) return undefined;
  const stride = columnsOf(attentionMask);
  return { tensor: attentionMask, stride, offset: stride - cols, step: 1 };
}
