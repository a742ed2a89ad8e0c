/**
 * Rows that were reduced on the device when they were recorded and have not come to the host yet.
 *
 * The only file of the tracker that starts kernels and reads their results. What a launch brings back are plain
 * moments rows; what they mean is the business of whoever recorded them.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { type MomentsRow, type MomentsTable, Pending, emptyRow, momentsTables } from '../kernels/index.js';

/** One fused pass over values that share a mask. */
export class Launch {
  readonly #pending: Pending<Record<string, MomentsTable>>;
  #rows: Map<string, MomentsRow> | undefined;

  /**
   * Starts the pass; the tensors may be disposed as soon as this returns.
   *
   * @param values float32 or bool tensors by key, all of the shape of `mask`
   * @throws what `momentsTables` refuses with, e.g. BackendError for tensors on two backends
   */
  constructor(values: ReadonlyMap<string, Tensor>, mask: Tensor) {
    this.#pending = momentsTables(Object.fromEntries(values), mask);
    const { refusal } = this.#pending;
    if (refusal !== undefined) throw refusal;
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
    const unread = [...new Set(launches)].filter((launch) => launch.#rows === undefined);
    try {
      // An array, not arguments: a tracker that is exported seldom has more launches than a call has room for.
      const read = await Pending.all<readonly Record<string, MomentsTable>[]>(
        unread.map((launch) => launch.#pending),
      );
      read.forEach((tables, i) => {
        unread[i]!.#keep(tables);
      });
    } catch (error) {
      await Promise.all(
        unread.map((launch) =>
          launch.#pending.then(
            (tables) => {
              launch.#keep(tables);
            },
            () => {
              launch.#rows = new Map();
            },
          ),
        ),
      );
      throw error;
    }
  }

  #keep(tables: Readonly<Record<string, MomentsTable>>): void {
    this.#rows = new Map(Object.entries(tables).map(([key, table]) => [key, table.total()]));
  }

  /** Frees the device memory of rows that nobody will read. */
  release(): void {
    this.#pending.release();
  }
}

/** One row of a launch. */
export interface Part {
  readonly launch: Launch;
  readonly key: string;
}
