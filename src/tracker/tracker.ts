/**
 * The tracker: named denominators, stats and scalars of one process, reduced when they are recorded and exported as
 * one flat record of numbers.
 */
import { exportLedgers, exportRows, type ExportOptions, type RowsOptions } from './export/export.js';
import { TrackerHandle } from './handle.js';
import type { TrackerMemory } from './memory.js';
import { Ledger } from './records/ledger.js';
import { Scope, cleanName } from './scope.js';
import { type TrackerOptions, settingsOf } from './settings.js';
import type { StreamRow } from './stream/wire/schema.js';

/** The ledger behind a tracker, for exports over several trackers. Not part of the public interface. */
export let ledgerOf: (tracker: StatsTracker) => Ledger;

/**
 * Statistics of a training process by name.
 *
 * Memory grows with the number of keys, not with calls or tokens: a value is reduced on the device when it is
 * recorded, and its mask is let go as soon as nothing can pair with it any more. One record feeds all windows of the
 * tracker, and no export of one takes anything from another.
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
   * @throws ValueError if `name` is no text, or for invalid options
   */
  constructor(name = '', options: TrackerOptions = {}) {
    const settings = settingsOf('StatsTracker', options);
    const root = cleanName('StatsTracker', name);
    const ledger = new Ledger(root, settings);
    super(ledger, new Scope(root));
    this.#ledger = ledger;
  }

  /**
   * Reads everything that a window has recorded so far, in one read-back.
   *
   * What is recorded while it runs belongs to the next export. Averages and extremes of a stat whose masks selected
   * nothing are absent; its sum is 0. NaN propagates unless a rule says otherwise. An export that forgets, of whatever
   * window, ends the masks recorded so far: later values need new ones.
   *
   * @param options `window`: which one, default the first; `key`: this full key only, `{}` if it is unknown;
   *   `reset: false`: look without forgetting; `nonFinite`: instead of the rules of the keys
   * @returns names in sorted order
   * @throws PairingError if a stat has fewer values than its denominator has masks (a warning in parity mode), ValueError
   *   for invalid options or elements that the rule `error` refuses, KeyConflictError for a derived metric that is
   *   recorded too; nothing is exported or forgotten
   * @throws what the device reports, usually BackendError, if it could not deliver reductions that were still on it.
   *   These are lost, since a device that fails a read-back does not give a second one. Everything else is kept: numbers,
   *   and tensor statistics that an earlier export, peek or unasked read-back has brought to the host. Each window that
   *   lost something throws once, then exports what is left
   */
  export(options: ExportOptions = {}): Promise<Record<string, number>> {
    return exportLedgers('export', [this.#ledger], options);
  }

  /**
   * Takes everything recorded so far as rows that merge with those of other trackers: what a rollout worker gives to
   * `StreamEmitter.merge`. One read-back; the record calls, windows and errors are those of `export`.
   *
   * Like `export`, and like `StreamIngest.rows`, it forgets what it returns, so that no record is handed on twice:
   * `reset: false` looks without forgetting.
   *
   * Keys of reduce type `histogram` travel as `avg_min_max`, without their quantiles; keys under the rule `ignore` without
   * the elements that it ignores.
   *
   * @throws as `export`; ValueError for a key of reduce type `last`, of which two trackers cannot tell whose is later
   * @example
   *   emitter.merge(await tracker.rows());
   */
  rows(options: RowsOptions = {}): Promise<StreamRow[]> {
    return exportRows('rows', this.#ledger, options);
  }

  /** What the tracker holds on to now. Costs a walk over its keys. */
  memory(): TrackerMemory {
    return this.#ledger.memory();
  }

  /** Drops everything that is recorded and frees its device memory. The tracker can be used again. */
  dispose(): void {
    this.#ledger.release();
  }
}
