/**
 * Majority votes: the value of the label that most samples of a draw agree on, and the exact chance of each label to
 * be that one.
 *
 * The counts of the labels in a draw are independent of each other but for their total. So they are taken as
 * independent (Poisson with replacement, binomial without), as polynomials whose coefficient of x^i is the chance of
 * count i, and conditioned on the total afterwards by reading one coefficient of a product. All terms are positive:
 * nothing cancels.
 */
import { gaussLegendre } from './quadrature.js';

/** Labels that have the same number of votes, and so the same chances. */
export interface VoteGroup {
  /** Samples with each of these labels. */
  readonly votes: number;
  /** How many labels there are. */
  readonly labels: number;
}

/** Where Markov's inequality is tried. */
const THETAS = [1, 1.5, 2, 3, 4];
const PHIS = [1, 4, 16];
const TIE_BOUNDS = THETAS.length * PHIS.length;

/** What is so unlikely that it changes no digit of a probability. */
const NEGLIGIBLE = 2 ** -60;
/** With fewer draws, looking for what is negligible takes longer than what it saves. */
const MANY_DRAWS = 64;

/** What may still be spent on exact chances, in products of two numbers. */
export interface Budget {
  products: number;
}

/**
 * The chance of one label of each group to win the vote of a draw. Of labels that tie, each is as likely as the others
 * to come first in the draw, which is what decides.
 *
 * With m the count of the winner k, at most n, and ω the chances of counts:
 * P(k) ∝ Σ_m ω_k(m) · [x^(n−m)] ∫₀¹ Π_{j≠k} (Σ_{i<m} ω_j(i) xⁱ + y ω_j(m) xᵐ) dy,
 * where the integral makes y^t to 1/(t+1): t others tie with k. It is taken exactly, by Gauss' rule.
 *
 * O(labels · n³) for the worst of distributions, far less where few labels can win.
 *
 * @param groups of all labels, by votes in descending order, no two with the same
 * @param draws n, at most the number of votes without replacement
 * @param counts of draws with or without replacement; the same for many calls
 * @param budget is charged with the work, and with the estimate of what the work would be where it does not suffice;
 *   nothing is worked out then
 * @returns one chance per group; over all labels they add up to 1. Undefined where the budget does not suffice.
 */
export function chancesToWin(
  groups: readonly VoteGroup[],
  draws: number,
  { of: countsFor }: CountChances,
  budget: Budget = { products: Infinity },
): Float64Array | undefined {
  const wins = new Float64Array(groups.length);
  let labels = 0;
  let samples = 0;
  for (const group of groups) {
    labels += group.labels;
    samples += group.votes * group.labels;
  }
  if (groups.length === 1) return wins.fill(1 / labels);
  const countsOf = countsFor(samples, draws);
  const counts = groups.map(({ votes }) => countsOf(votes));
  const total = countsOf(samples)[draws]!;
  const exactly = groups.map(({ votes }, g) => marginal(counts[g]!, countsOf(samples - votes), total));
  // With more than half of the draws nobody else can have as many.
  const half = draws >> 1;
  for (let g = 0; g < groups.length; g++) {
    for (let m = half + 1; m <= draws; m++) wins[g]! += exactly[g]![m]!;
  }
  const orMore = exactly.map(tailsOf);
  const contest = new Contest(groups, counts, draws, total);
  // What all counts take is added up before any of it is done, so that nothing is begun that is given up later.
  const rounds: Round[] = [];
  let products = 0;
  for (let m = Math.ceil(draws / labels); m <= half; m++) {
    if (draws >= MANY_DRAWS) budget.products -= TIE_BOUNDS * groups.length * m;
    if (products > budget.products) return undefined;
    const ties = draws < MANY_DRAWS ? draws : contest.mostTies(m);
    if (ties < 0) continue;
    // The more votes, the further a label reaches: who cannot get to m stands at the end.
    let able = 0;
    let unable = samples;
    while (able < groups.length && orMore[able]![m]! > NEGLIGIBLE) {
      unable -= groups[able]!.votes * groups[able]!.labels;
      able++;
    }
    if (able === 0) continue;
    const nodes = contest.nodesFor(m, able, ties);
    products += contest.productsOf(m, able, nodes);
    rounds.push({ m, able, nodes, unable });
  }
  if (products > budget.products) return undefined;
  budget.products -= products;
  for (const { m, able, nodes, unable } of rounds) contest.addWins(wins, m, able, nodes, countsOf(unable));
  return wins;
}

/** What is to be worked out for the winner's count m. */
interface Round {
  readonly m: number;
  /** How many groups can have m votes, of how many nodes Gauss' rule is, and the votes of all other labels. */
  readonly able: number;
  readonly nodes: number;
  readonly unable: number;
}

