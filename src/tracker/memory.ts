/** What a tracker holds on to, for people who look for growth. */
import type { HeldMask } from './masks/mask-queue.js';
import type { Segment } from './records/entry.js';
import type { Launch } from './records/launch.js';

export interface TrackerMemory {
  /** Keys that are bound: recorded, or waiting in some window. */
  readonly keys: number;
  /** Record calls since the last export that forgot everything. */
  readonly records: number;
  /** Rows on the host that wait for an export of their window. */
  readonly waitingRows: number;
  /** Masks that values may still be reduced over. */
  readonly heldMasks: number;
  /** Passes whose results are still on the device; read unasked when there are a thousand. */
  readonly unreadLaunches: number;
  /** Bytes of the held masks and of the results that were not read; a backend may pad them. */
  readonly deviceBytes: number;
}

/** Adds up what `StatsTracker.memory` reports. */
export function memoryOf(holdings: {
  readonly keys: number;
  readonly records: number;
  readonly masks: readonly HeldMask[];
  readonly unread: readonly Launch[];
  readonly segments: readonly Segment[];
}): TrackerMemory {
  const { keys, records, masks, unread } = holdings;
  const entries = new Set(holdings.segments.flatMap((segment) => [...segment.values()]));
  const maskBytes = masks.map(({ compact }) => compact.bytes);
  return {
    keys,
    records,
    waitingRows: entries.size,
    heldMasks: masks.length,
    unreadLaunches: unread.length,
    deviceBytes: sum(maskBytes) + sum(unread.map(({ unreadBytes }) => unreadBytes)),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
