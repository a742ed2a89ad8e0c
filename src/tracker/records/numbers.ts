/**
 * Records of plain numbers: scalars and counters.
 *
 * Rollout workers record these by the million, so a call with known keys makes nothing: no key is joined, no map or
 * row is built. Everything else, refusals included, takes the careful way below.
 */
import { assertOptions } from '../../arguments.js';
import type { Binding, Slot } from './entry.js';
import {
  assertNamesKnown,
  assertNonFiniteRule,
  assertScalarReduceType,
  assertWeight,
  countedNumber,
  canBeCounted,
  namedInputs,
  reduceTypesByName,
  scalarNumber,
} from './inputs.js';
import type { Claim, KeyBook } from './key-book.js';
import type { NonFiniteRule, ScalarReduceType } from './reduce-type.js';

/** How numbers are reduced. */
export interface ScalarOptions {
  /** One for all numbers of the call, or by name; default `scalar`: the mean, with `key__count`. */
  readonly reduceType?: ScalarReduceType | Readonly<Record<string, ScalarReduceType>>;
  /**
   * For the mean only: how many samples each number of the call stands for, from 0 to 2^900; default 1. `key__count` is
   * the sum of the weights then, which is always finite.
   */
  readonly weight?: number;
  /** See `TrackerOptions.nonFinite`; left out, what the key has, else what the tracker has. */
  readonly nonFinite?: NonFiniteRule;
}

const SCALAR: Binding = { reduction: 'scalar' };
const COUNTER: Binding = { reduction: 'counter' };

export class NumberRecords {
  readonly #book: KeyBook;
  readonly #onRecord: () => void;
  /** What a call is about, once all of it is known to be fine. */
  readonly #slots: Slot[] = [];
  readonly #numbers: number[] = [];
  #isCollecting = false;

  /** @param onRecord called after every call that has recorded */
  constructor(book: KeyBook, onRecord: () => void) {
    this.#book = book;
    this.#onRecord = onRecord;
  }

  /** Records one number per name; see `StatsTracker.scalar`. */
  scalar(path: string, values: unknown, options?: ScalarOptions): void {
    if (options === undefined) {
      if (this.#addKnown(path, values, SCALAR)) return;
      this.#record('scalar', path, values, () => SCALAR);
      return;
    }
    assertOptions('scalar', options, { reduceType: 'any', weight: 'any', nonFinite: 'any' });
    const { reduceType, weight, nonFinite } = options;
    if (nonFinite !== undefined) assertNonFiniteRule('scalar', 'nonFinite', nonFinite);
    const typeOf = reduceTypesByName(reduceType, 'scalar', assertScalarReduceType);
    const bindingOf = (name: string): Binding => {
      const reduction = typeOf(name);
      if (weight !== undefined) assertWeight(weight, reduction);
      return { reduction, nonFinite };
    };
    this.#record('scalar', path, values, bindingOf, options);
  }

  /** Adds to one counter per name; see `StatsTracker.counter`. */
  counter(path: string, values: unknown): void {
    if (!this.#addKnown(path, values, COUNTER)) this.#record('counter', path, values, () => COUNTER);
  }

  /** @throws KeyConflictError if one of `keys` cannot be a scalar now */
  assertScalars(where: string, keys: Iterable<string>): void {
    this.#book.assertCompatible(
      where,
      [...keys].map((key) => ({ key, binding: SCALAR })),
    );
  }

  /** The common case: numbers under keys that are what they should be. Says whether this was one. */
  #addKnown(path: string, values: unknown, { reduction }: Binding): boolean {
    const table = this.#book.tableOf(path);
    // Busy: a getter among the values records itself.
    if (table === undefined || this.#isCollecting || !isPlain(values)) return false;
    let found = 0;
    this.#isCollecting = true;
    try {
      for (const name in values) {
        const slot = table.get(name);
        if (slot?.binding.reduction !== reduction) return false;
        const number = values[name];
        if (typeof number !== 'number' || (reduction === 'counter' && !canBeCounted(number))) return false;
        this.#slots[found] = slot;
        this.#numbers[found++] = number;
      }
    } finally {
      this.#isCollecting = false;
    }
    // A getter among the values may even have dropped the records, and the keys with them.
    if (found === 0 || this.#book.tableOf(path) !== table) return false;
    for (let i = 0; i < found; i++) this.#slots[i]!.addNumber(this.#numbers[i]!);
    this.#onRecord();
    return true;
  }

  #record(
    where: 'scalar' | 'counter',
    path: string,
    values: unknown,
    bindingOf: (name: string) => Binding,
    { reduceType, weight = 1 }: ScalarOptions = {},
  ): void {
    const records = new Map<string, Claim & { readonly number: number }>();
    for (const [name, value] of namedInputs(where, 'values', values)) {
      const number = where === 'counter' ? countedNumber(name, value) : scalarNumber(where, name, value);
      records.set(name, { key: this.#book.keyOf(path, name), number, binding: bindingOf(name) });
    }
    assertNamesKnown(where, 'reduceType', reduceType, records);
    this.#book.assertCompatible(where, records.values());
    for (const [name, record] of records) add(this.#book.open(path, name, record), record.number, weight);
    this.#onRecord();
  }
}

/** An object as written in a call; what else has names may have them from anywhere. */
function isPlain(values: unknown): values is Readonly<Record<string, unknown>> {
  return typeof values === 'object' && values !== null && Object.getPrototypeOf(values) === Object.prototype;
}

function add(slot: Slot, number: number, weight: number): void {
  if (weight === 1) slot.addNumber(number);
  else slot.addWeighted(number, weight);
}
