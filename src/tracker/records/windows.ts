/**
 * What each window of a tracker still has to export: segments of sealed records, shared between windows.
 *
 * A record is made once, whatever the number of windows. When an export cuts records off, every window gets the same
 * sealed segment, and each lets go of it at an export of its own. What a window has waiting is merged into as few
 * segments as possible once it is on the host, so it grows with keys and not with the exports of other windows.
 *
 * Segments are numbered in record order. An export that fails puts back what it took where it was, whichever of several
 * exports fails first; so what was taken in between is a border across which nothing is merged.
 */
import { type Segment, merged } from './entry.js';

/** A segment and its place: that of the last record in it. */
interface Stretch {
  readonly order: number;
  readonly segment: Segment;
}

/** What an export has taken from a window, until it is settled or put back. */
export interface Cut {
  readonly window: string;
  readonly stretches: readonly Stretch[];
}

export class Windows {
  readonly #waiting: Map<string, readonly Stretch[]>;
  readonly #taken = new Set<Cut>();
  /** What each window has been told of lost records. */
  readonly #told: ReadonlyMap<string, WeakSet<Error>>;
  #sealed = 0;

  /** @param names the first is the default one */
  constructor(names: readonly [string, ...string[]]) {
    this.#waiting = new Map(names.map((name) => [name, []]));
    this.#told = new Map(names.map((name) => [name, new WeakSet()]));
  }

  /** What waits to be exported from a window, in record order. */
  segments(window: string): Segment[] {
    return this.#waiting.get(window)!.map(({ segment }) => segment);
  }

  /** All segments that wait in any window; one that several have comes several times. */
  all(): Segment[] {
    return [...this.#waiting.values()].flat().map(({ segment }) => segment);
  }

  /** Every key of which records wait, or are being exported. */
  keys(): Set<string> {
    const taken = [...this.#taken].flatMap(({ stretches }) => stretches.map(({ segment }) => segment));
    return new Set([...this.all(), ...taken].flatMap((segment) => [...segment.keys()]));
  }

  /** Gives every window newly sealed records. */
  push(segment: Segment): void {
    if (segment.size === 0) return;
    const stretch = { order: ++this.#sealed, segment };
    for (const [window, stretches] of this.#waiting) this.#waiting.set(window, [...stretches, stretch]);
  }

  /** Takes what waits in a window, or what of it is under `key`. */
  take(window: string, key?: string): Cut {
    const all = this.#waiting.get(window)!;
    const stretches = key === undefined ? all : all.map((one) => reduced(one, only(key)));
    this.#waiting.set(
      window,
      key === undefined ? [] : all.map((one) => reduced(one, without(key))).filter(hasKeys),
    );
    const cut = { window, stretches: stretches.filter(hasKeys) };
    this.#taken.add(cut);
    return cut;
  }

  /** What was taken is exported. Says whether it was still here. */
  settle(cut: Cut): boolean {
    return this.#taken.delete(cut);
  }

  /** Puts back what was taken, between what was recorded before and since. Says whether it was still here. */
  restore(cut: Cut): boolean {
    if (!this.#taken.delete(cut)) return false;
    // Of one place are parts of one segment under different keys.
    const all = [...cut.stretches, ...this.#waiting.get(cut.window)!];
    this.#waiting.set(
      cut.window,
      all.sort((a, b) => a.order - b.order),
    );
    return true;
  }

  /**
   * Why records are missing from `segments`, which a window exports and which were read: what it has not been told
   * before. From now on it has.
   */
  tell(window: string, segments: readonly Segment[]): Error[] {
    const told = this.#told.get(window)!;
    const fresh = new Set<Error>();
    for (const segment of segments) {
      for (const entry of segment.values()) {
        for (const loss of entry.losses()) if (!told.has(loss)) fresh.add(loss);
      }
    }
    for (const loss of fresh) told.add(loss);
    return [...fresh];
  }

  /** Merges what waits and is on the host. */
  compact(): void {
    for (const [window, stretches] of this.#waiting) {
      const unread = stretches.findIndex(({ segment }) => !isRead(segment));
      const read = unread === -1 ? stretches.length : unread;
      const borders = this.#borders(window);
      const compacted: Stretch[][] = [];
      for (const stretch of stretches.slice(0, read)) {
        const group = compacted.at(-1);
        const before = group?.at(-1)?.order;
        const isApart = before === undefined || borders.some((at) => before < at && at <= stretch.order);
        if (isApart) compacted.push([stretch]);
        else group!.push(stretch);
      }
      this.#waiting.set(window, [...compacted.map(joined), ...stretches.slice(read)]);
    }
  }

  /** Places of what exports of a window have taken and may put back. */
  #borders(window: string): number[] {
    return [...this.#taken]
      .filter((cut) => cut.window === window)
      .flatMap(({ stretches }) => stretches.map(({ order }) => order));
  }

  /** Drops what waits. An export that is running keeps what it took, and has nothing to put back. */
  clear(): void {
    for (const window of this.#waiting.keys()) this.#waiting.set(window, []);
    this.#taken.clear();
  }
}

/** The parts of segments that are under one key. */
export function ofKey(segments: readonly Segment[], key: string): Segment[] {
  return segments.map(only(key)).filter(({ size }) => size > 0);
}

function only(key: string): (segment: Segment) => Segment {
  return (segment) => {
    const entry = segment.get(key);
    return new Map(entry === undefined ? [] : [[key, entry]]);
  };
}

function without(key: string): (segment: Segment) => Segment {
  return (segment) => {
    if (!segment.has(key)) return segment;
    const rest = new Map(segment);
    rest.delete(key);
    return rest;
  };
}

function reduced({ order, segment }: Stretch, reduce: (segment: Segment) => Segment): Stretch {
  return { order, segment: reduce(segment) };
}

function hasKeys({ segment }: Stretch): boolean {
  return segment.size > 0;
}

function isRead(segment: Segment): boolean {
  for (const entry of segment.values()) if (!entry.isRead) return false;
  return true;
}

/** Stretches that are on the host as one, each entry of it as one row. */
function joined(stretches: readonly Stretch[]): Stretch {
  const segment = merged(stretches.map((stretch) => stretch.segment));
  for (const entry of segment.values()) entry.row();
  return { order: stretches.at(-1)!.order, segment };
}
