/** Draws of samples from a prompt, and who wins the vote of a draw. */
import type { VoteGroup } from './majority.js';
import { type DrawIndex, seededIndices } from './resampling.js';

/** How samples are drawn. */
export interface Drawing {
  readonly replacement: boolean;
  readonly nBootstrap: number;
  readonly seed: number;
}

/** Fills `drawn` from the deck; without replacement by moving what was drawn to the deck's end. */
export function draw(drawn: Int32Array, deck: Int32Array, drawIndex: DrawIndex, replacement: boolean): void {
  let below = deck.length;
  for (let turn = 0; turn < drawn.length; turn++) {
    const at = drawIndex(below);
    const card = deck[at]!;
    drawn[turn] = card;
    if (replacement) continue;
    below--;
    deck[at] = deck[below]!;
    deck[below] = card;
  }
}

/** The first sample of the candidate with the most votes, of candidates that tie the one drawn first. */
export function winnerOf(drawn: Int32Array, votes: Int32Array, tally: Int32Array): number {
  tally.fill(0);
  let most = 0;
  for (const i of drawn) most = Math.max(most, ++tally[votes[i]!]!);
  return drawn.find((i) => tally[votes[i]!] === most)!;
}

/**
 * `chancesToWin` by drawing, with the error of `nBootstrap` draws.
 *
 * The seed is mixed with the votes: prompts with the same votes have the same chances, in whatever order they and their
 * samples come, and prompts with other votes have draws of their own.
 *
 * @returns one chance per group; over all labels they add up to 1
 */
export function drawnChancesToWin(
  groups: readonly VoteGroup[],
  draws: number,
  { replacement, nBootstrap, seed }: Drawing,
): Float64Array {
  const votes: number[] = [];
  const groupOf: number[] = [];
  let mixed = seed;
  for (const [g, group] of groups.entries()) {
    mixed = Math.imul(mixed ^ group.votes, 0x01000193);
    mixed = Math.imul(mixed ^ group.labels, 0x01000193);
    for (let label = 0; label < group.labels; label++) {
      const candidate = groupOf.push(g) - 1;
      for (let vote = 0; vote < group.votes; vote++) votes.push(candidate);
    }
  }
  const drawIndex = seededIndices((mixed ^ draws) >>> 0);
  const ballots = Int32Array.from(votes);
  const deck = Int32Array.from(ballots.keys());
  const drawn = new Int32Array(draws);
  const tally = new Int32Array(groupOf.length);
  const wins = new Float64Array(groups.length);
  for (let turn = 0; turn < nBootstrap; turn++) {
    draw(drawn, deck, drawIndex, replacement);
    wins[groupOf[ballots[winnerOf(drawn, ballots, tally)]!]!]!++;
  }
  return wins.map((won, g) => won / nBootstrap / groups[g]!.labels);
}
