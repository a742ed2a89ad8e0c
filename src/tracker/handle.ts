/**
 * The record calls of a tracker at one path. Scopes and checks only; records go to the tracker's ledger.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertFunction } from '../kernels/arguments.js';
import { timingPrefix } from './export.js';
import type { Ledger, StatOptions } from './ledger.js';
import { type Scope, cleanName } from './scope.js';
import { type Clock, Stopwatch, during } from './timing.js';

/** What a tracker and all its handles share. */
export interface Recording {
  readonly ledger: Ledger;
  readonly clock: Clock;
}

/**
 * Records under a path of its tracker.
 *
 * Keys are `path/name`. The path of a handle from `child` is fixed when it is made; `scope` adds to it for everything
 * that runs inside. All calls are atomic: one that throws has recorded nothing.
 */
export class TrackerHandle {
  readonly #recording: Recording;
  readonly #scope: Scope;

  /** @internal handles are made by `child` */
  constructor(recording: Recording, scope: Scope) {
    this.#recording = recording;
    this.#scope = scope;
  }

  /**
   * Runs `fn` with every record made through this handle one level down: in `fn`, in what it awaits and in what it
   * starts, and nowhere else.
   *
   * @param name slashes at its ends are dropped; '' adds no level
   * @returns what `fn` returns, a promise included
   * @throws ValueError if `name` is no text; MissingInputError or ValueError if `fn` is no function
   */
  scope<T>(name: string, fn: () => T): T {
    assertFunction('scope', 'fn', fn);
    return this.#scope.run(name, fn);
  }

  /** Runs `fn` with this handle at the root: its records keep their bare names, without tracker name and scopes. */
  disableScope<T>(fn: () => T): T {
    assertFunction('disableScope', 'fn', fn);
    return this.#scope.runDisabled(fn);
  }

  /**
   * The same record calls bound to a path below the current one; scopes opened elsewhere do not change it.
   *
   * @throws ValueError if `name` is no text
   */
  child(name: string): TrackerHandle {
    return new TrackerHandle(this.#recording, this.#scope.child(name));
  }

  /**
   * Records masks that stats of the same scope are reduced over. Exports, under its own key, how many elements each
   * one has selected.
   *
   * A mask is kept without a copy for as long as values may still pair with it; the caller may dispose it at once.
   *
   * @param masks bool tensors of any shape with at least one element, by name
   * @throws DtypeError, ShapeError, DisposedTensorError for another kind of tensor, an empty or a disposed one;
   *   KeyConflictError for a name that is a stat or scalar already
   */
  denominator(masks: Record<string, Tensor>): void {
    this.#recording.ledger.recordDenominators(this.#scope.path, masks);
  }

  /**
   * Reduces values over the masks they pair with, on the device and now: the caller may dispose them in the next line.
   *
   * The i-th value of a key pairs with the i-th mask of its denominator. All values of one call are reduced in one pass.
   *
   * @param values float32 tensors of the shape of their mask, by name; what the mask leaves out never matters
   * @throws MissingInputError for a denominator that this scope does not have; DtypeError, ShapeError,
   *   DisposedTensorError for unfit values; ValueError for an unknown reduce type; PairingError for more values than
   *   masks; KeyConflictError for a key of another kind, reduce type or denominator; BackendError for tensors that
   *   live apart
   */
  stat(values: Record<string, Tensor>, options: StatOptions): void {
    this.#recording.ledger.recordStats(this.#scope.path, values, options);
  }

  /**
   * Records numbers whose mean over all calls is exported, with `key__count`, the number of calls.
   *
   * @param values numbers by name; NaN and infinities propagate, booleans count as 0 and 1
   * @throws ValueError for anything else; KeyConflictError for a key of another kind
   */
  scalar(values: Record<string, number | boolean>): void {
    this.#recording.ledger.recordScalars(this.#scope.path, values);
  }

  /**
   * Starts a timing that is recorded when it is disposed, in seconds: `using _ = tracker.timing('rollout')`.
   *
   * Exported as the scalar `timeperf/<key>`, whatever the scope and the name of the tracker.
   *
   * @throws KeyConflictError if `timeperf/<key>` is something else already
   */
  timing(key: string): Disposable {
    const { ledger, clock } = this.#recording;
    const name = timingPrefix + cleanName('timing', key, 'key');
    ledger.assertScalars('timing', [name]);
    return new Stopwatch(clock, (seconds) => {
      ledger.recordScalars('', { [name]: seconds });
    });
  }

  /**
   * Times `fn`, also if it throws; for a promise, until it settles.
   *
   * @returns what `fn` returns
   * @throws KeyConflictError as `timing` does, before `fn` runs
   */
  recordTiming<T>(key: string, fn: () => T): T {
    assertFunction('recordTiming', 'fn', fn);
    return during(this.timing(key), fn);
  }
}
