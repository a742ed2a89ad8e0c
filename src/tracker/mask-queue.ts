/**
 * The masks of one denominator, and who has used which.
 *
 * Masks recorded by name wait in a queue: the i-th value of a stat pairs with the i-th of them. A mask is held until a
 * newer one arrives when every stat key seen so far has used it, so what is held does not grow with the number of
 * micro-batches. Masks that some stat has not used yet are all held, and so are those that none
 * has: the first stat may still come and start at the first mask.
 *
 * Masks of handles are beside the queue: values reach them through the handle alone, and they are held until the
 * handle is disposed or an export takes the denominator.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { PairingError } from '../errors.js';
import { type CompactMask, compactMask } from '../kernels/index.js';

/** A mask that values may still be reduced over. */
export interface HeldMask {
  readonly compact: CompactMask;
  /** Whether some launch already counts its selected elements. */
  counted: boolean;
}

/** The mask of a handle. */
export interface BoundMask extends HeldMask {
  /** Full key of its denominator. */
  readonly denominator: string;
  /** Stat keys that have used it. */
  readonly users: Set<string>;
}

export class MaskQueue {
  /** Full key. */
  readonly denominator: string;
  readonly #held: HeldMask[] = [];
  readonly #bound = new Set<BoundMask>();
  /** Masks that were let go; the first held one has this index. */
  #released = 0;
  /** Masks used so far, by stat key. */
  readonly #used = new Map<string, number>();

  constructor(denominator: string) {
    this.denominator = denominator;
  }

  /** Masks recorded by name so far, held or not. */
  get total(): number {
    return this.#released + this.#held.length;
  }

  /**
   * Adds a mask, and lets those go that every stat has used.
   *
   * @param count called before a mask goes that no launch has counted, because its values were left out; if it throws,
   *   nothing has changed
   */
  push(compact: CompactMask, count: (mask: HeldMask) => void): void {
    let usedByAll = this.#used.size === 0 ? 0 : Infinity;
    for (const used of this.#used.values()) usedByAll = Math.min(usedByAll, used);
    const spent = this.#held.slice(0, Math.max(0, usedByAll - this.#released));
    for (const mask of spent) if (!mask.counted) count(mask);
    for (const { compact: old } of spent) old.release();
    this.#held.splice(0, spent.length);
    this.#released += spent.length;
    this.#held.push({ compact, counted: false });
  }

  /** Adds the mask of a handle. */
  bind(compact: CompactMask): BoundMask {
    const mask = { compact, counted: false, denominator: this.denominator, users: new Set<string>() };
    this.#bound.add(mask);
    return mask;
  }

  /** Whether the mask of a handle is still here. */
  has(mask: BoundMask): boolean {
    return this.#bound.has(mask);
  }

  /** Lets the mask of a handle go. It must have been counted. */
  unbind(mask: BoundMask): void {
    this.#bound.delete(mask);
    mask.compact.release();
  }

  /**
   * The mask that the next value of `stat` pairs with; undefined if there is none yet.
   *
   * @throws PairingError if it was let go because the other stats have moved on
   */
  next(stat: string): HeldMask | undefined {
    const index = this.#used.get(stat) ?? 0;
    if (index >= this.total) return undefined;
    if (index < this.#released) {
      throw new PairingError({
        where: 'stat',
        input: stat,
        expected: `a value for every mask of '${this.denominator}', in step with the other stats`,
        received: `value ${String(index + 1)} when mask ${String(this.#released + 1)} is the oldest one still held`,
        remedy: `record '${stat}' for every micro-batch, give it a denominator of its own, or use a denominator handle`,
      });
    }
    return this.#held[index - this.#released]!;
  }

  /** The refusal of a value of `stat` for which `next` has no mask. */
  surplus(stat: string): PairingError {
    const value = (this.#used.get(stat) ?? 0) + 1;
    const byHandle = this.total === 0 && this.#bound.size > 0;
    return new PairingError({
      where: 'stat',
      input: stat,
      expected: `at most one value per mask of '${this.denominator}' (${String(this.total)} so far)`,
      received: `value ${String(value)}`,
      remedy: byHandle
        ? 'record values for the mask of a handle with stat() of the handle'
        : 'record the mask of the next micro-batch with denominator() before its values',
    });
  }

  /** Notes that `stat` has used the mask which `next` gave it, or has left out a value where it gave none. */
  advance(stat: string): void {
    this.#used.set(stat, (this.#used.get(stat) ?? 0) + 1);
  }

  /** Stat keys with fewer values than masks, and how many values they have. */
  behind(): [stat: string, values: number][] {
    return [...this.#used].filter(([, values]) => values < this.total);
  }

  /** All held masks. A mask is never let go before some launch counts its selected elements. */
  held(): HeldMask[] {
    return [...this.#held, ...this.#bound];
  }

  /** Takes over the handles of an older queue; its masks by name are paired and counted, and go. */
  adopt(older: MaskQueue): void {
    for (const mask of older.#bound) this.#bound.add(mask);
    older.#bound.clear();
    older.release();
  }

  /** Lets all masks go. */
  release(): void {
    for (const { compact } of this.held()) compact.release();
    this.#released = this.total;
    this.#held.length = 0;
    this.#bound.clear();
  }
}

/** Masks for as long as values may use them; all, or none if one is refused. */
export function holdMasks(masks: Iterable<Tensor>): CompactMask[] {
  const made: CompactMask[] = [];
  try {
    for (const mask of masks) made.push(compactMask(mask));
  } catch (error) {
    for (const mask of made) mask.release();
    throw error;
  }
  return made;
}
