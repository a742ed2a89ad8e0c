/** pass@k and pass^k: whether any, or every one, of k samples is correct, without bias and without drawing. */
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { gaussLegendre } from './quadrature.js';

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
  // In logarithms, because 1 − product would lose the digits of a small chance. Not −expm1(0), which is −0.
  return c === 0 ? 0 : -Math.expm1(logChanceOfNone(n, c, k));
}

/** `passHatK` of counts that are known to fit. */
export function chanceOfAll(n: number, c: number, k: number): number {
  if (c < k) return 0;
  const wrong = n - c;
  const [few, many] = wrong < k ? [wrong, k] : [k, wrong];
  if (few > MANY_FACTORS) return Math.exp(logChanceOfNone(n, wrong, k));
  let all = 1;
  for (let i = 0; i < few; i++) all *= (n - many - i) / (n - i);
  return all;
}

/** With more factors than these, they are not multiplied one by one. */
const MANY_FACTORS = 2 ** 16;
/** The logarithm of the smallest number, halved; what is below is 0. */
const LOG_OF_ZERO = Math.log(Number.MIN_VALUE) - 1;

/**
 * log C(n−c, k) / C(n, k): none of k samples is among the c of n; n − c is at least k. −Infinity for less than 1e-324.
 *
 * The quotient is symmetric in c and k, so the fewer factors do. All are at most the first, so if there are many, either
 * the result is negligible, or c/n and k/n are below 0.02: then the logarithms hardly change from one factor to the
 * next, and their sum is the integral (Euler–Maclaurin, midpoints) to the last digit.
 */
function logChanceOfNone(n: number, c: number, k: number): number {
  const [few, many] = c < k ? [c, k] : [k, c];
  const logFactor = (i: number): number => Math.log1p(-many / (n - i));
  let sum = 0;
  if (few <= MANY_FACTORS) {
    for (let i = 0; i < few; i++) sum += logFactor(i);
    return sum;
  }
  if (few * logFactor(0) < LOG_OF_ZERO) return -Infinity;
  const { nodes, weights } = gaussLegendre(16);
  for (const [q, node] of nodes.entries()) sum += weights[q]! * logFactor(few * node - 0.5);
  return few * sum;
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
