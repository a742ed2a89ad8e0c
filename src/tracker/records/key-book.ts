/**
 * Which keys a tracker knows, what each one is, and which exported names are taken.
 *
 * A key is bound from its first record until no window holds records of it any more.
 */
import { KeyConflictError, ValueError } from '../../errors.js';
import type { Notices } from '../notices.js';
import { assertLength, fullKey } from '../scope.js';
import type { Settings } from '../settings.js';
import { type Binding, Slot } from './entry.js';
import { exportedNames, tensorReduceTypes } from './reduce-type.js';

/** A key, and what a record call wants it to be. */
export interface Claim {
  /** Full key. */
  readonly key: string;
  readonly binding: Binding;
}

export class KeyBook {
  readonly #slots = new Map<string, Slot>();
  /** Exported name → the key that exports it. */
  readonly #owners = new Map<string, string>();
  /** Slots by path and name, so that a record of a known key joins no strings. */
  readonly #tables = new Map<string, Map<string, Slot>>();
  readonly #settings: Settings;
  readonly #notices: Notices;

  constructor(settings: Settings, notices: Notices) {
    this.#settings = settings;
    this.#notices = notices;
  }

  /** Keys that are bound now. */
  get size(): number {
    return this.#slots.size;
  }

  get slots(): Iterable<Slot> {
    return this.#slots.values();
  }

  slotOf(key: string): Slot | undefined {
    return this.#slots.get(key);
  }

  /** Known slots of a path by name. Another table, or none, once keys were forgotten. */
  tableOf(path: string): ReadonlyMap<string, Slot> | undefined {
    return this.#tables.get(path);
  }

  /** The full key of `name` at a path. Known ones are not joined again: a new text is hashed wherever it is looked up. */
  keyOf(path: string, name: string): string {
    return this.#tables.get(path)?.get(name)?.key ?? fullKey(path, name);
  }

  /** The slot of what is `name` at a path, opened if it is new. The caller has asked `assertCompatible`. */
  open(path: string, name: string, { key, binding }: Claim): Slot {
    const slot = this.#slots.get(key) ?? this.#add(new Slot(key, this.#resolved(binding)));
    this.#rebind(slot, binding);
    let table = this.#tables.get(path);
    if (table === undefined) this.#tables.set(path, (table = new Map<string, Slot>()));
    if (table.get(name) !== slot) table.set(name, slot);
    return slot;
  }

