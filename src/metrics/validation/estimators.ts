/**
 * What is to be expected of the best, the worst and the majority of n samples of one prompt: exactly, or by drawing.
 *
 * Both estimate the same numbers. The exact one has no error; it draws only the majorities of prompts with so many
 * samples and answers that their chances would take seconds.
 */
import { type Drawing, draw, drawnChancesToWin, winnerOf } from './drawing.js';
import { CountChances, type VoteGroup, chancesToWin } from './majority.js';
import { type DrawMoments, bestOf, chancesToBeBest, worstOf } from './order-statistics.js';
import { meanAndStd, seededIndices } from './resampling.js';

/** Moments of one draw of n samples. */
export interface DrawEstimate {
  readonly best: DrawMoments;
  readonly worst: DrawMoments;
  readonly majority: DrawMoments | undefined;
  /** Which of these have the error of random draws. */
  readonly drawn: 'none' | 'majority' | 'all';
}

/**
 * Estimates for the draws of `ladderOf` the number of samples.
 *
 * @param values of one prompt, two or more, no NaN among them
 * @param ballots what the samples vote for; undefined where there is no vote
 */
export type Estimator = (values: Float64Array, ballots: Ballots | undefined) => DrawEstimate[];

/** 2, 4, 8, … below the number of samples, and that number: the draws for which verl reports. */
export function ladderOf(samples: number): number[] {
  const ladder: number[] = [];
  for (let draws = 2; draws < samples; draws *= 2) ladder.push(draws);
  if (samples > 1) ladder.push(samples);
  return ladder;
}

/** Votes of the samples of one prompt. */
export class Ballots {
  /** For each sample, which of the candidates it votes for, 0, 1, … as they first appear. */
  readonly votes: Int32Array;
  /** Votes for each candidate. */
  readonly totals: Int32Array;

  /** @param labels for each sample a number, equal for equal labels */
  constructor(labels: Int32Array) {
    const candidates = new Map<number, number>();
    this.votes = new Int32Array(labels.length);
    for (let i = 0; i < labels.length; i++) {
      let candidate = candidates.get(labels[i]!);
      if (candidate === undefined) candidates.set(labels[i]!, (candidate = candidates.size));
      this.votes[i] = candidate;
    }
    this.totals = new Int32Array(candidates.size);
    for (const candidate of this.votes) this.totals[candidate]!++;
  }

  /** Candidates with equally many votes together, those with the most first. */
  groups(): VoteGroup[] {
    const labels = new Map<number, number>();
    for (const votes of this.totals.toSorted().reverse()) labels.set(votes, (labels.get(votes) ?? 0) + 1);
    return Array.from(labels, ([votes, count]) => ({ votes, labels: count }));
  }
}

/** Products of two numbers that the majorities of one prompt may take, and those of all prompts of a call together. */
const PRODUCTS_PER_PROMPT = 2 ** 25;
const PRODUCTS_PER_CALL = 2 ** 30;

/**
 * The estimator without error. It remembers the chances, which depend on numbers of samples and votes alone.
 *
 * @param drawing how majorities are drawn that take too long; with or without replacement is what all estimates are of
 * @param prompts of the call, which share what it may take; all have the same share, in whatever order they come
 */
