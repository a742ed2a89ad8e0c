/**
 * The trackers of a process by name, and the record calls of the default one.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertOptions } from '../arguments.js';
import { processWide } from '../process-wide.js';
import { byName } from './export/export-record.js';
import { type ExportOptions, exportLedgers } from './export/export.js';
import type { DenominatorHandle } from './masks/denominator-handle.js';
import { cleanName } from './scope.js';
import { type TrackerOptions, settingsOf } from './settings.js';
import { StatsTracker, ledgerOf } from './tracker.js';

/** What an export of several trackers can be told: all but the key, which belongs to one. */
export type ExportAllOptions = Omit<ExportOptions, 'key'>;

/** Named trackers that are exported together. */
export class TrackerRegistry {
  readonly #options: TrackerOptions;
  readonly #trackers = new Map<string, StatsTracker>();

  /**
   * @param options for every tracker it makes
   * @throws ValueError for invalid options
   */
  constructor(options: TrackerOptions = {}) {
    settingsOf('TrackerRegistry', options);
    this.#options = options;
  }

  /**
   * The tracker called `name`, made on first use; '' is the default one, whose keys have no first level.
   *
   * @throws ValueError if `name` is no text
   */
  get(name: string): StatsTracker {
    const clean = cleanName('TrackerRegistry.get', name);
    let tracker = this.#trackers.get(clean);
    if (tracker === undefined) this.#trackers.set(clean, (tracker = new StatsTracker(clean, this.#options)));
    return tracker;
  }

  /**
   * Exports all trackers as one record, in one read-back. A timing that several have is one timing.
   *
   * @throws KeyConflictError if two trackers export the same name for anything but a timing (in parity mode the later by
   *   name wins), PairingError and ValueError as `StatsTracker.export`; nothing is exported or forgotten then
   */
  async exportAll(options: ExportAllOptions = {}): Promise<Record<string, number>> {
    assertOptions('exportAll', options, { reset: 'boolean', window: 'string', nonFinite: 'any' });
    const inOrder = [...this.#trackers].sort(byName);
    const ledgers = inOrder.map(([, tracker]) => ledgerOf(tracker));
    const { reset, window, nonFinite } = options;
    return exportLedgers('exportAll', ledgers, { reset, window, nonFinite });
  }
}

/** One per process, whichever copy of the package asks: its trackers are exported together. */
const registry = processWide('trackers', 1, () => new TrackerRegistry());

/** The tracker of this process called `name`, made on first use; see `TrackerRegistry.get`. */
export function getTracker(name = ''): StatsTracker {
  return registry.get(cleanName('getTracker', name));
}

/** Exports all trackers of this process; see `TrackerRegistry.exportAll`. */
export function exportAll(options: ExportAllOptions = {}): Promise<Record<string, number>> {
  return registry.exportAll(options);
}

/** `StatsTracker.denominator` of the default tracker. */
export function denominator(name: string, mask: Tensor): DenominatorHandle;
export function denominator(masks: Record<string, Tensor>): void;
export function denominator(
  ...args: [name: string, mask: Tensor] | [masks: Record<string, Tensor>]
): DenominatorHandle | undefined {
  const tracker = getTracker();
  if (args.length === 2) return tracker.denominator(...args);
  tracker.denominator(...args);
  return undefined;
}

/** `StatsTracker.stat` of the default tracker. */
export const stat: StatsTracker['stat'] = (values, options) => {
  getTracker().stat(values, options);
};

/** `StatsTracker.scalar` of the default tracker. */
export const scalar: StatsTracker['scalar'] = (values, options) => {
  getTracker().scalar(values, options);
};

/** `StatsTracker.counter` of the default tracker. */
export const counter: StatsTracker['counter'] = (values) => {
  getTracker().counter(values);
};

/** `StatsTracker.scope` of the default tracker. */
export const scope: StatsTracker['scope'] = (name, fn) => getTracker().scope(name, fn);

/** `StatsTracker.disableScope` of the default tracker. */
export const disableScope: StatsTracker['disableScope'] = (fn) => getTracker().disableScope(fn);

/** `StatsTracker.child` of the default tracker. */
export const child: StatsTracker['child'] = (name) => getTracker().child(name);

/** `StatsTracker.timing` of the default tracker. */
export const timing: StatsTracker['timing'] = (key) => getTracker().timing(key);

/** `StatsTracker.recordTiming` of the default tracker. */
export const recordTiming: StatsTracker['recordTiming'] = (key, fn) => getTracker().recordTiming(key, fn);
