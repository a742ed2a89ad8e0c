/** Which elements of the response part `[B, T]` a metric looks at, as windows of the batch's masks. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { type MatrixWindow, denseWindow } from '../kernels/moments/pass.js';
import type { RolloutBatch } from './batch.js';

/** Rows and columns of a `[B, T]` tensor. */
export function responseShape({ shape }: Tensor): { rows: number; cols: number } {
  return { rows: shape[0], cols: shape[1]! };
}

/** The tokens that take part in the loss; undefined without a response mask. */
export function responseTokens({ responseMask }: RolloutBatch): MatrixWindow | undefined {
  return responseMask && denseWindow(responseMask, responseMask.shape[1]!);
}

/**
 * The tokens among the last `cols` columns of the attention mask: those of the response part that are no padding, tool
 * output included. Undefined without an attention mask.
 */
export function attendedTokens({ attentionMask }: RolloutBatch, cols: number): MatrixWindow | undefined {
  if (attentionMask === undefined) return undefined;
  const stride = attentionMask.shape[1]!;
  return { tensor: attentionMask, stride, offset: stride - cols, step: 1 };
}
