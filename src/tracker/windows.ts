/**
 * What each window of a tracker still has to export: segments of sealed records, shared between windows.
 *
 * A record is made once, whatever the number of windows. When an export cuts records off, every window gets the same
 * sealed segment, and each lets go of it at an export of its own. What a window has waiting is merged into one segment as
 * soon as it is on the host, so it grows with keys and not with the exports of other windows.
 */
import { type Segment, merged } from './entry.js';

export class Windows {
  readonly #waiting: Map<string, Segment[]>;
  /** What each window has been told of lost records. */
  readonly #told: ReadonlyMap<string, WeakSet<Error>>;

  /** @param names the first is the default one */
  constructor(names: readonly [string, ...string[]]) {
    this.#waiting = new Map(names.map((name) => [name, []]));
    this.#told = new Map(names.map((name) => [name, new WeakSet()]));
  }

  get names(): string[] {
    return [...this.#waiting.keys()];
  }

  /** What waits to be exported from a window, in record order. */
  segments(window: string): readonly Segment[] {
    return this.#waiting.get(window)!;
  }

  /** All segments of all windows; one that several have comes several times. */
  all(): Segment[] {
    return [...this.#waiting.values()].flat();
  }

  /** Gives every window newly sealed records. */
  push(segment: Segment): void {
    if (segment.size === 0) return;
    for (const segments of this.#waiting.values()) segments.push(segment);
  }

  /** Takes what waits in a window, or what of it is under `key`. */
  take(window: string, key?: string): Segment[] {
    const segments = this.#waiting.get(window)!;
    this.#waiting.set(
      window,
      key === undefined ? [] : segments.map((segment) => without(segment, key)).filter(hasKeys),
    );
    return key === undefined ? segments : ofKey(segments, key);
  }

  /** Puts back what was taken from a window, in front of what came since. */
  restore(window: string, taken: readonly Segment[]): void {
    this.#waiting.set(window, [...taken, ...this.#waiting.get(window)!]);
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
    for (const [window, segments] of this.#waiting) {
      const unread = segments.findIndex((segment) => ![...segment.values()].every((entry) => entry.isRead));
      const read = unread === -1 ? segments.length : unread;
      if (read > 0) this.#waiting.set(window, [compacted(segments.slice(0, read)), ...segments.slice(read)]);
    }
  }

  clear(): void {
    for (const window of this.#waiting.keys()) this.#waiting.set(window, []);
  }
}

/** The parts of segments that are under one key. */
export function ofKey(segments: readonly Segment[], key: string): Segment[] {
  return segments.flatMap((segment) => {
    const entry = segment.get(key);
    return entry === undefined ? [] : [new Map([[key, entry]])];
  });
}

/** Segments that are on the host as one, each entry of it as one row. */
function compacted(segments: readonly Segment[]): Segment {
  const all = merged(segments);
  for (const entry of all.values()) entry.row();
  return all;
}

function without(segment: Segment, key: string): Segment {
  if (!segment.has(key)) return segment;
  const rest = new Map(segment);
  rest.delete(key);
  return rest;
}

function hasKeys(segment: Segment): boolean {
  return segment.size > 0;
}