/** The chance of count m of one label, whatever all the others do. */
function marginal(counts: Float64Array, others: Float64Array, total: number): Float64Array {
  const chances = new Float64Array(counts.length);
  const draws = counts.length - 1;
  for (let m = 0; m <= draws; m++) chances[m] = (counts[m]! * others[draws - m]!) / total;
  return chances;
}

/** The sum over m, term by term, in memory of its own: the polynomials are short, and making them would take longer. */
class Contest {
  /** The factor of one label of each group. */
  readonly #factors: readonly Float64Array[];
  /** For each group, the product of the factors of all labels behind it. */
  readonly #behind: readonly Float64Array[];
  readonly #before: Float64Array;

  /**
   * @param counts chances of the counts of one label of each group
   * @param total the chance that all counts add up to `draws`
   */
  constructor(
    private readonly groups: readonly VoteGroup[],
    private readonly counts: readonly Float64Array[],
    private readonly draws: number,
    private readonly total: number,
  ) {
    const polynomial = (): Float64Array => new Float64Array(draws + 1);
    this.#factors = groups.map(polynomial);
    this.#behind = groups.map(polynomial);
    this.#before = polynomial();
  }

  /**
   * How many labels may have m votes where none has more, but for a negligible chance; negative where it is negligible
   * that none has more. From Markov's inequality for θ^total φ^ties, with some θ and φ.
   */
  mostTies(m: number): number {
    let most = this.draws;
    for (const theta of THETAS) {
      for (const phi of PHIS) {
        let bound = -this.draws * Math.log(theta) - Math.log(this.total * NEGLIGIBLE);
        for (let g = 0; g < this.groups.length; g++) {
          const chances = this.counts[g]!;
          let moment = phi * chances[m]!;
          for (let i = m - 1; i >= 0; i--) moment = moment * theta + chances[i]!;
          bound += this.groups[g]!.labels * Math.log(moment);
        }
        if (phi === 1) {
          if (bound < 0) return -1;
        } else most = Math.min(most, bound / Math.log(phi));
      }
    }
    return Math.ceil(most);
  }

  /** How many nodes Gauss' rule needs for m votes, where `ties` labels have as many at most. */
  nodesFor(m: number, able: number, ties: number): number {
    let rivals = -1;
    for (let g = 0; g < able; g++) rivals += this.groups[g]!.labels;
    return 1 + (Math.min(rivals, ties, Math.floor((this.draws - m) / m)) >> 1);
  }

  /** Products of two numbers that `addWins` takes, about. */
  productsOf(m: number, able: number, nodes: number): number {
    const left = this.draws - m;
    let products = 0;
    for (let g = 0; g < able; g++) products += 2 * productsOfPower(left, m, this.groups[g]!.labels);
    return nodes * products;
  }

