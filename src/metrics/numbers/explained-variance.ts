/** Explained variance of the value function, from the mergeable rows of returns and of their prediction errors. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { subtract } from '../../kernels/expression.js';
import { Pending } from '../../kernels/index.js';
import { launchChannels } from '../../kernels/moments/channels.js';
import { recognizeAcrossCopies } from '../../process-wide.js';
import { Moments, type MomentsRow, emptyRow, mergeRows } from '../../rows/index.js';
import { type Semantics, assertSemantics } from '../semantics.js';
import { isOneNumber } from './rounding.js';

/** What verl adds to the variance of the returns. Rewards of ±1e-3 drown in it. */
const VERL_EPSILON = 1e-5;

/**
 * 1 − Var(returns − values) / Var(returns), both variances unbiased. Range (−∞, 1]; 1 is a perfect critic up to a
 * constant, 0 no better than predicting the mean, negative worse than that.
 *
 * NaN for fewer than two tokens or a NaN inside. Returns that are equal but for float32 rounding (their range is at most
 * 2⁻²¹ of the largest magnitude) leave nothing to explain and give NaN. The verl presets add 1e-5 to the variance of the
 * returns instead, whatever their unit.
 *
 * @param returns row of the returns of the selected tokens
 * @param errors row of returns − values of the same tokens
 * @source verl, trainer/ppo/metric_utils.py, compute_data_metrics
 */
export function explainedVariance(returns: MomentsRow, errors: MomentsRow, semantics: Semantics): number {
  const ret = new Moments(returns);
  const ofErrors = new Moments(errors).variance();
  if (semantics !== 'recommended') return 1 - ofErrors / (ret.variance() + VERL_EPSILON);
  return isOneNumber(ret.min, ret.max) ? NaN : 1 - ofErrors / ret.variance();
}

/**
 * Explained variance that can be merged: over micro-batches, over ranks, in any order, it equals that of the whole.
 *
 * Averaging the explained variances of parts does not, since the level of the returns differs between them.
 *
 * @example
 *   let all = new ExplainedVariance();
 *   for (const part of parts) all = all.merge(await ExplainedVariance.of(part.returns, part.values, part.mask));
 *   all.value(); // as if the parts had been one batch
 */
export class ExplainedVariance {
  static {
    recognizeAcrossCopies(this, 'explained-variance', 1);
  }

  /** Moments of the returns of the selected tokens. */
  readonly returns: MomentsRow;
  /** Moments of returns − values of the same tokens. */
  readonly errors: MomentsRow;

  /** Of nothing, or of rows that were kept or came from another process. */
  constructor(returns: MomentsRow = emptyRow, errors: MomentsRow = emptyRow) {
    this.returns = returns;
    this.errors = errors;
  }

  /**
   * Of the tokens that `mask` selects.
   *
   * @param returns `[B, T]` or any other shape
   * @param values the critic's predictions, same shape
   * @param mask same shape; left out, every token counts
   * @throws as `channelMoments`, by rejection, in the name of this function
   */
  static of(returns: Tensor, values: Tensor, mask?: Tensor): Pending<ExplainedVariance> {
    const channels = { returns: 'returns', errors: subtract('returns', 'values') };
    return Pending.attempt(() =>
      launchChannels('ExplainedVariance.of', channels, { returns, values }, mask, undefined).map(
        (tables) => new ExplainedVariance(tables.returns.total(), tables.errors.total()),
      ),
    );
  }

  /** Selected tokens. */
  get count(): number {
    return this.returns.count;
  }

  /** Of the tokens of both. */
  merge(other: ExplainedVariance): ExplainedVariance {
    if (other instanceof ExplainedVariance) {
      return new ExplainedVariance(
        mergeRows(this.returns, other.returns),
        mergeRows(this.errors, other.errors),
      );
    }
    throw new ValueError({
      where: 'ExplainedVariance.merge',
      input: 'other',
      expected: 'an ExplainedVariance',
      received: kindOf(other),
      remedy: 'make one of rows with new ExplainedVariance(returns, errors)',
    });
  }

  /** See `explainedVariance`; NaN for fewer than two tokens. */
  value(semantics: Semantics = 'recommended'): number {
    assertSemantics('ExplainedVariance.value', semantics, 'semantics');
    return explainedVariance(this.returns, this.errors, semantics);
  }
}