export function exactEstimator(drawing: Drawing, prompts: number): Estimator {
  const affordable = Math.min(PRODUCTS_PER_PROMPT, PRODUCTS_PER_CALL / prompts);
  const { replacement } = drawing;
  const toBeBest = new Map<number, readonly Float64Array[]>();
  const outcomes = new Map<string, Outcome>();
  const counts = new CountChances(replacement);
  const toWin = new WeakMap<Ballots, Contest[]>();

  function chancesToBeBestOf(samples: number): readonly Float64Array[] {
    let chances = toBeBest.get(samples);
    if (chances === undefined) {
      chances = ladderOf(samples).map((draws) => chancesToBeBest(samples, draws, replacement));
      toBeBest.set(samples, chances);
    }
    return chances;
  }

  /** Per number of draws, the chance of each candidate. */
  function chancesToWinOf(ballots: Ballots): readonly Contest[] {
    let chances = toWin.get(ballots);
    if (chances === undefined) {
      const groups = ballots.groups();
      const key = groups.map(({ votes, labels }) => `${votes}×${labels}`).join(' ');
      let outcome = outcomes.get(key);
      if (outcome === undefined) {
        const place = new Map(groups.map(({ votes }, g) => [votes, g]));
        // What the small draws take is nothing beside the large ones, so these are the ones that are drawn.
        const budget = { products: affordable };
        const wins = ladderOf(ballots.votes.length).map((draws): Contest => {
          const exact = chancesToWin(groups, draws, counts, budget);
          return {
            chances: exact ?? drawnChancesToWin(groups, draws, drawing),
            isDrawn: exact === undefined,
          };
        });
        outcomes.set(key, (outcome = { place, wins }));
      }
      const { place, wins } = outcome;
      chances = wins.map(({ chances: ofGroup, isDrawn }) => ({
        chances: Float64Array.from(ballots.totals, (votes) => ofGroup[place.get(votes)!]!),
        isDrawn,
      }));
      toWin.set(ballots, chances);
    }
    return chances;
  }

  return (values, ballots) => {
    const sorted = values.toSorted();
    const slate = ballots && { ...slateOf(values, ballots), contests: chancesToWinOf(ballots) };
    return chancesToBeBestOf(values.length).map((chances, rung) => ({
      best: bestOf(sorted, chances),
      worst: worstOf(sorted, chances),
      majority: slate && majorityOf(slate, slate.contests[rung]!.chances),
      drawn: slate?.contests[rung]!.isDrawn === true ? 'majority' : 'none',
    }));
  };
}

/** Chances of the labels, which are the same for all prompts with the same numbers of votes. */
interface Outcome {
  /** Index of the group with so many votes. */
  readonly place: ReadonlyMap<number, number>;
  /** Per number of draws. */
  readonly wins: readonly Contest[];
}

/** The chances of each label, or each candidate, to win. */
interface Contest {
  readonly chances: Float64Array;
  readonly isDrawn: boolean;
}

/** Mean and variance of the values behind each candidate. */
interface Slate {
  readonly means: Float64Array;
  readonly variances: Float64Array;
}

function slateOf(values: Float64Array, { votes, totals }: Ballots): Slate {
  const means = new Float64Array(totals.length);
  const variances = new Float64Array(totals.length);
  for (let i = 0; i < values.length; i++) means[votes[i]!]! += values[i]!;
  for (let k = 0; k < means.length; k++) means[k]! /= totals[k]!;
  for (let i = 0; i < values.length; i++) {
    const k = votes[i]!;
    variances[k]! += (values[i]! - means[k]!) ** 2 / totals[k]!;
  }
  return { means, variances };
}

/** The winner's value is that of any of its samples, each as likely as the others. */
function majorityOf({ means, variances }: Slate, chances: Float64Array): DrawMoments {
  let mean = 0;
  // What cannot win is left out: 0 · Infinity is not 0.
  for (let k = 0; k < chances.length; k++) if (chances[k]! > 0) mean += chances[k]! * means[k]!;
  let variance = 0;
  for (let k = 0; k < chances.length; k++) {
    if (chances[k]! > 0) variance += chances[k]! * ((means[k]! - mean) ** 2 + variances[k]!);
  }
  return { mean, std: Math.sqrt(variance) };
}

/** The estimator that draws, as verl does, but with other draws for every prompt and variable. */
export function bootstrapEstimator({ replacement, nBootstrap, seed }: Drawing): Estimator {
  const drawIndex = seededIndices(seed);
  const best = new Float64Array(nBootstrap);
  const worst = new Float64Array(nBootstrap);
  const majority = new Float64Array(nBootstrap);
  const momentsOf = (found: Float64Array): DrawMoments => {
    const [mean, std] = meanAndStd(found);
    return { mean, std };
  };
  return (values, ballots) => {
    const deck = Int32Array.from(values.keys());
    const tally = new Int32Array(ballots?.totals.length ?? 0);
    return ladderOf(values.length).map((draws) => {
      const drawn = new Int32Array(draws);
      for (let turn = 0; turn < nBootstrap; turn++) {
        draw(drawn, deck, drawIndex, replacement);
        let [high, low] = [-Infinity, Infinity];
        for (const i of drawn) {
          high = Math.max(high, values[i]!);
          low = Math.min(low, values[i]!);
        }
        best[turn] = high;
        worst[turn] = low;
        if (ballots !== undefined) majority[turn] = values[winnerOf(drawn, ballots.votes, tally)]!;
      }
      return {
        best: momentsOf(best),
        worst: momentsOf(worst),
        majority: ballots && momentsOf(majority),
        drawn: 'all',
      };
    });
  };
}