  /**
   * Refuses keys that contradict what is recorded or being exported, or each other.
   *
   * @throws KeyConflictError naming both claims; ValueError for more keys than the tracker takes
   */
  assertCompatible(where: string, wanted: Iterable<Claim>): void {
    const claimed = new Map<string, string>();
    let added = 0;
    for (const { key, binding } of wanted) {
      const existing = this.#slots.get(key)?.binding;
      if (existing === undefined) {
        assertLength(where, key);
        added++;
      } else {
        if (!this.#agrees(existing, binding)) throw rebound(where, key, existing, binding);
        const isKnown = existing.reduction === binding.reduction && binding.nonFinite === undefined;
        if (isKnown) continue; // Its names are its own already.
      }
      this.#assertNamesFree(where, key, binding, claimed);
    }
    if (this.#slots.size + added > this.#settings.maxKeys) this.#refuseMore(where, added);
  }

  /** Forgets the keys that are not `held` and have no new records. */
  forget(held: ReadonlySet<string>): void {
    let hasForgotten = false;
    for (const [key, slot] of this.#slots) {
      if (slot.isTouched || held.has(key)) continue;
      hasForgotten = true;
      this.#slots.delete(key);
      this.#disown(slot);
    }
    // Rebuilt by the next records: no table leads to a slot that is gone, and names that change with every step do not
    // pile up.
    if (hasForgotten) this.#tables.clear();
  }

  #add(slot: Slot): Slot {
    this.#slots.set(slot.key, slot);
    this.#own(slot);
    return slot;
  }

  /** Makes a slot what its key is recorded as now, where that may change. */
  #rebind(slot: Slot, binding: Binding): void {
    const { reduction, nonFinite = slot.binding.nonFinite } = binding;
    if (reduction === slot.binding.reduction && nonFinite === slot.binding.nonFinite) return;
    if (reduction !== slot.binding.reduction) {
      this.#notices.once(
        'TENSORTALLY_REDUCE_TYPE',
        slot.key,
        `'${slot.key}' was recorded as ${describe(slot.binding)} and now as ${describe(binding)}: the last one counts for all of its records`,
      );
    }
    this.#disown(slot);
    slot.binding = { ...slot.binding, reduction, nonFinite };
    this.#own(slot);
  }

  #own(slot: Slot): void {
    for (const name of namesOf(slot.key, slot.binding)) this.#owners.set(name, slot.key);
  }

  /** In parity mode a name may have gone to a later key. */
  #disown({ key, binding }: Slot): void {
    for (const name of namesOf(key, binding)) if (this.#owners.get(name) === key) this.#owners.delete(name);
  }

  #resolved(binding: Binding): Binding {
    return { ...binding, nonFinite: binding.nonFinite ?? this.#defaultRule(binding) };
  }

  /** A denominator counts what its masks select; no mask has elements that are not finite. */
  #defaultRule({ reduction }: Binding): Settings['nonFinite'] {
    return reduction === 'denominator' ? undefined : this.#settings.nonFinite;
  }

  /** Whether a key that is `a` may be recorded as `b`. */
  #agrees(a: Binding, b: Binding): boolean {
    if (a.denominator !== b.denominator) return false;
    if (b.nonFinite !== undefined && a.nonFinite !== undefined && a.nonFinite !== b.nonFinite) return false;
    return a.reduction === b.reduction || (this.#settings.mode === 'parity' && areStats(a, b));
  }

  #assertNamesFree(where: string, key: string, binding: Binding, claimed: Map<string, string>): void {
    for (const name of namesOf(key, this.#resolved(binding))) {
      if (this.#settings.derived.has(name)) throw nameTaken(where, key, name, 'a derived metric');
      const owner = [claimed.get(name), this.#owners.get(name)].find(
        (other) => other !== undefined && other !== key,
      );
      claimed.set(name, key);
      if (owner === undefined) continue;
      if (this.#settings.mode === 'strict') throw nameTaken(where, key, name, `'${owner}'`);
      this.#notices.once(
        'TENSORTALLY_NAME_TAKEN',
        key,
        `'${owner}' and '${key}' both export '${name}': the one whose key was recorded last wins`,
      );
    }
  }

  #refuseMore(where: string, added: number): never {
    throw new ValueError({
      where,
      input: 'keys',
      expected: `at most ${String(this.#settings.maxKeys)} keys in one tracker`,
      received: `${String(added)} more than the ${String(this.#slots.size)} that it holds`,
      remedy: 'keep step numbers, prompts and the like out of keys, export more often, or raise maxKeys',
    });
  }
}

function namesOf(key: string, { reduction, nonFinite }: Binding): string[] {
  return exportedNames(key, reduction, nonFinite);
}

/** Whether one reduce type of tensors can take the place of the other: all are read from one row, but a histogram is more. */
function areStats(a: Binding, b: Binding): boolean {
  const types: readonly string[] = tensorReduceTypes.filter((type) => type !== 'histogram');
  return a.denominator !== undefined && types.includes(a.reduction) && types.includes(b.reduction);
}

function rebound(where: string, key: string, existing: Binding, wanted: Binding): KeyConflictError {
  return new KeyConflictError({
    where,
    input: key,
    expected: `${describe(existing)}, as it was recorded first`,
    received: describe({ ...wanted, nonFinite: wanted.nonFinite ?? existing.nonFinite }),
    remedy: 'use another key; a key keeps its kind, reduce type and denominator until it is exported',
  });
}

/**
 * The refusal of a second key that exports `name`.
 *
 * @param owner what exports it already, as the message calls it
 * @param taker what the message calls the key
 */
export function nameTaken(
  where: string,
  key: string,
  name: string,
  owner: string,
  taker = 'one',
): KeyConflictError {
  return new KeyConflictError({
    where,
    input: key,
    expected: 'a key whose exported names are free',
    received: `${taker} that exports '${name}', which ${owner} exports already`,
    remedy: 'rename one of the two',
  });
}

function describe({ reduction, denominator, nonFinite }: Binding): string {
  const rule = nonFinite === undefined ? '' : ` with nonFinite '${nonFinite}'`;
  if (reduction === 'denominator') return 'a denominator';
  if (reduction === 'counter') return `a counter${rule}`;
  if (denominator !== undefined) return `a stat of reduce type '${reduction}' under '${denominator}'${rule}`;
  return `${reduction === 'scalar' ? 'a scalar' : `a scalar of reduce type '${reduction}'`}${rule}`;
}
