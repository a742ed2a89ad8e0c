/** The mask of a response, from where it ends. */
import * as tf from '@tensorflow/tfjs-core';
import { kindOf } from '../../arguments.js';
import { DtypeError, ShapeError, ValueError } from '../../errors.js';
import { assertNumericTensor } from '../../kernels/residency.js';
import { tidyWhere } from '../../kernels/resident-ops.js';

const WHERE = 'responseMaskFromEos';

/**
 * True for every token up to the first that ends the response, that one included; false behind it. A row without an end
 * is all true: it was cut off.
 *
 * @param responses `[B, T]` token ids, int32 or float32
 * @param eosTokens the id or ids that end a response, below 2^24
 * @returns bool `[B, T]` on the backend of the ids, made there: nothing is read back. It belongs to the caller or his
 *   `tf.tidy`; a denominator takes it as it is, and `mask.toFloat()` is what tfjs multiplies by
 * @throws ShapeError for ids of another rank, ValueError for invalid tokens, DtypeError, DisposedTensorError,
 *   MissingInputError
 * @source verl, utils/torch_functional.py, get_response_mask
 * @example  const response_mask = responseMaskFromEos(responses, [151643, 151645]);
 */
export function responseMaskFromEos(responses: tf.Tensor, eosTokens: number | readonly number[]): tf.Tensor {
  assertNumericTensor(WHERE, 'responses', responses);
  if (responses.rank !== 2) {
    throw new ShapeError({
      where: WHERE,
      input: 'responses',
      expected: '[batch, response]',
      received: `[${responses.shape.join(', ')}]`,
      remedy: 'pass the token ids of the response part, padded to one width',
    });
  }
  if (responses.dtype === 'bool') {
    throw new DtypeError({
      where: WHERE,
      input: 'responses',
      expected: 'token ids, int32',
      received: 'dtype bool',
      remedy: 'pass the ids, and not a mask of them',
    });
  }
  const ends = endsOf(eosTokens);
  const [, cols] = responses.shape as [number, number];
  if (responses.size === 0) return tf.zeros(responses.shape, 'bool');
  return tidyWhere(WHERE, [{ name: 'responses', tensor: responses }], () => {
    const positions = tf.expandDims(tf.range(0, cols, 1, 'float32'), 0);
    const isEnd = ends.map((end) => tf.equal(responses, tf.scalar(end, responses.dtype)));
    // Where the first end is, or behind the row if there is none; a running sum of ends would take a pass per doubling.
    const places = tf.where(isEnd.reduce(tf.logicalOr), tf.add(tf.zeros(responses.shape), positions), cols);
    return tf.lessEqual(positions, tf.min(places, 1, true));
  });
}

/** Ids nearer to 0 than this are what they are in float32, too: some devices compare int32 as such. */
const ID_LIMIT = 2 ** 24;

function endsOf(eosTokens: unknown): readonly number[] {
  const given: unknown = typeof eosTokens === 'number' ? [eosTokens] : eosTokens;
  const ends: readonly unknown[] | undefined = Array.isArray(given) ? Array.from(given) : undefined;
  const isEnd = (token: unknown): token is number =>
    Number.isInteger(token) && Math.abs(token as number) < ID_LIMIT;
  if (ends !== undefined && ends.length > 0 && ends.every(isEnd)) return ends;
  throw new ValueError({
    where: WHERE,
    input: 'eosTokens',
    expected: `a token id below ${ID_LIMIT}, or a list of one or more`,
    received:
      ends === undefined
        ? kindOf(eosTokens)
        : ends.length === 0
          ? 'an empty list'
          : kindOf(ends.find((token) => !isEnd(token))),
    remedy: 'pass the eos_token_id of the tokenizer',
  });
}
