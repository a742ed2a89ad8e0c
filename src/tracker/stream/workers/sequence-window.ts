/**
 * Which deltas of one worker life have been merged, in two numbers: a sliding window over sequence numbers, as
 * receivers of datagrams keep it against replays.
 *
 * A delta that is older than the window can no longer be told from one that was merged, and is never merged again.
 * An emitter sends one delta at a time, so what falls out of the window without having come is lost, not late.
 *
 * @source RFC 4303, section 3.4.3 (anti-replay window).
 */

/** How many sequence numbers below the highest one are remembered one by one. */
export const SEQUENCE_WINDOW = 32;

const ALL = 0xffff_ffff;

function ones(bits: number): number {
  let x = bits - ((bits >>> 1) & 0x5555_5555);
  x = (x & 0x3333_3333) + ((x >>> 2) & 0x3333_3333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}

export type SequenceVerdict = 'new' | 'duplicate' | 'stale';

export class SequenceWindow {
  #top: number;
  /** Nothing up to here is merged any more. */
  #floor = -1;
  /** Bit i: `top − i` has come. What is before the first number counts as come. */
  #seen = ALL;

  /** @param first the sequence number that the life begins with for this receiver */
  constructor(first: number) {
    this.#top = first - 1;
  }

  judge(seq: number): SequenceVerdict {
    if (seq <= this.#floor) return 'stale';
    const age = this.#top - seq;
    if (age < 0) return 'new';
    if (age >= SEQUENCE_WINDOW) return 'stale';
    return (this.#seen >>> age) & 1 ? 'duplicate' : 'new';
  }

  /**
   * Notes that `seq` has come; it must be new.
   *
   * @returns how many numbers left the window without having come
   */
  mark(seq: number): number {
    const age = this.#top - seq;
    if (age >= 0) {
      this.#seen |= 1 << age;
      return 0;
    }
    const shift = -age;
    this.#top = seq;
    if (shift >= SEQUENCE_WINDOW) {
      const lost = this.missing + (shift - SEQUENCE_WINDOW);
      this.#seen = 1;
      return lost;
    }
    const leaving = ~(this.#seen >>> (SEQUENCE_WINDOW - shift)) & (2 ** shift - 1);
    this.#seen = (this.#seen << shift) | 1;
    return ones(leaving);
  }

  /** The highest number that has come. */
  get top(): number {
    return this.#top;
  }

  /**
   * Gives up everything up to the highest number: what is missing there is never merged, what follows still is.
   *
   * @returns how many numbers were missing
   */
  giveUp(): number {
    const { missing } = this;
    this.#floor = this.#top;
    this.#seen = ALL;
    return missing;
  }

  /** Numbers inside the window that have not come and still may. */
  get missing(): number {
    return SEQUENCE_WINDOW - ones(this.#seen);
  }
}
