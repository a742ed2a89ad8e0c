/**
 * The keys of one end of a stream: each has a small number, one reduction, and exported names that are its own.
 */
import { kindOf } from '../../../arguments.js';
import { KeyConflictError, type TensortallyError, ValueError } from '../../../errors.js';
import { exportedNames } from '../../records/reduce-type.js';
import { type KeyDefinition, type StreamReduction, isStreamReduction, streamReductions } from './schema.js';

/** A delta numbers its keys with 16 bits. */
export const MOST_KEYS = 65_535;

/** What an end of a stream takes at most. */
export interface KeyLimits {
  /** Names made from data would grow without bound. */
  readonly maxKeys: number;
  /** Bytes of UTF-8 of one key. */
  readonly maxKeyBytes: number;
}

/** Bytes of UTF-8 that a key has at most unless an option says more. */
export const DEFAULT_KEY_BYTES = 1024;

/** What `maxKeyBytes` can be: V8 hashes no string beyond 16383 characters, so that maps of longer ones are lists. */
export const MOST_KEY_BYTES = 16_383;

/** Why a key is refused; made only when somebody wants to know. */
type Refusal = () => TensortallyError;

/** Keys of one call that are not known yet. */
interface Fresh {
  readonly definitions: Map<string, KeyDefinition>;
  /** Exported name → the key that exports it. */
  readonly names: Map<string, string>;
}

export class KeyTable {
  readonly #limits: KeyLimits;
  readonly #ids = new Map<string, number>();
  readonly #definitions: KeyDefinition[] = [];
  /** Exported name → the key that exports it. */
  readonly #owners = new Map<string, string>();

  /** @param reserved exported names that no key may have */
  constructor(limits: KeyLimits, reserved: readonly string[] = []) {
    this.#limits = limits;
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
    const fresh: Fresh = { definitions: new Map(), names: new Map() };
    for (const definition of definitions) {
      const refusal = this.#collect(where, definition, fresh);
      if (refusal !== undefined) throw refusal();
    }
    this.#keep(fresh);
    return definitions.map(({ key }) => this.#ids.get(key)!);
  }

  /**
   * The numbers of several keys, each by itself: one that is refused costs only itself.
   *
   * @returns `refused` in the place of a key that is, and why the first of them is
   */
  claimEach(
    where: string,
    definitions: readonly KeyDefinition[],
    refused: number,
  ): { readonly ids: Int32Array; readonly reason: TensortallyError | undefined } {
    const ids = new Int32Array(definitions.length);
    let reason: TensortallyError | undefined;
    definitions.forEach((definition, i) => {
      const fresh: Fresh = { definitions: new Map(), names: new Map() };
      const refusal = this.#collect(where, definition, fresh);
      if (refusal === undefined) {
        this.#keep(fresh);
        ids[i] = this.#ids.get(definition.key)!;
      } else {
        reason ??= refusal();
        ids[i] = refused;
      }
    });
    return { ids, reason };
  }

  /** Adds a key to `fresh` unless it is known; returns why it cannot be. */
  #collect(where: string, definition: KeyDefinition, { definitions, names }: Fresh): Refusal | undefined {
    const { key, reduction } = definition;
    if (this.idOf(key, reduction) !== undefined) return undefined;
    const fault = definitionFault(where, definition, this.#limits.maxKeyBytes);
    if (fault !== undefined) return fault;
    const id = this.#ids.get(key);
    const known = id === undefined ? definitions.get(key) : this.#definitions[id];
    if (known !== undefined)
      return known.reduction === reduction ? undefined : () => rebound(where, known, reduction);
    const wanted = this.size + definitions.size + 1;
    if (wanted > this.#limits.maxKeys) return () => tooManyKeys(where, wanted, this.#limits.maxKeys);
    const own = exportedNames(key, reduction);
    for (const name of own) {
      const owner = names.get(name) ?? this.#owners.get(name);
      if (owner !== undefined) return () => nameTaken(where, key, name, owner);
    }
    for (const name of own) names.set(name, key);
    definitions.set(key, definition);
    return undefined;
  }

  #keep({ definitions, names }: Fresh): void {
    for (const { key, reduction } of definitions.values()) {
      this.#ids.set(key, this.#definitions.length);
      this.#definitions.push({ key, reduction });
    }
    for (const [name, key] of names) this.#owners.set(name, key);
  }
}

function definitionFault(
  where: string,
  { key, reduction }: KeyDefinition,
  maxKeyBytes: number,
): Refusal | undefined {
  if (typeof key !== 'string' || key === '') return () => noKey(where, key);
  // Characters first: what is far too long is not even looked at.
  const bytes = key.length > maxKeyBytes ? key.length : Buffer.byteLength(key);
  if (bytes > maxKeyBytes) {
    return () =>
      new ValueError({
        where,
        input: `${key.slice(0, 40)}…`,
        expected: `a key of at most ${maxKeyBytes} bytes of UTF-8`,
        received: `${Buffer.byteLength(key)} bytes`,
        remedy: 'keep texts of samples out of keys, or raise maxKeyBytes',
      });
  }
  // A lone surrogate has no UTF-8 form, so two such keys would arrive as one.
  if (/\p{Surrogate}/u.test(key)) return () => noKey(where, key);
  if (!isStreamReduction(reduction)) {
    return () =>
      new ValueError({
        where,
        input: key,
        expected: `one of the reductions ${streamReductions.map((name) => `'${name}'`).join(', ')}`,
        received: kindOf(reduction),
        remedy: "choose one of these; what is counted is a 'counter', what is measured a 'scalar'",
      });
  }
  return undefined;
}

function noKey(where: string, key: unknown): ValueError {
  return new ValueError({
    where,
    input: 'key',
    expected: 'a key that is well-formed text and not empty',
    received: kindOf(key),
    remedy: "name it by its path, e.g. 'rollout/reward'",
  });
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
