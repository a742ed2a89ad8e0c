/**
 * The tracker: named denominators, stats and scalars of one process, reduced when they are recorded and exported as
 * one flat record of numbers.
 */
import { assertOptions } from '../kernels/arguments.js';
import { exportLedgers, type ExportOptions } from './export.js';
import { TrackerHandle } from './handle.js';
import { Ledger } from './ledger.js';
import { Scope, cleanName } from './scope.js';
import { type Clock, monotonicClock } from './timing.js';

export interface TrackerOptions {
  /** Monotonic seconds, for timings; default `performance.now() / 1000`. */
  readonly clock?: Clock;
}

/** @throws ValueError for what are no options of a tracker */
export function assertTrackerOptions(where: string, options: TrackerOptions): void {
  assertOptions(where, options, { clock: 'function' });
}

/** The ledger behind a tracker, for exports over several trackers. Not part of the public interface. */
export let ledgerOf: (tracker: StatsTracker) => Ledger;

/**
 * Statistics of a training process by name.
 *
 * Memory grows with the number of keys and calls, not with tokens: a value is reduced on the device when it is
 * recorded, and its mask is let go as soon as nothing can pair with it any more.
 *
 * @example
 *   const tracker = new StatsTracker();
 *   tracker.scope('ppo_actor', () => {
 *     tracker.denominator({ n_valid_tokens: mask });
 *     tracker.stat({ advantages, kl_rewards }, { denominator: 'n_valid_tokens' });
 *   });
 *   const metrics = await tracker.export(); // { 'ppo_actor/advantages/avg': …, 'ppo_actor/n_valid_tokens': … }
 */
export class StatsTracker extends TrackerHandle {
  readonly #ledger: Ledger;

  static {
    ledgerOf = (tracker) => tracker.#ledger;
  }

  /**
   * @param name first level of every key but timings; '' for none
   * @throws ValueError if `name` is no text, or for options that are none
   */
  constructor(name = '', options: TrackerOptions = {}) {
    assertTrackerOptions('StatsTracker', options);
    const { clock = monotonicClock } = options;
    const ledger = new Ledger();
    super({ ledger, clock }, new Scope(cleanName('StatsTracker', name)));
    this.#ledger = ledger;
  }

  /**
   * Reads everything recorded so far in one read-back.
   *
   * What is recorded while it runs belongs to the next export. Averages and extremes of a stat whose masks selected
   * nothing are absent; its sum is 0. NaN propagates.
   *
   * @param options `key`: this full key only, `{}` if it is unknown; `reset: false`: look without forgetting
   * @returns names in sorted order
   * @throws PairingError if a stat has fewer values than its denominator has masks; nothing is exported or forgotten
   * @throws what the device reports if reading fails; all records are kept
   */
  export(options: ExportOptions = {}): Promise<Record<string, number>> {
    return exportLedgers('export', [this.#ledger], options);
  }

  /** Drops everything that is recorded and frees its device memory. The tracker can be used again. */
  dispose(): void {
    this.#ledger.release();
  }
}
