/**
 * The trackers of a process by name, and the record calls of the default one.
 */
import { assertOptions } from '../kernels/arguments.js';
import { type ExportOptions, exportLedgers } from './export.js';
import { cleanName } from './scope.js';
import { StatsTracker, type TrackerOptions, assertTrackerOptions, ledgerOf } from './tracker.js';

/** Named trackers that are exported together. */
export class TrackerRegistry {
  readonly #options: TrackerOptions;
  readonly #trackers = new Map<string, StatsTracker>();

  /**
   * @param options for every tracker it makes
   * @throws ValueError for options that are none
   */
  constructor(options: TrackerOptions = {}) {
    assertTrackerOptions('TrackerRegistry', options);
    this.#options = options;
  }

  /**
   * The tracker called `name`, made on first use; '' is the default one, whose keys have no first level.
   *
   * @throws ValueError if `name` is no text
   */
  get(name: string): StatsTracker {
    const clean = cleanName('getTracker', name);
    let tracker = this.#trackers.get(clean);
    if (tracker === undefined) this.#trackers.set(clean, (tracker = new StatsTracker(clean, this.#options)));
    return tracker;
  }

  /**
   * Exports all trackers as one record, in one read-back. A timing that several have is one timing.
   *
   * @throws KeyConflictError if two trackers export the same name for anything but a timing, PairingError as
   *   `StatsTracker.export`; nothing is exported or forgotten then
   */
  async exportAll(options: Pick<ExportOptions, 'reset'> = {}): Promise<Record<string, number>> {
    assertOptions('exportAll', options, { reset: 'boolean' });
    const ledgers = [...this.#trackers.values()].map(ledgerOf);
    return exportLedgers('exportAll', ledgers, { reset: options.reset });
  }
}

const registry = new TrackerRegistry();

/** The tracker of this process called `name`, made on first use; see `TrackerRegistry.get`. */
export function getTracker(name = ''): StatsTracker {
  return registry.get(name);
}

/** Exports all trackers of this process; see `TrackerRegistry.exportAll`. */
export function exportAll(options: Pick<ExportOptions, 'reset'> = {}): Promise<Record<string, number>> {
  return registry.exportAll(options);
}

/** `StatsTracker.denominator` of the default tracker. */
export const denominator: StatsTracker['denominator'] = (masks) => {
  getTracker().denominator(masks);
};

/** `StatsTracker.stat` of the default tracker. */
export const stat: StatsTracker['stat'] = (values, options) => {
  getTracker().stat(values, options);
};

/** `StatsTracker.scalar` of the default tracker. */
export const scalar: StatsTracker['scalar'] = (values) => {
  getTracker().scalar(values);
};

/** `StatsTracker.scope` of the default tracker. */
export const scope: StatsTracker['scope'] = (name, fn) => getTracker().scope(name, fn);

/** `StatsTracker.timing` of the default tracker. */
export const timing: StatsTracker['timing'] = (key) => getTracker().timing(key);

/** `StatsTracker.recordTiming` of the default tracker. */
export const recordTiming: StatsTracker['recordTiming'] = (key, fn) => getTracker().recordTiming(key, fn);
