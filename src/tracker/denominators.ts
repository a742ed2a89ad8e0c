/**
 * The masks of one denominator in recording order, and who has used which.
 *
 * The i-th value of a stat pairs with the i-th mask of its denominator. A mask is held (its data, not a copy) until a
 * newer one arrives when every stat key seen so far has used it, so what is held does not grow with the number of
 * micro-batches. Masks that some stat has not used yet are all held, and so are those that none has: the first stat
 * may still come and start at the first mask.
 */
import { PairingError } from '../errors.js';
import type { RetainedTensor } from '../kernels/index.js';

/** A mask that may still pair with values. */
export interface HeldMask {
  readonly retained: RetainedTensor;
  /** Whether some launch already counts its selected elements. */
  counted: boolean;
}

export class MaskQueue {
  readonly #denominator: string;
  readonly #held: HeldMask[] = [];
  /** Masks that were let go; the first held one has this index. */
  #released = 0;
  /** Masks used so far, by stat key. */
  readonly #used = new Map<string, number>();

  /** @param denominator full key, for messages */
  constructor(denominator: string) {
    this.#denominator = denominator;
  }

  /** Masks recorded so far, held or not. */
  get total(): number {
    return this.#released + this.#held.length;
  }

  /** Adds a mask, and lets those go that every stat has used. */
  push(retained: RetainedTensor): void {
    let usedByAll = this.#used.size === 0 ? 0 : Infinity;
    for (const used of this.#used.values()) usedByAll = Math.min(usedByAll, used);
    while (this.#released < usedByAll) {
      this.#held.shift()!.retained.release();
      this.#released++;
    }
    this.#held.push({ retained, counted: false });
  }

  /**
   * The mask that the next value of `stat` pairs with.
   *
   * @throws PairingError if there is none yet, or if it was let go because the other stats have moved on
   */
  next(stat: string): HeldMask {
    const index = this.#used.get(stat) ?? 0;
    if (index >= this.total) {
      throw new PairingError({
        where: 'stat',
        input: stat,
        expected: `at most one value per mask of '${this.#denominator}' (${String(this.total)} so far)`,
        received: `value ${String(index + 1)}`,
        remedy: `record the mask of the next micro-batch with denominator() before its values`,
      });
    }
    if (index < this.#released) {
      throw new PairingError({
        where: 'stat',
        input: stat,
        expected: `a value for every mask of '${this.#denominator}', in step with the other stats`,
        received: `value ${String(index + 1)} when mask ${String(this.#released + 1)} is the oldest one still held`,
        remedy: `record '${stat}' for every micro-batch, or give it a denominator of its own`,
      });
    }
    return this.#held[index - this.#released]!;
  }

  /** Notes that `stat` has used the mask which `next` gave it. */
  advance(stat: string): void {
    this.#used.set(stat, (this.#used.get(stat) ?? 0) + 1);
  }

  /** Stat keys with fewer values than masks, and how many values they have. */
  behind(): [stat: string, values: number][] {
    return [...this.#used].filter(([, values]) => values < this.total);
  }

  /** Held masks whose selected elements no launch counts. A mask is never let go uncounted. */
  uncounted(): HeldMask[] {
    return this.#held.filter((mask) => !mask.counted);
  }

  /** Lets all masks go. */
  release(): void {
    for (const { retained } of this.#held) retained.release();
    this.#released = this.total;
    this.#held.length = 0;
  }
}
