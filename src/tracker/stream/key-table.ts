/**
 * The keys of one end of a stream: each has a small number, one reduction, and exported names that are its own.
 */
import { KeyConflictError, ValueError } from '../../errors.js';
import { kindOf } from '../../kernels/arguments.js';
import { exportedNames } from '../reduce-type.js';
import {
  type KeyDefinition,
  MOST_TEXT_BYTES,
  type StreamReduction,
  isStreamReduction,
  streamReductions,
} from './schema.js';

/** A delta numbers its keys with 16 bits. */
export const MOST_KEYS = 65_535;

export class KeyTable {
  readonly #maxKeys: number;
  readonly #ids = new Map<string, number>();
  readonly #definitions: KeyDefinition[] = [];
  /** Exported name → the key that exports it. */
  readonly #owners = new Map<string, string>();

  /**
   * @param maxKeys what more keys than this are refused for: names made from data would grow without bound
   * @param reserved exported names that no key may have
   */
  constructor(maxKeys: number, reserved: readonly string[] = []) {
    this.#maxKeys = maxKeys;
    for (const name of reserved) this.#owners.set(name, name);
  }

  get size(): number {
    return this.#definitions.length;
  }

  /** The key with number `id`. */
  definition(id: number): KeyDefinition {
    return this.#definitions[id]!;
  }

  /** The number of a key that is known under this reduction. */
  idOf(key: string, reduction: StreamReduction): number | undefined {
    const id = this.#ids.get(key);
    return id !== undefined && this.#definitions[id]!.reduction === reduction ? id : undefined;
  }

  /**
   * The numbers of several keys, new ones included: all of them or, with an error, none.
   *
   * @throws ValueError for a key that is no text or that no delta has room for, an unknown reduction or too many keys; KeyConflictError for a key
   *   that is known under another reduction or exports a name that is taken
   */
  claim(where: string, definitions: readonly KeyDefinition[]): number[] {
    const fresh = new Map<string, KeyDefinition>();
    const names = new Map<string, string>();
    for (const definition of definitions) {
      const { key, reduction } = definition;
      if (this.idOf(key, reduction) !== undefined) continue;
      assertDefinition(where, definition);
      const id = this.#ids.get(key);
      const known = id === undefined ? fresh.get(key) : this.#definitions[id];
      if (known !== undefined) {
        if (known.reduction !== reduction) throw rebound(where, known, reduction);
        continue;
      }
      for (const name of exportedNames(key, reduction)) {
        const owner = names.get(name) ?? this.#owners.get(name);
        if (owner !== undefined) throw nameTaken(where, key, name, owner);
        names.set(name, key);
      }
      fresh.set(key, definition);
    }
    if (this.size + fresh.size > this.#maxKeys)
      throw tooManyKeys(where, this.size + fresh.size, this.#maxKeys);
    for (const { key, reduction } of fresh.values()) {
      this.#ids.set(key, this.#definitions.length);
      this.#definitions.push({ key, reduction });
    }
    for (const [name, key] of names) this.#owners.set(name, key);
    return definitions.map(({ key }) => this.#ids.get(key)!);
  }
}

function assertDefinition(where: string, { key, reduction }: KeyDefinition): void {
  // A lone surrogate has no UTF-8 form, so two such keys would arrive as one.
  if (typeof key !== 'string' || key === '' || /\p{Surrogate}/u.test(key)) {
    throw new ValueError({
      where,
      input: 'key',
      expected: 'a key that is well-formed text and not empty',
      received: kindOf(key),
      remedy: "name it by its path, e.g. 'rollout/reward'",
    });
  }
  const bytes = Buffer.byteLength(key);
  if (bytes > MOST_TEXT_BYTES) {
    throw new ValueError({
      where,
      input: `${key.slice(0, 40)}…`,
      expected: `a key of at most ${MOST_TEXT_BYTES} bytes of UTF-8`,
      received: `${bytes} bytes`,
      remedy: 'keep texts of samples out of keys',
    });
  }
  if (!isStreamReduction(reduction)) {
    throw new ValueError({
      where,
      input: key,
      expected: `one of the reductions ${streamReductions.map((name) => `'${name}'`).join(', ')}`,
      received: kindOf(reduction),
      remedy: "choose one of these; what is counted is a 'counter', what is measured a 'scalar'",
    });
  }
}

function rebound(
  where: string,
  { key, reduction }: KeyDefinition,
  wanted: StreamReduction,
): KeyConflictError {
  return new KeyConflictError({
    where,
    input: key,
    expected: `'${reduction}', as it was recorded first`,
    received: `'${wanted}'`,
    remedy: 'use another key; all workers of a stream record a key in one way',
  });
}

function nameTaken(where: string, key: string, name: string, owner: string): KeyConflictError {
  return new KeyConflictError({
    where,
    input: key,
    expected: 'a key whose exported names are free',
    received: `one that exports '${name}', which ${owner === name ? 'is taken' : `'${owner}' exports already`}`,
    remedy: 'rename one of the two',
  });
}

function tooManyKeys(where: string, wanted: number, most: number): ValueError {
  return new ValueError({
    where,
    input: 'key',
    expected: `at most ${most} different keys in a stream`,
    received: `${wanted}`,
    remedy: 'keep ids and texts of samples out of keys, or raise maxKeys',
  });
}
