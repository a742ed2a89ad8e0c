/**
 * The tensors of a rollout correction, made on the device from what its metrics have decided.
 *
 * Nothing is read back for them. Whole rows are decided on the host, in float64, and come as one number per row; tokens
 * are compared again where they are.
 */
import * as tf from '@tensorflow/tfjs-core';
import { tidyWhere } from '../../kernels/resident-ops.js';
import { type Interval, insideRange } from './interval.js';
import type { RejectionDecision } from './rejection.js';
import { LOG_RATIO_LIMIT } from './rows.js';
import type { WeightDecision } from './weights.js';

/** What the metrics have decided. */
export interface CorrectionDecisions {
  readonly weights: WeightDecision | undefined;
  readonly rejection: RejectionDecision | undefined;
}

/** `[B, T]` tensors of the batch, on one backend. */
export interface CorrectionInputs {
  readonly oldLogProbs: tf.Tensor;
  readonly rolloutLogProbs: tf.Tensor;
  readonly responseMask: tf.Tensor;
}

/**
 * Makes the tensors, which belong to the caller.
 *
 * @returns weights, float32 and 0 outside the mask; the mask that is left, of the dtype of the one given
 * @throws BackendError
 */
export function correctionTensors(
  where: string,
  inputs: CorrectionInputs,
  { weights, rejection }: CorrectionDecisions,
): { readonly isWeights?: tf.Tensor; readonly responseMask: tf.Tensor } {
  const { responseMask } = inputs;
  const isEmpty = responseMask.size === 0;
  const named = Object.entries<tf.Tensor>({ ...inputs }).map(([name, tensor]) => ({ name, tensor }));
  return tidyWhere(where, named, () => {
    const tokens = new Tokens(inputs);
    return {
      ...(weights && { isWeights: isEmpty ? tf.zeros(responseMask.shape) : tokens.weights(weights) }),
      responseMask: rejection && !isEmpty ? tokens.left(rejection) : responseMask.clone(),
    };
  });
}

/** The tokens of a batch as the tensors that decisions are carried out on. Lives in a `tf.tidy`. */
class Tokens {
  readonly #inputs: CorrectionInputs;
  #ratio: tf.Tensor | undefined;
  #number: tf.Tensor | undefined;

  constructor(inputs: CorrectionInputs) {
    this.#inputs = inputs;
  }

  /** What rejection leaves of the mask. */
  left({ tokens, rows }: RejectionDecision): tf.Tensor {
    const kept =
      tokens === undefined ? this.#selected() : tf.logicalAnd(this.#selected(), this.#isIn(tokens));
    const left = rows === undefined ? kept : tf.mul(tf.cast(kept, 'float32'), column(rows));
    return tf.cast(left, this.#inputs.responseMask.dtype);
  }

  /** The weights to apply: selected, not multiplied, so that no NaN outside the mask survives. */
  weights(decision: WeightDecision): tf.Tensor {
    return tf.where(this.#selected(), this.#unmasked(decision), this.#zeros());
  }

  /** Weights of all tokens, whether the mask selects them or not. */
  #unmasked({ ofRows, lower, upper, factor }: WeightDecision): tf.Tensor {
    if (ofRows !== undefined) return tf.add(this.#zeros(), column(ofRows.map((weight) => weight / factor)));
    const ratio = this.#logRatio();
    const raw = tf.exp(tf.clipByValue(ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT));
    const bounded =
      lower === undefined
        ? // Not every backend's clip and minimum keep a NaN.
          tf.where(this.#isNumber(), tf.minimum(raw, upper), ratio)
        : tf.where(this.#isIn(insideRange(lower, upper)), raw, this.#zeros());
    return factor === 1 ? bounded : tf.div(bounded, factor);
  }

  /** Whether the log ratio of a token is in the interval. */
  #isIn({ low, high }: Interval): tf.Tensor {
    const ratio = this.#logRatio();
    if (low > high) return tf.cast(this.#zeros(), 'bool');
    let isIn = this.#isNumber();
    if (low > -Infinity) isIn = tf.logicalAnd(isIn, tf.greaterEqual(ratio, low));
    if (high < Infinity) isIn = tf.logicalAnd(isIn, tf.lessEqual(ratio, high));
    return isIn;
  }

  /** Compared, not cast: one backend casts fractions to false. */
  #selected(): tf.Tensor {
    const { responseMask } = this.#inputs;
    return responseMask.dtype === 'bool' ? responseMask : tf.notEqual(responseMask, 0);
  }

  #logRatio(): tf.Tensor {
    const { oldLogProbs, rolloutLogProbs } = this.#inputs;
    return (this.#ratio ??= tf.sub(tf.cast(oldLogProbs, 'float32'), tf.cast(rolloutLogProbs, 'float32')));
  }

  /** Where the log ratio is no NaN; asked of its bits, since a shader compiler may hold NaN to be impossible. */
  #isNumber(): tf.Tensor {
    return (this.#number ??= tf.logicalNot(tf.isNaN(this.#logRatio())));
  }

  #zeros(): tf.Tensor {
    return tf.fill(this.#inputs.responseMask.shape, 0);
  }
}

/** `[B, 1]` */
function column(ofRows: Float64Array): tf.Tensor {
  return tf.tensor2d(Float32Array.from(ofRows), [ofRows.length, 1]);
}
