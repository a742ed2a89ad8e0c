/**
 * Records of plain numbers: scalars and counters.
 *
 * Rollout workers record these by the million, so a call with known keys makes nothing: no key is joined, no map or
 * row is built. Everything else, refusals included, takes the careful way below.
 */
import { assertOptions } from '../kernels/arguments.js';
import type { Binding, Slot } from './entry.js';
import {
  assertNonFiniteRule,
  assertScalarReduceType,
  assertWeight,
  countedNumber,
  isCount,
  namedInputs,
  scalarNumber,
} from './inputs.js';
import type { KeyBook } from './key-book.js';
import type { NonFiniteRule, ScalarReduceType } from './reduce-type.js';
import { fullKey } from './scope.js';

/** How numbers are reduced. */
export interface ScalarOptions {
  /** Default `scalar`: the mean, with `key__count`. */
  readonly reduceType?: ScalarReduceType;
  /**
   * For the mean only: how many samples each number of the call stands for; default 1. `key__count` is the sum of the
   * weights then.
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
      this.#record('scalar', path, values, SCALAR, 1);
      return;
    }
    assertOptions('scalar', options, { reduceType: 'any', weight: 'any', nonFinite: 'any' });
    const { reduceType = 'scalar', weight, nonFinite } = options;
    assertScalarReduceType(reduceType);
    if (weight !== undefined) assertWeight(weight, reduceType);
    if (nonFinite !== undefined) assertNonFiniteRule('scalar', 'nonFinite', nonFinite);
    this.#record('scalar', path, values, { reduction: reduceType, nonFinite }, weight ?? 1);
  }

  /** Adds to one counter per name; see `StatsTracker.counter`. */
  counter(path: string, values: unknown): void {
    if (!this.#addKnown(path, values, COUNTER)) this.#record('counter', path, values, COUNTER, 1);
  }

  /** @throws KeyConflictError if one of `keys` cannot be a scalar now */
  assertScalars(where: string, keys: Iterable<string>): void {
    this.#book.assertCompatible(where, keys, SCALAR);
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
        if (slot?.isLive !== true || slot.binding.reduction !== reduction) return false;
        const number = values[name];
        if (typeof number !== 'number' || (reduction === 'counter' && !isCount(number))) return false;
        this.#slots[found] = slot;
        this.#numbers[found++] = number;
      }
    } finally {
      this.#isCollecting = false;
    }
    if (found === 0) return false;
    for (let i = 0; i < found; i++) this.#slots[i]!.addNumber(this.#numbers[i]!);
    this.#onRecord();
    return true;
  }

  #record(
    where: 'scalar' | 'counter',
    path: string,
    values: unknown,
    binding: Binding,
    weight: number,
  ): void {
    const named = namedInputs(where, 'values', values).map(([name, value]): [string, number] => [
      name,
      where === 'counter' ? countedNumber(name, value) : scalarNumber(where, name, value),
    ]);
    const keys = named.map(([name]) => fullKey(path, name));
    this.#book.assertCompatible(where, keys, binding);
    for (const [name, number] of named) add(this.#book.open(path, name, binding), number, weight);
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
