/**
 * The schemas that a controller remembers: a bounded number, those that were not used for longest forgotten first. A
 * worker whose schema was forgotten is asked for it again.
 */
import type { TensortallyError } from '../../../errors.js';

/** A schema as one stream sees it. */
export interface KnownSchema {
  /** Key numbers in the order of the schema; `REFUSED` for a key that is not of this stream. */
  readonly ids: Int32Array;
  /** Why the first of those is not; one reason for all of them, since there may be 65535. */
  readonly reason: TensortallyError | undefined;
}

/** The number of a key that is not of this stream. */
export const REFUSED = -1;

/** Keys of all remembered schemas together: 16 MiB of numbers. */
const MOST_ENTRIES = 2 ** 22;

export class KnownSchemas {
  readonly #maxSchemas: number;
  /** By fingerprint, least recently used first. */
  readonly #schemas = new Map<number, KnownSchema>();
  /** The last in that order: nothing is to be done when it is used again. */
  #latest: number | undefined;
  #entries = 0;
  #forgotten = 0;

  constructor(maxSchemas: number) {
    this.#maxSchemas = maxSchemas;
  }

  has(fingerprint: number): boolean {
    return this.#schemas.has(fingerprint);
  }

  get(fingerprint: number): KnownSchema | undefined {
    const schema = this.#schemas.get(fingerprint);
    if (schema === undefined || fingerprint === this.#latest) return schema;
    this.#latest = fingerprint;
    this.#schemas.delete(fingerprint);
    this.#schemas.set(fingerprint, schema);
    return schema;
  }

  add(fingerprint: number, schema: KnownSchema): void {
    this.#schemas.set(fingerprint, schema);
    this.#latest = fingerprint;
    this.#entries += schema.ids.length;
    for (const [oldest, { ids }] of this.#schemas) {
      const isFull = this.#schemas.size > this.#maxSchemas || this.#entries > MOST_ENTRIES;
      if (!isFull || oldest === fingerprint) break;
      this.#schemas.delete(oldest);
      this.#entries -= ids.length;
      this.#forgotten++;
    }
  }

  /** Schemas that were forgotten since `startPeriod`. */
  get forgotten(): number {
    return this.#forgotten;
  }

  startPeriod(): void {
    this.#forgotten = 0;
  }
}
