/**
 * Which tokens of the response part exist: the population of scores and rewards.
 *
 * A mask can lose tokens, e.g. all of a row that was rejected, and a length column can count less than a row spans, e.g.
 * without its tool output. A reward on a token that either of them knows is a reward.
 */
import * as tf from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';
import { type MatrixWindow, denseWindow } from '../../kernels/moments/pass.js';
import { commonBackend } from '../../kernels/residency.js';
import { selectionOf, tidyWhere } from '../../kernels/resident-ops.js';
import { type RolloutBatch, type RowColumn, columnsOf, isTensorColumn, responseWidthOf } from './batch.js';
import { attendedTokens, responseTokens } from './response-windows.js';

/** A mask of a pass, by the name that channels use. */
export interface NamedMask {
  readonly name: string;
  readonly window: MatrixWindow;
}

/**
 * Launches what needs the tokens that exist: those of the attention mask, or without one of the response mask; where
 * there is a column response_length, also those before it, and none of a row of length 0.
 *
 * @param use is given undefined if nothing tells; whatever it launches must be launched when it returns
 * @throws BackendError for a column on a backend that cannot hand it to that of the masks
 */
export function withExistingTokens<T>(
  where: string,
  batch: RolloutBatch,
  use: (existing: NamedMask | undefined) => T,
): T {
  const masked = maskedTokens(batch);
  // In a full sequence the columns before a length are not those of the response.
  const responseLength = batch.isFullSequence ? undefined : batch.responseLength;
  if (masked === undefined || responseLength === undefined || masked.cols * batch.batchSize === 0) {
    return use(masked);
  }
  const mask = unionMask(where, batch, masked, responseLength);
  try {
    const name = batch.attentionMask === undefined ? 'existingResponse' : 'existingAttended';
    return use({ name, window: denseWindow(mask, masked.cols) });
  } finally {
    mask.dispose();
  }
}

interface MaskedTokens extends NamedMask {
  /** `[B, …]`, whose last columns are the response part. */
  readonly tensor: tf.Tensor;
  readonly cols: number;
}

/** The tokens that a mask knows. The names are those of the other families, so that a pass reads a mask once. */
function maskedTokens(batch: RolloutBatch): MaskedTokens | undefined {
  const cols = responseWidthOf(batch);
  if (cols === undefined) return undefined;
  const { attentionMask, responseMask } = batch;
  const attended = attendedTokens(batch, cols);
  if (attended !== undefined) return { name: 'attended', window: attended, tensor: attentionMask!, cols };
  const response = responseTokens(batch);
  return response && { name: 'response', window: response, tensor: responseMask!, cols };
}

/** bool `[B, T]` on the backend of the masks. */
function unionMask(
  where: string,
  { batchSize }: RolloutBatch,
  { tensor, cols }: MaskedTokens,
  column: RowColumn,
): tf.Tensor {
  const name = 'attention_mask or response_mask';
  const { backend } = commonBackend(where, [{ name, tensor }]);
  const local = isTensorColumn(column) && isOn(backend, column) ? column : hostNumbers(where, column);
  return tidyWhere(where, [{ name, tensor }], () => {
    const selected = selectionOf(
      tf.slice(tf.reshape(tensor, [batchSize, -1]), [0, columnsOf(tensor) - cols], [batchSize, cols]),
    );
    const given = local instanceof tf.Tensor ? local : tf.tensor(local, [batchSize], 'float32');
    const lengths = tf.reshape(tf.cast(given, 'float32'), [batchSize, 1]);
    const isBefore = tf.less(tf.expandDims(tf.range(0, cols, 1, 'float32'), 0), lengths);
    return tf.logicalOr(isBefore, tf.logicalAnd(selected, tf.greater(lengths, 0)));
  });
}

function isOn(backend: tf.KernelBackend, tensor: tf.Tensor): boolean {
  return commonBackend('withExistingTokens', [{ name: 'response_length', tensor }]).backend === backend;
}

/** The numbers of a column that is not on the device. */
function hostNumbers(where: string, column: RowColumn): Float32Array {
  if (!isTensorColumn(column)) return Float32Array.from(column);
  const { name, backend } = commonBackend(where, [{ name: 'response_length', tensor: column }]);
  if (name !== 'webgpu') return Float32Array.from(backend.readSync(column.dataId) as ArrayLike<number>);
  throw new BackendError({
    where,
    input: 'response_length',
    expected: 'an array, or a tensor on the backend of the masks',
    received: `a tensor on "${name}", which cannot be read at once`,
    remedy: 'pass Array.from(await response_length.data())',
  });
}
