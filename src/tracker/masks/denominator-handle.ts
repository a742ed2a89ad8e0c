/**
 * A handle to one mask: values recorded through it are reduced over exactly this mask, in whatever scope they are.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import type { Ledger } from '../records/ledger.js';
import type { StatReduction } from '../records/stat-call.js';
import type { Scope } from '../scope.js';
import type { BoundMask } from './mask-queue.js';

/**
 * One mask of a denominator; made by `denominator(name, mask)`.
 *
 * Stats recorded by name never see its mask, nor do its stats see theirs; the denominator counts both. The mask is kept,
 * in a compact form, until the handle is disposed or an export forgets its denominator. After that `stat` throws
 * ReleasedError: what it would record has lost its denominator. Dispose handles that you make many of between exports:
 * `using valid = tracker.denominator('n_valid_tokens', mask)`.
 */
export class DenominatorHandle implements Disposable {
  readonly #ledger: Ledger;
  readonly #scope: Scope;
  readonly #mask: BoundMask;

  /** @internal handles are made by `denominator` */
  constructor(ledger: Ledger, scope: Scope, mask: BoundMask) {
    this.#ledger = ledger;
    this.#scope = scope;
    this.#mask = mask;
  }

  /** Full key of the denominator. */
  get denominator(): string {
    return this.#mask.denominator;
  }

  /**
   * Reduces values over the mask, on the device and now: the caller may dispose them in the next line. All values of one
   * call are reduced in one pass.
   *
   * Keys get the path that is current here and now, not the one where the handle was made.
   *
   * @param values float32 tensors of the shape of the mask, by name; what the mask leaves out never matters
   * @throws ReleasedError once the mask is gone; PairingError for a key that the handle had already; DtypeError,
   *   ShapeError, DisposedTensorError for unfit values; ValueError for an unknown reduce type; KeyConflictError for a key
   *   of another kind, reduce type or denominator; BackendError for tensors that live apart
   */
  stat(values: Record<string, Tensor>, options?: StatReduction): void {
    this.#ledger.recordBoundStats(this.#scope.path, values, options, this.#mask);
  }

  /** Lets the mask go; what it selects stays counted, and what was recorded stays recorded. */
  [Symbol.dispose](): void {
    this.#ledger.unbindMask(this.#mask);
  }
}
