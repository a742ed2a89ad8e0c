/** Median and a distribution-free interval of it: what a handful of noisy timings can honestly say. */

/** The middle of `values`; NaN for none. */
export function median(values: readonly number[]): number {
  const sorted = ascending(values);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * The narrowest symmetric pair of order statistics that covers the true median with at least 95 % confidence.
 *
 * Below 6 values no pair does; then it is the whole range. Assumes independent values and nothing about their
 * distribution.
 *
 * @source Conover 1999, "Practical Nonparametric Statistics", section 3.2: the number of values below the median is
 *   binomial(n, 1/2)
 */
export function medianInterval(values: readonly number[]): readonly [low: number, high: number] {
  const sorted = ascending(values);
  const n = sorted.length;
  if (n === 0) return [NaN, NaN];
  // Probability that fewer than `cut` of n values lie below the median, for the largest cut that leaves 2.5 % there.
  let cut = 0;
  let term = 2 ** -n;
  for (let tail = term; tail <= 0.025 && cut < n >> 1; tail += term) {
    cut++;
    term *= (n - cut + 1) / cut;
  }
  const low = Math.max(cut - 1, 0);
  return [sorted[low]!, sorted[n - 1 - low]!];
}

function ascending(values: readonly number[]): number[] {
  return [...values].sort((a, b) => a - b);
}
