/**
 * The record calls of a tracker at one path. Scopes and checks only; records go to the tracker's ledger.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertFunction } from '../arguments.js';
import { recognizeAcrossCopies } from '../process-wide.js';
import { timingPrefix } from './export/export.js';
import { DenominatorHandle } from './masks/denominator-handle.js';
import type { Ledger } from './records/ledger.js';
import type { ScalarOptions } from './records/numbers.js';
import type { StatOptions } from './records/stat-call.js';
import { type Scope, assertText, cleanName } from './scope.js';
import { Stopwatch, during } from './timing.js';

/**
 * Records under a path of its tracker.
 *
 * Keys are `path/name`. The path of a handle from `child` is fixed when it is made; `scope` adds to it for everything
 * that runs inside. All calls are atomic: one that throws has recorded nothing.
 */
export class TrackerHandle {
  readonly #ledger: Ledger;
  readonly #scope: Scope;

  static {
    recognizeAcrossCopies(this, 'tracker-handle', 1);
  }

  /** @internal handles are made by `child` */
  constructor(ledger: Ledger, scope: Scope) {
    this.#ledger = ledger;
    this.#scope = scope;
  }

  /**
   * Runs `fn` with every record made through this handle one level down: in `fn`, in what it awaits and in what it
   * starts, and nowhere else.
   *
   * @param name slashes at its ends are dropped; '' adds no level
   * @returns what `fn` returns, a promise included. Another thenable, which may begin its work only when it is awaited,
   *   begins it in the scope: a promise of it is returned
   * @throws ValueError if `name` is no text, or too long with the scopes around it; MissingInputError or ValueError if `fn` is no function
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
    return new TrackerHandle(this.#ledger, this.#scope.child(name));
  }

  /**
   * Records masks that stats are reduced over. Exports, under their own keys, how many elements they have selected.
   *
   * With a name and a mask, values reach the mask through the handle that is returned, and only so: from any scope, in
   * any order. With a record of masks, stats of the same scope find them by name, first come first served. A denominator
   * may have masks of both kinds.
   *
   * Masks are kept in a compact form for as long as values may still use them; the caller may dispose them at once.
   *
   * @param mask a bool tensor of any shape with at least one element
   * @throws DtypeError, ShapeError, DisposedTensorError for another kind of tensor, an empty or a disposed one;
   *   KeyConflictError for a name that is a stat or scalar already; ValueError for an empty name
   * @example
   *   using valid = tracker.denominator('n_valid_tokens', mask);
   *   tracker.scope('update', () => valid.stat({ loss, kl })); // 'update/loss/avg', over 'n_valid_tokens'
   */
  denominator(name: string, mask: Tensor): DenominatorHandle;
  /**
   * Records masks that stats of the same scope find by name, first come first served.
   *
   * @param masks bool tensors of any shape with at least one element, by name
   * @throws as with a name and a mask
   * @example
   *   tracker.denominator({ n_valid_tokens: mask });
   *   tracker.stat({ loss }, { denominator: 'n_valid_tokens' });
   */
  denominator(masks: Record<string, Tensor>): void;
  denominator(masks: string | Record<string, Tensor>, mask?: Tensor): DenominatorHandle | undefined {
    const { path } = this.#scope;
    if (mask === undefined && typeof masks !== 'string') {
      this.#ledger.recordDenominators(path, masks);
      return undefined;
    }
    assertText('denominator', 'name', masks);
    return new DenominatorHandle(this.#ledger, this.#scope, this.#ledger.bindMask(path, masks, mask));
  }

  /**
   * Reduces values over the masks they pair with, on the device and now: the caller may dispose them in the next line.
   *
   * The i-th value of a key pairs with the i-th mask that was recorded by name of its denominator. All values of one call
   * that pair with one mask are reduced in one pass.
   *
   * @param values float32 tensors of the shape of their mask, by name; what the mask leaves out never matters
   * @throws MissingInputError for a denominator that this scope does not have; DtypeError, ShapeError,
   *   DisposedTensorError for unfit values; ValueError for an unknown reduce type; PairingError for more values than
   *   masks (a warning in parity mode); KeyConflictError for a key of another kind, reduce type or denominator;
   *   BackendError for tensors that live apart
   */
  stat(values: Record<string, Tensor>, options: StatOptions): void {
    this.#ledger.recordStats(this.#scope.path, values, options);
  }

  /**
   * Records numbers. By default their mean over all calls is exported, with `key__count`, the number of calls.
   *
   * @param values numbers by name; NaN and infinities propagate, booleans count as 0 and 1
   * @param options `reduceType`: `sum`, `min`, `max` or `last` instead, exported as `key`; `weight`: how many samples the
   *   numbers of this call stand for in the mean; `nonFinite`: the rule of the keys, see `TrackerOptions`
   * @throws ValueError for anything else; KeyConflictError for a key of another kind, reduce type or rule
   */
  scalar(values: Record<string, number | boolean>, options?: ScalarOptions): void {
    this.#ledger.numbers.scalar(this.#scope.path, values, options);
  }

  /**
   * Counts: adds numbers to totals that are exported as `key`, exact up to 2^53.
   *
   * @param values finite numbers of at least 0 by name; true counts as 1
   * @throws ValueError for anything else; KeyConflictError for a key of another kind
   * @example
   *   tracker.counter({ accepted: true, tokens: 512 });
   */
  counter(values: Record<string, number | boolean>): void {
    this.#ledger.numbers.counter(this.#scope.path, values);
  }

  /**
   * Starts a timing that is recorded when it is disposed, in seconds: `using _ = tracker.timing('rollout')`.
   *
   * Exported as the scalar `timeperf/<key>`, whatever the scope and the name of the tracker.
   *
   * Disposing it never throws, so that an error of the block shows: if `timeperf/<key>` has become something else
   * meanwhile, the duration is dropped with a warning.
   *
   * @throws KeyConflictError if `timeperf/<key>` is something else already; ValueError for a key that is too long or
   *   no text
   */
  timing(key: string): Disposable {
    return this.#timing('timing', key);
  }

  #timing(where: string, key: string): Disposable {
    const { numbers, settings } = this.#ledger;
    const name = timingPrefix + cleanName(where, key, 'key');
    numbers.assertScalars(where, [name]);
    return new Stopwatch(
      settings.clock,
      (seconds) => {
        numbers.scalar('', { [name]: seconds });
      },
      (error) => {
        this.#ledger.noteTimingLost(name, error);
      },
    );
  }

  /**
   * Times `fn`, also if it throws; for a promise or another thenable, until it settles.
   *
   * @returns what `fn` returns, a promise in place of another thenable. Nothing of the timing ever replaces what `fn`
   *   returns or throws
   * @throws KeyConflictError as `timing` does, before `fn` runs
   */
  recordTiming<T>(key: string, fn: () => T): T {
    assertFunction('recordTiming', 'fn', fn);
    return during(this.#timing('recordTiming', key), fn);
  }
}
