/**
 * The records of one tracker: the window that record calls write to, and the windows that are being exported.
 *
 * Every record call is atomic: it checks everything, launches, and only then writes. Paths and scopes are resolved by
 * the caller; reading back and turning rows into exported numbers is the business of `export.ts`.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { MissingInputError } from '../errors.js';
import { assertOptions, kindOf } from '../kernels/arguments.js';
import { liftRow, mergeRows, retainTensor } from '../kernels/index.js';
import type { HeldMask } from './denominators.js';
import {
  assertMask,
  assertSameShape,
  assertStatValue,
  assertTensorReduceType,
  namedInputs,
  scalarNumber,
} from './inputs.js';
import { Launch } from './launch.js';
import type { TensorReduceType } from './reduce-type.js';
import { fullKey } from './scope.js';
import { type Binding, type Entry, Window, assertCompatible } from './window.js';

/** What a stat is reduced over, and how. */
export interface StatOptions {
  /** Name of a denominator recorded in the same scope. */
  readonly denominator: string;
  /** Default `avg_min_max`. */
  readonly reduceType?: TensorReduceType;
}

/** Launches on several masks are one call: if one is refused, the others are let go. */
function launchAll(groups: ReadonlyMap<HeldMask, ReadonlyMap<string, Tensor>>): Map<HeldMask, Launch> {
  const launches = new Map<HeldMask, Launch>();
  try {
    for (const [mask, values] of groups) launches.set(mask, new Launch(values, mask.retained.tensor));
  } catch (error) {
    for (const launch of launches.values()) launch.release();
    throw error;
  }
  return launches;
}

export class Ledger {
  #window = new Window();
  readonly #exporting = new Set<Window>();

  /** Records one mask per name; see `StatsTracker.denominator`. */
  recordDenominators(path: string, masks: unknown): void {
    const tensors = new Map<string, Tensor>();
    for (const [name, mask] of namedInputs('denominator', 'masks', masks)) {
      assertMask(name, mask);
      tensors.set(fullKey(path, name), mask);
    }
    this.#assertCompatible('denominator', tensors.keys(), { reduction: 'denominator' });
    for (const [key, tensor] of tensors) {
      this.#window.open(key, { reduction: 'denominator' });
      this.#window.queue(key).push(retainTensor(tensor));
    }
  }

  /** Reduces one value per name over its mask; see `StatsTracker.stat`. */
  recordStats(path: string, values: unknown, options: StatOptions | undefined): void {
    if (options !== undefined) assertOptions('stat', options, { denominator: 'any', reduceType: 'any' });
    const { denominator: name, reduceType = 'avg_min_max' } = options ?? {};
    assertTensorReduceType(reduceType);
    const denominator = this.#knownDenominator(path, name);
    const queue = this.#window.queue(denominator);
    const tensors = new Map<string, Tensor>();
    for (const [key, value] of namedInputs('stat', 'values', values)) {
      assertStatValue(key, value);
      tensors.set(fullKey(path, key), value);
    }
    const binding = { reduction: reduceType, denominator };
    this.#assertCompatible('stat', tensors.keys(), binding);

    const groups = new Map<HeldMask, Map<string, Tensor>>();
    for (const [key, tensor] of tensors) {
      const mask = queue.next(key);
      assertSameShape(key, tensor, denominator, mask.retained.tensor);
      groups.set(mask, (groups.get(mask) ?? new Map<string, Tensor>()).set(key, tensor));
    }
    const launches = launchAll(groups);

    for (const [mask, launch] of launches) {
      const keys = [...groups.get(mask)!.keys()];
      for (const key of keys) {
        this.#window.open(key, binding).parts.push({ launch, key });
        queue.advance(key);
      }
      this.#count(denominator, mask, { launch, key: keys[0]! });
    }
  }

