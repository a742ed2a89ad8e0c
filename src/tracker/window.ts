/**
 * What a tracker has recorded since its last export: one mergeable row per key, and the masks that values pair with.
 *
 * A window knows what every key is bound to and which exported names are taken, and it can be taken apart and put
 * together again without loss. It never waits and never touches a device except to let memory go.
 */
import { KeyConflictError, PairingError } from '../errors.js';
import { type MomentsRow, emptyRow, mergeRows } from '../kernels/index.js';
import { MaskQueue } from './denominators.js';
import type { Part } from './launch.js';
import { type Reduction, exportedNames } from './reduce-type.js';

/** What a key is, until it is exported and reset. */
export interface Binding {
  readonly reduction: Reduction;
  /** Full key of the denominator of a stat. */
  readonly denominator?: string;
}

/** The records of one key: what is on the host already, then what is still on the device, in record order. */
export interface Entry {
  readonly binding: Binding;
  row: MomentsRow;
  readonly parts: Part[];
}

export class Window {
  readonly entries = new Map<string, Entry>();
  readonly queues = new Map<string, MaskQueue>();
  /** Exported name → the key that exports it. */
  readonly #owners = new Map<string, string>();

  /** The entry of `key`, opened if it is new. The caller has asked `assertCompatible`. */
  open(key: string, binding: Binding): Entry {
    let entry = this.entries.get(key);
    if (entry === undefined) {
      entry = { binding, row: emptyRow, parts: [] };
      this.#put(key, entry);
    }
    return entry;
  }

  /** The mask queue of a denominator, made if it is new. */
  queue(denominator: string): MaskQueue {
    let queue = this.queues.get(denominator);
    if (queue === undefined) this.queues.set(denominator, (queue = new MaskQueue(denominator)));
    return queue;
  }

  /** The key that exports `name`, if any. */
  ownerOf(name: string): string | undefined {
    return this.#owners.get(name);
  }

  /**
   * Refuses to export values and masks that do not pair up. A denominator that no stat uses is fine.
   *
   * @param key look at this key only
   * @throws PairingError naming the stat and both numbers
   */
  assertPaired(key?: string): void {
    for (const [denominator, queue] of this.queues) {
      for (const [stat, values] of queue.behind()) {
        const asked = key === undefined || key === stat || key === denominator;
        if (!asked || !this.entries.has(stat)) continue;
        throw new PairingError({
          where: 'export',
          input: stat,
          expected: `one value per mask of '${denominator}' (${String(queue.total)})`,
          received: `${String(values)} value${values === 1 ? '' : 's'}`,
          remedy: `record '${stat}' for every mask before exporting, or dispose() the tracker to drop its records`,
        });
      }
    }
  }

  /** Moves `key` into a window of its own; a denominator takes its masks along. Unknown keys give an empty window. */
  split(key: string): Window {
    const apart = new Window();
    const entry = this.entries.get(key);
    if (entry === undefined) return apart;
    this.entries.delete(key);
    for (const name of exportedNames(key, entry.binding.reduction)) this.#owners.delete(name);
    apart.#put(key, entry);
    const queue = this.queues.get(key);
    if (queue !== undefined) {
      this.queues.delete(key);
      apart.queues.set(key, queue);
    }
    return apart;
  }

  /** Puts an older, compatible window back in front of this one. */
  prepend(older: Window): void {
    for (const [key, { binding, row, parts }] of older.entries) {
      const newer = this.entries.get(key);
      this.#put(key, {
        binding,
        row: newer === undefined ? row : mergeRows(row, newer.row),
        parts: newer === undefined ? parts : [...parts, ...newer.parts],
      });
    }
    for (const [denominator, queue] of older.queues) {
      // The older masks were paired and counted before they were taken, so newer ones can start a queue of their own.
      if (this.queues.has(denominator)) queue.release();
      else this.queues.set(denominator, queue);
    }
  }

  /** Lets all masks go. */
  releaseMasks(): void {
    for (const queue of this.queues.values()) queue.release();
  }

  /** Lets everything go that is on a device. */
  release(): void {
    this.releaseMasks();
    for (const { parts } of this.entries.values()) for (const { launch } of parts) launch.release();
  }

  #put(key: string, entry: Entry): void {
    this.entries.set(key, entry);
    for (const name of exportedNames(key, entry.binding.reduction)) this.#owners.set(name, key);
  }
}

/**
 * Refuses keys that contradict what is recorded or being exported, or each other.
 *
 * @param bindings what a record call wants its keys to be
 * @param windows the windows that the call has to agree with
 * @throws KeyConflictError naming both claims
 */
export function assertCompatible(
  where: string,
  bindings: ReadonlyMap<string, Binding>,
  windows: readonly Window[],
): void {
  const claimed = new Map<string, string>();
  for (const [key, binding] of bindings) {
    for (const window of windows) {
      const existing = window.entries.get(key)?.binding;
      if (existing !== undefined && !sameBinding(existing, binding))
        throw rebound(where, key, existing, binding);
    }
    for (const name of exportedNames(key, binding.reduction)) {
      const owners = [claimed.get(name), ...windows.map((window) => window.ownerOf(name))];
      const owner = owners.find((other) => other !== undefined && other !== key);
      if (owner !== undefined) throw nameTaken(where, key, name, owner);
      claimed.set(name, key);
    }
  }
}

function sameBinding(a: Binding, b: Binding): boolean {
  return a.reduction === b.reduction && a.denominator === b.denominator;
}

function rebound(where: string, key: string, existing: Binding, wanted: Binding): KeyConflictError {
  return new KeyConflictError({
    where,
    input: key,
    expected: `${describe(existing)}, as it was recorded first`,
    received: describe(wanted),
    remedy: 'use another key; a key keeps its kind, reduce type and denominator until it is exported',
  });
}

/** The refusal of a second key that exports `name`. */
export function nameTaken(where: string, key: string, name: string, owner: string): KeyConflictError {
  return new KeyConflictError({
    where,
    input: key,
    expected: 'a key whose exported names are free',
    received: `one that exports '${name}', which '${owner}' exports already`,
    remedy: 'rename one of the two',
  });
}

function describe({ reduction, denominator }: Binding): string {
  if (reduction === 'denominator') return 'a denominator';
  if (reduction === 'scalar') return 'a scalar';
  return `a stat of reduce type '${reduction}' under '${String(denominator)}'`;
}
