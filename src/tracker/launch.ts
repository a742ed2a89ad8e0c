/**
 * Rows that were reduced on the device when they were recorded and have not come to the host yet.
 *
 * The only file of the tracker that starts kernels and reads their results. What a launch brings back are plain
 * moments rows; what they mean is the business of whoever recorded them.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { type MomentsRow, MomentsTable, Pending, emptyRow, momentsTables } from '../kernels/index.js';

/** One fused pass over values that share a mask. */
export class Launch {
  /** Let go once it was read: it holds on to whatever its kernel needed. */
  #pending: Pending<Record<string, MomentsTable>> | undefined;
  #rows: Map<string, MomentsRow> | undefined;
  readonly #keys: number;

  /**
   * Starts the pass; the tensors may be disposed as soon as this returns.
   *
   * @param values float32 or bool tensors by key, all of the shape of `mask`
   * @throws what `momentsTables` refuses with, e.g. BackendError for tensors on two backends
   */
  constructor(values: ReadonlyMap<string, Tensor>, mask: Tensor) {
    const pending = momentsTables(Object.fromEntries(values), mask);
    const { refusal } = pending;
    if (refusal !== undefined) throw refusal;
    this.#pending = pending;
    this.#keys = values.size;
  }

  /** Whether its rows are on the host. */
  get isRead(): boolean {
    return this.#rows !== undefined;
  }

  /** What its rows are worth in bytes, until they are read; a backend may spend more on them. */
  get unreadBytes(): number {
    return this.isRead ? 0 : this.#keys * MomentsTable.WIDTH * Float64Array.BYTES_PER_ELEMENT;
  }

  /** The row of `key`, once it was read; empty if the device could not deliver it. */
  row(key: string): MomentsRow {
    return this.#rows!.get(key) ?? emptyRow;
  }

  /**
   * Brings the rows of all launches to the host in one read-back.
   *
   * @throws what the device reports. Rows that it could not deliver are gone then, and count as empty from now on; all
   *   others are kept.
   */
  static async read(launches: Iterable<Launch>): Promise<void> {
    const unread = [...new Set(launches)].filter((launch) => !launch.isRead);
    const pendings = unread.map((launch) => launch.#pending!);
    try {
      // An array, not arguments: a tracker that is exported seldom has more launches than a call has room for.
      const all = Pending.all<readonly Record<string, MomentsTable>[]>(pendings);
      // Begun now: `await` alone would begin it after whatever the caller does next, dispose() included.
      const read = await all.then();
      read.forEach((tables, i) => {
        unread[i]!.#keep(tables);
      });
    } catch (error) {
      await Promise.all(
        unread.map((launch, i) =>
          pendings[i]!.then(
            (tables) => {
              launch.#keep(tables);
            },
            () => {
              launch.#keep({});
            },
          ),
        ),
      );
      throw error;
    }
  }

  /** The first who reads decides: an export may ask for what is being read already. */
  #keep(tables: Readonly<Record<string, MomentsTable>>): void {
    this.#rows ??= new Map(Object.entries(tables).map(([key, table]) => [key, table.total()]));
    this.#pending = undefined;
  }

  /** Frees the device memory of rows that nobody will read. */
  release(): void {
    this.#pending?.release();
  }
}

/** One row of a launch. */
export interface Part {
  readonly launch: Launch;
  readonly key: string;
}

/**
 * Launches whose rows nobody has asked for yet. When there are too many, they are read without being asked, so that a
 * tracker that is exported seldom, or never, does not fill the device.
 */
export class UnreadLaunches {
  /** Far more than one step records, so that a step still costs one read-back; a megabyte or so on a device. */
  static readonly LIMIT = 1024;
  #launches: Launch[] = [];
  /** Those that are being read, until they are. */
  #reading: readonly Launch[] = [];
  readonly #onRead: () => void;
  #fault: { readonly error: unknown } | undefined;
  /** Changes with `clear`: what fails for what is gone is nobody's business. */
  #era = {};

  /** @param onRead called when launches were read that nobody asked for */
  constructor(onRead: () => void) {
    this.#onRead = onRead;
  }

  /** Launches whose rows are not on the host. */
  get unread(): readonly Launch[] {
    return [...this.#reading, ...this.#launches].filter((launch) => !launch.isRead);
  }

  add(launch: Launch): void {
    this.#launches.push(launch);
    if (this.#launches.length < UnreadLaunches.LIMIT) return;
    this.prune();
    // Those that an export has read meanwhile leave room without a read-back.
    if (this.#launches.length < UnreadLaunches.LIMIT / 2) return;
    const launches = this.#launches;
    this.#launches = [];
    void this.#read(launches);
  }

  /** Forgets those that were read. */
  prune(): void {
    this.#launches = this.#launches.filter(({ isRead }) => !isRead);
  }

  /**
   * Says once that an unasked read has failed: whoever exports has to hear of it.
   *
   * @throws what the device reported
   */
  assertNoFault(): void {
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw fault.error;
  }

  /** Forgets all of them; what is being read is read, for nobody. */
  clear(): void {
    this.#launches = [];
    this.#reading = [];
    this.#fault = undefined;
    this.#era = {};
  }

  async #read(launches: readonly Launch[]): Promise<void> {
    const era = this.#era;
    this.#reading = [...this.#reading, ...launches];
    try {
      await Launch.read(launches);
    } catch (error) {
      if (era === this.#era) this.#fault ??= { error };
    }
    this.#reading = this.#reading.filter(({ isRead }) => !isRead);
    this.#onRead();
  }
}
