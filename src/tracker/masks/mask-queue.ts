/**
 * The masks of one denominator, and who has used which.
 *
 * Masks recorded by name wait in a queue: the i-th value of a stat pairs with the i-th of them. A mask is held until a
 * newer one arrives when every stat key seen so far has used it, so what is held does not grow with the number of
 * micro-batches. Masks that some stat has not used yet are all held, and so are those that none
 * has: the first stat may still come and start at the first mask. A stat whose records were all exported, by its key,
 * may go on or may never come again: it is waited for over a bounded number of masks, and a bounded number of such stats
 * is known. One that comes back later is refused, never paired with a wrong mask.
 *
 * Masks of handles are beside the queue: values reach them through the handle alone, and they are held until the
 * handle is disposed or an export takes the denominator.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { PairingError } from '../../errors.js';
import { type CompactMask, compactMask } from '../../kernels/index.js';

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

/** Masks that are held for stats alone whose records were all exported: more than one step has micro-batches. */
const MOST_WAITING = 64;

/** Stats that are known though their records were all exported. */
const MOST_EXPORTED = 1000;

export class MaskQueue {
  /** Full key. */
  readonly denominator: string;
  readonly #isBound: (stat: string) => boolean;
  #held: HeldMask[] = [];
  readonly #bound = new Set<BoundMask>();
  /** Masks that were let go; the first held one has this index. */
  #released = 0;
  /** Masks used so far, by stat key. */
  readonly #used = new Map<string, number>();
  /** The fewest masks that a stat had used which is no longer known; where there are more, no new stat can begin. */
  #fewestUsedByUnknown = Infinity;
  /** Whether an export has taken later masks of the denominator: none of these is to pair with a value any more. */
  #isSuperseded = false;

  /** @param isBound whether the tracker has records of a stat over this denominator */
  constructor(denominator: string, isBound: (stat: string) => boolean) {
    this.denominator = denominator;
    this.#isBound = isBound;
  }

  /** Masks recorded by name so far, held or not. */
  get total(): number {
    return this.#released + this.#held.length;
  }

  /** Whether it is as if it had just been made. */
  get isBlank(): boolean {
    return this.#isIdle && this.#bound.size === 0;
  }

  /** Whether it has seen no mask by name, and no value for one. */
  get #isIdle(): boolean {
    return this.total === 0 && this.#used.size === 0;
  }

  /**
   * Adds a mask, and lets those go that every stat has used.
   *
   * @param count called before a mask goes that no launch has counted, because its values were left out; if it throws,
   *   nothing has changed
   */
  push(compact: CompactMask, count: (mask: HeldMask) => void): void {
    const spent = this.#held.slice(0, Math.max(0, this.#spent() - this.#released));
    for (const mask of spent) if (!mask.counted) count(mask);
    for (const { compact: old } of spent) letGo(old);
    this.#held.splice(0, spent.length);
    this.#released += spent.length;
    this.#held.push({ compact, counted: false });
  }

  /** How many masks, from the first, nobody waits for any more. */
  #spent(): number {
    if (this.#used.size === 0) return 0;
    const used = this.#fewestUsed(this.#used.keys());
    if (this.total - used <= MOST_WAITING) return used;
    const bound = this.#fewestUsed([...this.#used.keys()].filter(this.#isBound));
    return Math.max(used, Math.min(bound, this.total - MOST_WAITING));
  }

  #fewestUsed(stats: Iterable<string>): number {
    let fewest = Infinity;
    for (const stat of stats) fewest = Math.min(fewest, this.#used.get(stat)!);
    return fewest;
  }

  /** Where too many stats are known whose records were all exported, forgets those that came first. */
  trim(): void {
    for (const stat of this.#tooMany(this.#used)) {
      this.#fewestUsedByUnknown = Math.min(this.#fewestUsedByUnknown, this.#used.get(stat)!);
      this.#used.delete(stat);
    }
    // Of the mask of a handle, all that goes is the refusal of a second value.
    for (const { users } of this.#bound) for (const stat of this.#tooMany(users)) users.delete(stat);
  }

  #tooMany(stats: ReadonlyMap<string, unknown> | ReadonlySet<string>): string[] {
    if (stats.size <= MOST_EXPORTED) return [];
    const exported = [...stats.keys()].filter((stat) => !this.#isBound(stat));
    return exported.slice(0, Math.max(0, exported.length - MOST_EXPORTED));
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
    letGo(mask.compact);
  }

  /**
   * The mask that the next value of `stat` pairs with; undefined if there is none yet.
   *
   * @throws PairingError if it was let go because the other stats have moved on, or if it cannot be known any more
   */
  next(stat: string): HeldMask | undefined {
    const used = this.#used.get(stat);
    const index = used ?? 0;
    if (index >= this.total) return undefined;
    if (used === undefined && this.total > this.#fewestUsedByUnknown) {
      throw new PairingError({
        where: 'stat',
        input: stat,
        expected: `a stat that is known to '${this.denominator}', of which more than ${String(MOST_EXPORTED)} were exported by their keys`,
        received: `a new one, or one that came before those, and mask ${String(this.total)}`,
        remedy: `export '${this.denominator}', or everything, after each step, or use a denominator handle`,
      });
    }
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

  /**
   * Lets masks by name go whose backend was removed. No value can pair with one any more, so none is missing for it.
   *
   * @param count called before a mask goes that no launch has counted
   */
  dropUnreadable(count: (mask: HeldMask) => void): void {
    const readable = this.#held.filter(({ compact }) => compact.isReadable);
    if (readable.length === this.#held.length) return;
    const left = (used: number): number => {
      const before = this.#held.slice(0, Math.max(0, used - this.#released));
      return used - before.filter(({ compact }) => !compact.isReadable).length;
    };
    for (const [stat, used] of this.#used) this.#used.set(stat, left(used));
    this.#fewestUsedByUnknown = left(this.#fewestUsedByUnknown);
    for (const mask of this.#held) {
      if (mask.compact.isReadable) continue;
      if (!mask.counted) count(mask);
      letGo(mask.compact);
    }
    this.#held = readable;
  }

  /** Notes that an export takes masks that were recorded after these, which other exports have taken. */
  supersede(): void {
    this.#isSuperseded = true;
  }

  /** Takes the place of the queue that `earlier` may be, when an export gives these masks back. */
  restoredBeside(earlier: MaskQueue | undefined): MaskQueue {
    if (this.#isSuperseded) this.#letNamedGo();
    if (earlier === undefined) return this;
    // Masks by name that were recorded since are what values pair with now; those given back are paired and counted.
    const [kept, other]: [MaskQueue, MaskQueue] = earlier.#isIdle ? [this, earlier] : [earlier, this];
    for (const mask of other.#bound) kept.#bound.add(mask);
    other.#bound.clear();
    other.#letNamedGo();
    return kept;
  }

  #letNamedGo(): void {
    for (const { compact } of this.#held) letGo(compact);
    this.#held.length = 0;
    this.#released = 0;
    this.#used.clear();
    this.#fewestUsedByUnknown = Infinity;
  }

  /** Lets all masks go. */
  release(): void {
    for (const { compact } of this.#bound) letGo(compact);
    this.#bound.clear();
    this.#letNamedGo();
  }
}

/** Memory that its device does not take back, for whatever reason, is no reason to lose what was recorded. */
function letGo(compact: CompactMask): void {
  try {
    compact.release();
  } catch {
    // Nobody can do anything about it, and the mask holds on to nothing now.
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
