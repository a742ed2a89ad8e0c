/**
 * Statistics of logits in float64: the living specification.
 *
 * The simplest code that is right, so that every device kernel can be held against it: the distribution
 * π = softmax(logits / temperature) of each row, element by element, as torch.log_softmax would have it. It knows no
 * tensor, no device and no speed.
 */
import { ShapeError } from '../../errors.js';
import { type PerStatistic, perStatistic } from './request.js';

/** The statistics of one row. */
function rowOf(logits: readonly number[], label: number, temperature: number): PerStatistic<number> {
  const max = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  // NaN anywhere, +Infinity anywhere or -Infinity everywhere: no distribution has such logits.
  if (!Number.isFinite(max)) return perStatistic(() => NaN);
  const exponents = logits.map((z) => (z - max) / temperature);
  const logSum = Math.log(exponents.reduce((sum, x) => sum + Math.exp(x), 0));
  const logPi = exponents.map((x) => x - logSum);
  return {
    logProbs: logPi[label] ?? NaN,
    entropy: -logPi.reduce((sum, p) => sum + (p === -Infinity ? 0 : Math.exp(p) * p), 0),
    sumPiSquared: logPi.reduce((sum, p) => sum + Math.exp(2 * p), 0),
    maxProb: Math.exp(-logSum),
  };
}

/**
 * Log-probability of the label, entropy, Σπ² and largest probability of each row of `[rows, cols]` logits.
 *
 * @param logits `rows * cols` numbers, row-major; −Infinity is probability 0
 * @param labels `rows` columns; what is no column has log-probability NaN
 * @param temperature positive
 * @returns one number per row and statistic
 * @throws ShapeError if `logits` does not hold `rows * cols` numbers or `labels` not `rows`
 */
export function referenceLogits(
  logits: ArrayLike<number>,
  labels: ArrayLike<number>,
  rows: number,
  cols: number,
  temperature = 1,
): PerStatistic<Float64Array> {
  for (const [input, data, size] of [
    ['logits', logits, rows * cols],
    ['labels', labels, rows],
  ] as const) {
    if (data.length === size) continue;
    throw new ShapeError({
      where: 'referenceLogits',
      input,
      expected: `${size} elements (${rows} rows, ${cols} columns)`,
      received: String(data.length),
      remedy: 'pass the rows and columns that the data has',
    });
  }
  const table = perStatistic(() => new Float64Array(rows));
  for (let r = 0; r < rows; r++) {
    const row = Array.from({ length: cols }, (_, c) => logits[r * cols + c]!);
    const statistics = rowOf(row, labels[r]!, temperature);
    perStatistic((name) => (table[name][r] = statistics[name]));
  }
  return table;
}