  /**
   * Adds the chances to win with m votes, 2m ≤ draws.
   *
   * @param able how many groups can have m votes; the first ones
   * @param size of Gauss' rule, see `nodesFor`
   * @param others chances of the counts of all other labels together
   */
  addWins(wins: Float64Array, m: number, able: number, size: number, others: Float64Array): void {
    const { groups, counts, draws, total } = this;
    const before = this.#before;
    const left = draws - m;
    for (let g = 0; g < able; g++) {
      for (let i = 0; i < m; i++) this.#factors[g]![i] = counts[g]![i]!;
    }
    const { nodes, weights } = gaussLegendre(size);
    for (let i = 0; i <= left; i++) this.#behind[able - 1]![i] = others[i]!;
    for (let q = 0; q < nodes.length; q++) {
      for (let g = 0; g < able; g++) this.#factors[g]![m] = nodes[q]! * counts[g]![m]!;
      for (let g = able - 1; g > 0; g--) {
        const behind = this.#behind[g - 1]!;
        for (let i = 0; i <= left; i++) behind[i] = this.#behind[g]![i]!;
        multiply(behind, left, this.#factors[g]!, m, groups[g]!.labels);
      }
      before.fill(0);
      before[0] = 1;
      for (let g = 0; g < able; g++) {
        const behind = this.#behind[g]!;
        multiply(before, left, this.#factors[g]!, m, groups[g]!.labels - 1);
        let chance = 0;
        for (let i = 0; i <= left; i++) chance += before[i]! * behind[left - i]!;
        wins[g]! += (weights[q]! * counts[g]![m]! * chance) / total;
        if (g < able - 1) multiply(before, left, this.#factors[g]!, m, 1);
      }
    }
  }
}

/**
 * Makes `a` the product `a · bᵉ` of polynomials (coefficients, constant term first) without the terms above `degree`.
 * In place, because this is where the time goes.
 *
 * @param degree of `a`
 * @param terms degree of `b`
 */
function multiply(a: Float64Array, degree: number, b: Float64Array, terms: number, e: number): void {
  if (isSquared(degree, terms, e)) {
    const square = new Float64Array(degree + 1);
    for (let i = 0; i <= terms && i <= degree; i++) square[i] = b[i]!;
    multiply(square, degree, b, terms, 1);
    multiply(a, degree, square, degree, e >> 1);
    multiply(a, degree, b, terms, e & 1);
    return;
  }
  for (let times = 0; times < e; times++) {
    for (let at = degree; at >= 0; at--) {
      const last = at < terms ? at : terms;
      // Two sums, because an addition waits for the one before it.
      let even = b[0]! * a[at]!;
      let odd = 0;
      let i = 1;
      for (; i < last; i += 2) {
        odd += b[i]! * a[at - i]!;
        even += b[i + 1]! * a[at - i - 1]!;
      }
      if (i === last) odd += b[i]! * a[at - i]!;
      a[at] = even + odd;
    }
  }
}

/** Squares of long polynomials against many short factors, whichever is less. */
function isSquared(degree: number, terms: number, e: number): boolean {
  return e > 3 && e * terms > 2 * Math.log2(e) * degree;
}

/** Products of two numbers that `multiply` takes, about. */
function productsOfPower(degree: number, terms: number, e: number): number {
  return isSquared(degree, terms, e) ? 2 * Math.log2(e) * degree * degree : e * terms * degree;
}

/** For each m, the chance of m or more. */
function tailsOf(chances: Float64Array): Float64Array {
  const tails = chances.slice();
  for (let m = tails.length - 2; m >= 0; m--) tails[m]! += tails[m + 1]!;
  return tails;
}

/** The chance of each count of a label, for draws with or without replacement: the same for all prompts. */
export class CountChances {
  readonly #replacement: boolean;
  readonly #known = new Map<string, CountsOf>();

  constructor(replacement: boolean) {
    this.#replacement = replacement;
  }

  /** For so many samples and draws; remembered if it is not long, so that memory grows with the samples alone. */
  readonly of = (samples: number, draws: number): CountsOf => {
    if (draws > MANY_DRAWS) return rememberedCounts(samples, draws, this.#replacement);
    const key = `${samples} ${draws}`;
    let counts = this.#known.get(key);
    if (counts === undefined) {
      counts = rememberedCounts(samples, draws, this.#replacement);
      this.#known.set(key, counts);
    }
    return counts;
  };
}

/** Chances of the counts 0 to n for a label with so many of the votes. */
type CountsOf = (votes: number) => Float64Array;

/** Chances of the counts 0 to `draws` for labels with so many of the votes, each made once. */
function rememberedCounts(samples: number, draws: number, replacement: boolean): CountsOf {
  const known = new Map<number, Float64Array>();
  return (votes) => {
    let chances = known.get(votes);
    if (chances === undefined) {
      chances = replacement
        ? poisson((draws * votes) / samples, draws)
        : binomial(votes, draws / samples, draws);
      known.set(votes, chances);
    }
    return chances;
  };
}

/** e^−λ λ^i / i! for i = 0 … most. */
function poisson(mean: number, most: number): Float64Array {
  return fromMode(Math.floor(mean), mean, Infinity, most);
}

/** C(trials, i) p^i (1−p)^(trials−i) for i = 0 … most. */
function binomial(trials: number, p: number, most: number): Float64Array {
  if (p < 1) return fromMode(Math.floor((trials + 1) * p), p / (1 - p), trials, most);
  const chances = new Float64Array(most + 1);
  chances[trials] = 1;
  return chances;
}

/**
 * A distribution from the ratios of its neighbours, P(i) / P(i − 1) = scale · (trials + 1 − i) / i, or scale / i for
 * infinitely many trials: outwards from the most likely count, where nothing underflows, and divided by the sum.
 */
function fromMode(mode: number, scale: number, trials: number, most: number): Float64Array {
  const chances = new Float64Array(most + 1);
  const isFinite = trials < Infinity;
  let sum = 1;
  chances[mode] = 1;
  for (let i = mode + 1, chance = 1; i <= trials; i++) {
    chance *= (scale * (isFinite ? trials + 1 - i : 1)) / i;
    sum += chance;
    if (i <= most) chances[i] = chance;
    else if (chance < NEGLIGIBLE) break;
  }
  for (let i = mode, chance = 1; i > 0; i--) {
    chance *= i / (scale * (isFinite ? trials + 1 - i : 1));
    sum += chance;
    chances[i - 1] = chance;
  }
  for (let i = 0; i <= most; i++) chances[i]! /= sum;
  return chances;
}
