/** The keys of a delta in the order in which it has them, on the side that sends. */
import { schemaFingerprint } from './delta.js';
import type { KeyTable } from './key-table.js';
import type { KeyDefinition } from './schema.js';

export class SentSchema {
  /** Numbers of the keys in the order of the schema. */
  readonly ids: readonly number[];
  readonly fingerprint: number;
  /** Of the schema that it begins with, where that is known to the other side. */
  readonly parent: number | undefined;
  /** All keys, or those that follow the parent's. */
  readonly definitions: readonly KeyDefinition[];
  readonly #positions: ReadonlyMap<number, number>;

  private constructor(keys: KeyTable, added: number[], parent?: SentSchema) {
    const keyOf = (id: number): string => keys.definition(id).key;
    added.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    this.definitions = added.map((id) => keys.definition(id));
    this.ids = [...(parent?.ids ?? []), ...added];
    this.parent = parent?.fingerprint;
    this.fingerprint = schemaFingerprint(this.definitions, this.parent);
    this.#positions = new Map(this.ids.map((id, position) => [id, position]));
  }

  /** The schema of these keys alone. */
  static of(keys: KeyTable, ids: readonly number[]): SentSchema {
    return new SentSchema(keys, [...ids]);
  }

  /** The schema of the first `size` keys, which begins with this one. */
  extended(keys: KeyTable, size: number): SentSchema {
    return new SentSchema(keys, numbersFrom(this.ids.length, size), this);
  }

  /** Where a key is; undefined if it is not in the schema. */
  positionOf(id: number): number | undefined {
    return this.#positions.get(id);
  }

  /** Whether all of these keys are in it. */
  has(ids: readonly number[]): boolean {
    return ids.every((id) => this.#positions.has(id));
  }
}

/** The integers from `first` up to, and without, `end`. */
export function numbersFrom(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, i) => first + i);
}
