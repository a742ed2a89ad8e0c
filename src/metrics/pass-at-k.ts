/** pass@k and pass^k: whether any, or every one, of k samples is correct, without bias and without drawing. */
import { ValueError } from '../errors.js';
import { kindOf } from '../kernels/arguments.js';

/**
 * The chance that at least one of k samples is correct, 1 − C(n−c, k) / C(n, k): the unbiased estimate from n samples
 * of which c are correct.
 *
 * @param n samples, at least 1
 * @param c correct samples, 0 to n
 * @param k samples drawn without replacement, 1 to n
 * @returns in [0, 1], to the last digits also where it is close to 0
 * @throws ValueError naming the number that is not such a count
 * @source Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1
 * @example  passAtK(4, 1, 2); // 0.5
 */
export function passAtK(n: number, c: number, k: number): number {
  assertCounts('passAtK', n, c, k);
  return chanceOfAny(n, c, k);
}

/**
 * The chance that all of k samples are correct, C(c, k) / C(n, k).
 *
 * @param n samples, at least 1
 * @param c correct samples, 0 to n
 * @param k samples drawn without replacement, 1 to n
 * @returns in [0, 1]
 * @throws ValueError naming the number that is not such a count
 * @source Yao et al. 2024, "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains"
 * @example  passHatK(4, 3, 2); // 0.5
 */
export function passHatK(n: number, c: number, k: number): number {
  assertCounts('passHatK', n, c, k);
  return chanceOfAll(n, c, k);
}

/** `passAtK` of counts that are known to fit. */
export function chanceOfAny(n: number, c: number, k: number): number {
  if (n - c < k) return 1;
  // C(n−c, k) / C(n, k) is symmetric in c and k, so the fewer factors do. In logarithms, because 1 − product would
  // lose the digits of a small chance.
  const [few, many] = c < k ? [c, k] : [k, c];
  let logNone = 0;
  for (let i = 0; i < few; i++) logNone += Math.log1p(-many / (n - i));
  // Not −expm1(0), which is −0.
  return few === 0 ? 0 : -Math.expm1(logNone);
}

/** `passHatK` of counts that are known to fit. */
export function chanceOfAll(n: number, c: number, k: number): number {
  if (c < k) return 0;
  const wrong = n - c;
  const [few, many] = wrong < k ? [wrong, k] : [k, wrong];
  let all = 1;
  for (let i = 0; i < few; i++) all *= (n - many - i) / (n - i);
  return all;
}

function assertCounts(where: string, n: number, c: number, k: number): void {
  const asserted = (input: string, value: number, low: number, high: number, expected: string): void => {
    if (Number.isSafeInteger(value) && value >= low && value <= high) return;
    throw new ValueError({
      where,
      input,
      expected,
      received: kindOf(value),
      remedy: 'count samples, correct ones among them, and those to draw',
    });
  };
  asserted('n', n, 1, Infinity, 'a number of samples, 1 or more');
  asserted('c', c, 0, n, `a number of correct samples between 0 and n = ${n}`);
  asserted('k', k, 1, n, `a number of drawn samples between 1 and n = ${n}`);
}
