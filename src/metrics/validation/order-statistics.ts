/**
 * The expected best and worst of n draws, in closed form.
 *
 * Of N values in ascending order, the i-th is the best of n draws with a chance that depends on i, N and n alone. So
 * one row of weights serves every prompt, and what a bootstrap estimates by thousands of draws is a dot product.
 */

/** Mean and standard deviation of one draw of n samples, reduced to a number. */
export interface DrawMoments {
  readonly mean: number;
  /** Population standard deviation. */
  readonly std: number;
}

/**
 * The chance of each of N values in ascending order to be the largest of `draws` draws. Equal values share theirs in
 * any way they like. The chances to be the smallest are the same in reverse.
 *
 * With replacement: (i/N)^n − ((i−1)/N)^n. Without: C(i−1, n−1) / C(N, n).
 *
 * @param draws n, at most N without replacement
 */
export function chancesToBeBest(samples: number, draws: number, replacement: boolean): Float64Array {
  const chances = new Float64Array(samples);
  if (replacement) {
    for (let i = 1; i <= samples; i++) {
      // As a product, because the two powers can agree in most of their digits.
      chances[i - 1] = (i / samples) ** draws * -Math.expm1(draws * Math.log1p(-1 / i));
    }
    return chances;
  }
  let chance = draws / samples;
  for (let i = samples; i >= draws; i--) {
    chances[i - 1] = chance;
    chance *= (i - draws) / (i - 1);
  }
  return chances;
}

/**
 * Moments of the best of a draw.
 *
 * @param sorted the values in ascending order, no NaN among them
 * @param chances of `chancesToBeBest`
 */
export function bestOf(sorted: Float64Array, chances: Float64Array): DrawMoments {
  const samples = sorted.length;
  return momentsAround(sorted[samples - 1]!, sorted, chances, 0, 1);
}

/** As `bestOf`, for the worst of a draw. */
export function worstOf(sorted: Float64Array, chances: Float64Array): DrawMoments {
  return momentsAround(sorted[0]!, sorted, chances, chances.length - 1, -1);
}

/**
 * One pass, around the value that the extreme cannot pass: it has a good part of the weight, so that the variance is
 * at worst N/n times as large as what is subtracted from it, and equal values give exactly 0.
 */
function momentsAround(
  pivot: number,
  sorted: Float64Array,
  chances: Float64Array,
  from: number,
  step: 1 | -1,
): DrawMoments {
  let first = 0;
  let second = 0;
  for (let i = 0, at = from; i < sorted.length; i++, at += step) {
    const deviation = sorted[i]! - pivot;
    const weighted = chances[at]! * deviation;
    first += weighted;
    second += weighted * deviation;
  }
  const mean = pivot + first;
  if (!Number.isFinite(mean)) return momentsOfInfinite(sorted, chances, from, step);
  return { mean, std: Math.sqrt(Math.max(second - first * first, 0)) };
}

/** With an infinity among the values: what has no chance is left out, because 0 · Infinity is not 0. */
function momentsOfInfinite(
  sorted: Float64Array,
  chances: Float64Array,
  from: number,
  step: 1 | -1,
): DrawMoments {
  const possible = Array.from(sorted, (value, i) => ({ value, chance: chances[from + step * i]! })).filter(
    ({ chance }) => chance > 0,
  );
  const mean = possible.reduce((sum, { value, chance }) => sum + chance * value, 0);
  const variance = possible.reduce((sum, { value, chance }) => sum + chance * (value - mean) ** 2, 0);
  return { mean, std: Math.sqrt(variance) };
}
