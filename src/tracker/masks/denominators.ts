/**
 * The denominators of a tracker: what is known by name, whose masks are held, and who is behind.
 */
import { kindOf } from '../../arguments.js';
import { MissingInputError, ReleasedError } from '../../errors.js';
import { meantName } from '../../meant-name.js';
import { fullKey } from '../scope.js';
import { type BoundMask, type HeldMask, MaskQueue } from './mask-queue.js';

/** Masks that an export has taken, by the full key of their denominator. */
export type TakenMasks = ReadonlyMap<string, MaskQueue>;

/** Names that a message lists. */
const MOST_NAMED = 10;
/** Letters that a message shows of a name. */
const MOST_SHOWN = 60;

function listed(names: readonly string[]): string {
  const shown = names.slice(0, MOST_NAMED).map((name) => `'${name}'`);
  return `${shown.join(', ')}${names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : ''}`;
}

export class Denominators {
  #queues = new Map<string, MaskQueue>();
  /** Those that exports have taken, until they are settled. */
  readonly #exporting = new Set<TakenMasks>();
  readonly #isBound: (stat: string, denominator: string) => boolean;

  /** @param isBound whether the tracker has records of a stat over a denominator */
  constructor(isBound: (stat: string, denominator: string) => boolean) {
    this.#isBound = isBound;
  }

  /** The queue of a denominator, made if it is new. */
  open(denominator: string): MaskQueue {
    let queue = this.#queues.get(denominator);
    if (queue === undefined) {
      queue = new MaskQueue(denominator, (stat) => this.#isBound(stat, denominator));
      this.#queues.set(denominator, queue);
    }
    return queue;
  }

  /**
   * The denominator `name` of the scope `path`, and its masks. Scopes around it are not searched: a mask of another
   * scope is reached by its handle.
   *
   * @throws MissingInputError naming what is known
   */
  find(path: string, name: unknown): { readonly denominator: string; readonly queue: MaskQueue } {
    const key = typeof name === 'string' ? fullKey(path, name) : undefined;
    const queue = key === undefined ? undefined : this.#queues.get(key);
    if (key !== undefined && queue !== undefined) return { denominator: key, queue };
    const prefix = fullKey(path, '');
    const all = [...this.#queues.keys()];
    // As they are typed in this scope.
    const here = all
      .filter((recorded) => recorded.startsWith(prefix))
      .map((recorded) => recorded.slice(prefix.length));
    const elsewhere = all.filter((recorded) => !recorded.startsWith(prefix));
    const known = [
      ...(here.length > 0 ? [`${listed(here)} in this scope`] : []),
      ...(elsewhere.length > 0 ? [`${listed(elsewhere)} elsewhere`] : []),
    ];
    const meant = typeof name === 'string' ? meantName(name, here) : undefined;
    throw new MissingInputError({
      where: 'stat',
      input: 'denominator',
      expected: `the name of a denominator recorded in scope '${path}'`,
      received: `${typeof name === 'string' ? `'${name.slice(0, MOST_SHOWN)}'` : kindOf(name)}, while ${known.length > 0 ? known.join(' and ') : 'no key'} is known`,
      remedy:
        (meant === undefined ? '' : `did you mean '${meant}'? `) +
        'record the mask with denominator() in the same scope first, or keep the handle that it returns',
    });
  }

  /** The queue that holds the mask of a handle; undefined once it was let go or taken. */
  holderOf(mask: BoundMask): MaskQueue | undefined {
    const queue = this.#queues.get(mask.denominator);
    return queue?.has(mask) === true ? queue : undefined;
  }

  /** @throws ReleasedError unless the mask of a handle is still here */
  assertHeld(mask: BoundMask): void {
    if (this.holderOf(mask) !== undefined) return;
    throw new ReleasedError({
      where: 'stat',
      input: `denominator handle '${mask.denominator}'`,
      expected: 'a mask that is still held',
      received: 'one that went with an export or was disposed',
      remedy: 'record the mask of the new micro-batch with denominator() and use the handle that it returns',
    });
  }

  /** The masks held for `denominator`, or for all. */
  *held(denominator?: string): Generator<[denominator: string, mask: HeldMask]> {
    for (const [key, queue] of this.#queues) {
      if (denominator !== undefined && denominator !== key) continue;
      for (const mask of queue.held()) yield [key, mask];
    }
  }

  /** Stats that have fewer values than masks: all, or those that an export of `key` is about. */
  *behind(
    key: string | undefined,
  ): Generator<{ denominator: string; stat: string; values: number; masks: number }> {
    for (const [denominator, queue] of this.#queues) {
      for (const [stat, values] of queue.behind()) {
        if (key === undefined || key === stat || key === denominator)
          yield { denominator, stat, values, masks: queue.total };
      }
    }
  }

  /** Every mask that is kept, also by exports that run. */
  kept(): HeldMask[] {
    return [this.#queues, ...this.#exporting].flatMap((queues) =>
      [...queues.values()].flatMap((queue) => queue.held()),
    );
  }

  /**
   * Lets masks by name go whose backend was removed.
   *
   * @param count called before one goes that no launch has counted
   */
  dropUnreadable(count: (denominator: string, mask: HeldMask) => void): void {
    for (const [denominator, queue] of this.#queues) {
      queue.dropUnreadable((mask) => {
        count(denominator, mask);
      });
    }
  }

  /** Takes the masks of `key`, or all. */
  take(key: string | undefined): TakenMasks {
    for (const earlier of this.#exporting) {
      for (const [denominator, queue] of earlier) {
        if (key === undefined || key === denominator) queue.supersede();
      }
    }
    let taken = this.#queues;
    if (key === undefined) {
      this.#queues = new Map();
    } else {
      const queue = taken.get(key);
      taken.delete(key);
      taken = new Map(queue === undefined ? [] : [[key, queue]]);
    }
    this.#exporting.add(taken);
    return taken;
  }

  /** The taken masks are not needed any more. */
  settle(taken: TakenMasks): void {
    this.#exporting.delete(taken);
    for (const queue of taken.values()) queue.release();
  }

  /** Keeps what is known of stats whose records were all exported within bounds. */
  trim(): void {
    for (const queue of this.#queues.values()) queue.trim();
  }

  /** Puts taken masks back. */
  restore(taken: TakenMasks): void {
    this.#exporting.delete(taken);
    for (const [denominator, queue] of taken) {
      const restored = queue.restoredBeside(this.#queues.get(denominator));
      if (!restored.isBlank) this.#queues.set(denominator, restored);
    }
  }

  /** Lets all masks go, also those of exports that run: their counts are launched. */
  release(): void {
    for (const queues of [this.#queues, ...this.#exporting])
      for (const queue of queues.values()) queue.release();
    this.#queues.clear();
    this.#exporting.clear();
  }
}
