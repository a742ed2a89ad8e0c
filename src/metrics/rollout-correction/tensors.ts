/**
 * The tensors of a rollout correction, made on the device from what its metrics have decided.
 *
 * Nothing is read back for them. Whole rows are decided on the host, in float64, and come as one number per row; tokens
 * are compared again where they are.
 */
import * as tf from '@tensorflow/tfjs-core';
import { selectionOf, tidyWhere } from '../../kernels/resident-ops.js';
import { type Interval, insideRange } from './interval.js';
import type { RejectionDecision } from './rejection.js';
import { LOG_RATIO_LIMIT } from './rows.js';
import type { WeightDecision } from './weights.js';

/** What the metrics have decided. */
export interface CorrectionDecisions {
  readonly weights: WeightDecision | undefined;
  readonly rejection: RejectionDecision | undefined;
}

/** `[B, T]` tensors of the batch, on one backend; some may be `[B]` where T is 1. */
export interface CorrectionInputs {
  readonly oldLogProbs: tf.Tensor;
  readonly rolloutLogProbs: tf.Tensor;
  /** Undefined where all steps count. */
  readonly responseMask?: tf.Tensor | undefined;
}

/**
 * Makes the tensors, which belong to the caller.
 *
 * @returns weights, float32 and 0 outside the mask; the mask that is left, bool
 * @throws BackendError
 */
export function correctionTensors(
  where: string,
  inputs: CorrectionInputs,
  { weights, rejection }: CorrectionDecisions,
): { readonly isWeights?: tf.Tensor; readonly responseMask: tf.Tensor } {
  const named = Object.entries<tf.Tensor | undefined>({ ...inputs }).flatMap(([name, tensor]) =>
    tensor === undefined ? [] : [{ name, tensor }],
  );
  return tidyWhere(where, named, () => {
    const tokens = new Tokens(inputs);
    const left = tokens.left(rejection);
    return { ...(weights && { isWeights: tokens.weights(weights, left) }), responseMask: left };
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

  /** That of the mask. */
  get #shape(): number[] {
    const { responseMask, oldLogProbs } = this.#inputs;
    return (responseMask ?? oldLogProbs).shape;
  }

  get #isEmpty(): boolean {
    return this.#inputs.oldLogProbs.size === 0;
  }

  #selected(): tf.Tensor {
    const { responseMask } = this.#inputs;
    return responseMask === undefined ? tf.ones(this.#shape, 'bool') : selectionOf(responseMask);
  }

  /** What rejection leaves of the mask, as a tensor of its own. */
  left(rejection: RejectionDecision | undefined): tf.Tensor {
    const { responseMask } = this.#inputs;
    if (this.#isEmpty) return tf.zeros(this.#shape, 'bool');
    const selected = this.#selected();
    const { tokens, rows } = rejection ?? {};
    const kept = tokens === undefined ? selected : tf.logicalAnd(selected, this.#isIn(tokens));
    const left = rows === undefined ? kept : tf.logicalAnd(kept, tf.greater(column(rows), 0));
    return left === responseMask ? left.clone() : left;
  }

  /**
   * The weights to apply: selected, not multiplied, so that no NaN outside the mask survives, and none of a token that is
   * rejected for it: a loss is multiplied by the weight and by the mask.
   */
  weights(decision: WeightDecision, left: tf.Tensor): tf.Tensor {
    if (this.#isEmpty) return tf.zeros(this.#shape);
    const weights = this.#unmasked(decision);
    const counts = tf.logicalOr(left, tf.logicalNot(tf.isNaN(weights)));
    return tf.where(tf.logicalAnd(this.#selected(), counts), weights, this.#zeros());
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

  #logRatio(): tf.Tensor {
    const { oldLogProbs, rolloutLogProbs } = this.#inputs;
    const number = (tensor: tf.Tensor): tf.Tensor => tf.reshape(tf.cast(tensor, 'float32'), this.#shape);
    return (this.#ratio ??= tf.sub(number(oldLogProbs), number(rolloutLogProbs)));
  }

  /** Where the log ratio is no NaN; asked of its bits, since a shader compiler may hold NaN to be impossible. */
  #isNumber(): tf.Tensor {
    return (this.#number ??= tf.logicalNot(tf.isNaN(this.#logRatio())));
  }

  #zeros(): tf.Tensor {
    return tf.fill(this.#shape, 0);
  }
}

/** `[B, 1]` */
function column(ofRows: Float64Array): tf.Tensor {
  return tf.tensor2d(Float32Array.from(ofRows), [ofRows.length, 1]);
}