  /** Records one number per name; see `StatsTracker.scalar`. */
  recordScalars(path: string, values: unknown): void {
    const numbers = new Map<string, number>();
    for (const [name, value] of namedInputs('scalar', 'values', values)) {
      numbers.set(fullKey(path, name), scalarNumber(name, value));
    }
    this.assertScalars('scalar', numbers.keys());
    for (const [key, number] of numbers) {
      const entry = this.#window.open(key, { reduction: 'scalar' });
      entry.row = mergeRows(entry.row, liftRow(number));
    }
  }

  /** @throws KeyConflictError if one of `keys` cannot be a scalar now */
  assertScalars(where: string, keys: Iterable<string>): void {
    this.#assertCompatible(where, keys, { reduction: 'scalar' });
  }

  /** What an export of `key`, or of everything, is about; a copy that later records do not change. */
  entries(key?: string): [key: string, entry: Entry][] {
    return [...this.#window.entries]
      .filter(([recorded]) => key === undefined || recorded === key)
      .map(([recorded, entry]) => [recorded, { ...entry, parts: [...entry.parts] }]);
  }

  /**
   * Makes what is recorded under `key`, or everything, ready to be exported: checks that values and masks pair up and
   * counts the masks that no stat has counted.
   *
   * @throws PairingError, with nothing changed
   */
  prepare(key?: string): void {
    this.#window.assertPaired(key);
    for (const [denominator, queue] of this.#window.queues) {
      if (key !== undefined && key !== denominator) continue;
      for (const mask of queue.uncounted()) {
        const { tensor } = mask.retained;
        this.#count(denominator, mask, {
          launch: new Launch(new Map([[denominator, tensor]]), tensor),
          key: denominator,
        });
      }
    }
  }

  /** Moves what is recorded under `key`, or everything, out of the way of new records. */
  take(key?: string): Window {
    const taken = key === undefined ? this.#window : this.#window.split(key);
    if (key === undefined) this.#window = new Window();
    this.#exporting.add(taken);
    return taken;
  }

  /** The taken window is exported. */
  settle(taken: Window): void {
    if (this.#exporting.delete(taken)) taken.releaseMasks();
  }

  /** The taken window could not be exported: its records join those made since, as if it had not been taken. */
  restore(taken: Window): void {
    if (this.#exporting.delete(taken)) this.#window.prepend(taken);
  }

  /** Drops every record; an export that is running still gets what it took. */
  release(): void {
    this.#window.release();
    this.#window = new Window();
    for (const taken of this.#exporting) taken.releaseMasks();
    this.#exporting.clear();
  }

  /** Books the selected elements of a mask under its denominator, once, from a launch that has the mask. */
  #count(denominator: string, mask: HeldMask, part: { launch: Launch; key: string }): void {
    if (mask.counted) return;
    mask.counted = true;
    this.#window.open(denominator, { reduction: 'denominator' }).parts.push(part);
  }

  /** Records must agree with those being exported too, so that a failed export can always be put back. */
  #assertCompatible(where: string, keys: Iterable<string>, binding: Binding): void {
    const bindings = new Map<string, Binding>();
    for (const key of keys) bindings.set(key, binding);
    assertCompatible(where, bindings, [this.#window, ...this.#exporting]);
  }

  /** The full key of the denominator `name` of the scope `path`. */
  #knownDenominator(path: string, name: unknown): string {
    const key = typeof name === 'string' ? fullKey(path, name) : undefined;
    if (key !== undefined && this.#window.queues.has(key)) return key;
    const known = [...this.#window.queues.keys()].map((recorded) => `'${recorded}'`);
    throw new MissingInputError({
      where: 'stat',
      input: 'denominator',
      expected: `the name of a denominator recorded in scope '${path}'`,
      received: `${key === undefined ? kindOf(name) : `'${key}'`}, while ${known.length > 0 ? known.join(', ') : 'no key'} is known`,
      remedy: 'record the mask with denominator() in the same scope first',
    });
  }
}
