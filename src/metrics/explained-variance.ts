/** Explained variance of the value function, from the mergeable rows of returns and of their prediction errors. */
import { Moments, type MomentsRow } from '../kernels/index.js';
import type { Semantics } from './semantics.js';

/** Keeps the ratio finite where returns hardly vary; verl's constant. */
const EPSILON = 1e-5;

/**
 * 1 − Var(returns − values) / (Var(returns) + 1e-5), both variances unbiased. Range (−∞, 1]; 1 is a perfect critic up
 * to a constant, 0 no better than predicting the mean, negative worse than that.
 *
 * NaN for fewer than two tokens or a NaN inside; constant returns leave nothing to explain and give NaN under
 * `recommended`, the bare formula under the verl presets.
 *
 * @param returns row of the returns of the selected tokens
 * @param errors row of returns − values of the same tokens
 * @source verl, trainer/ppo/metric_utils.py, compute_data_metrics
 */
export function explainedVariance(returns: MomentsRow, errors: MomentsRow, semantics: Semantics): number {
  const ret = new Moments(returns);
  const constant = ret.min === ret.max;
  if (constant && semantics === 'recommended') return NaN;
  return 1 - new Moments(errors).variance() / (ret.variance() + EPSILON);
}
