/**
 * Rows that were reduced on the device when they were recorded and have not come to the host yet.
 *
 * The only file of the tracker that starts kernels and reads their results. What a launch brings back are plain
 * moments rows; what they mean is the business of whoever recorded them.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { messageOf } from '../../arguments.js';
import { BackendError, TensortallyError } from '../../errors.js';
import {
  type CompactMask,
  Pending,
  channelTables,
  expression,
  maskedHistograms,
  momentsTables,
} from '../../kernels/index.js';
import { Histogram, type KeyRow, emptyKeyRow, keyRowOf, repeatRow, MomentsTable } from '../../rows/index.js';

type Rows = ReadonlyMap<string, KeyRow>;

/** One fused pass over values that share a mask. */
export class Launch {
  /** Let go once it was read: it holds on to whatever its kernel needed. */
  #pending: Pending<Rows> | undefined;
  #rows: Rows | undefined;
  #loss: Error | undefined;
  #isBeingRead = false;
  readonly #bytes: number;

  /**
   * Reduces values; they may be disposed as soon as this returns.
   *
   * @param values float32 tensors by key, all of the shape of `mask`
   * @param histograms the keys of which a histogram is wanted as well
   * @throws what `momentsTables` refuses with, e.g. BackendError for tensors on two backends
   */
  static of(
    values: Readonly<Record<string, Tensor>>,
    mask: CompactMask,
    histograms: readonly string[],
  ): Launch {
    const rows = (): Pending<Rows> => momentsTables(values, mask).map(totals);
    const rowBytes = Object.keys(values).length * MomentsTable.ROW_BYTES;
    const bytes = rowBytes + histograms.length * Histogram.DEVICE_BYTES;
    if (histograms.length === 0) return new Launch('stat', rows(), bytes);
    const wanted = Object.fromEntries(histograms.map((key) => [key, values[key]!]));
    const both = Pending.launchAll<[Rows, Readonly<Record<string, Histogram>>]>([
      rows,
      () => maskedHistograms(wanted, mask),
    ]);
    return new Launch('stat', both.map(withHistograms), bytes);
  }

  /** Counts what a mask selects, under the key of its denominator. */
  static counting(denominator: string, mask: CompactMask): Launch {
    const { selected } = mask;
    if (selected !== undefined) {
      const rows: Rows = new Map([[denominator, keyRowOf(repeatRow(1, selected))]]);
      return new Launch('denominator', Pending.of(rows), 0);
    }
    const ones = channelTables({ [denominator]: expression.constant(1) }, {}, mask);
    return new Launch('denominator', ones.map(totals), MomentsTable.ROW_BYTES);
  }

  /**
   * @param where the record call that it is of, for refusals
   * @param bytes what its rows are worth until they are read; a backend may spend more on them
   */
  private constructor(where: 'stat' | 'denominator', pending: Pending<Rows>, bytes: number) {
    const { refusal } = pending;
    if (refusal !== undefined) throw refusalOf(where, refusal);
    this.#rows = pending.onHost?.value;
    if (this.#rows === undefined) this.#pending = pending;
    this.#bytes = bytes;
  }

  /** Whether its rows are on the host. */
  get isRead(): boolean {
    return this.#rows !== undefined;
  }

  get unreadBytes(): number {
    return this.isRead ? 0 : this.#bytes;
  }

  /** What the device has failed with, if it could not deliver the rows: they are gone. */
  get loss(): Error | undefined {
    return this.#loss;
  }

  /** The row of `key`, once it was read; empty if it is lost. */
  row(key: string): KeyRow {
    return this.#rows!.get(key) ?? emptyKeyRow;
  }

  /**
   * Brings the rows of all launches to the host in one read-back.
   *
   * @throws what the device reports. Rows that it could not deliver are lost then, since what is read is freed either
   *   way: they count as empty from now on, and their launches say so in `loss`. All others are kept.
   */
  static async read(launches: Iterable<Launch>): Promise<void> {
    const unread = [...new Set(launches)].filter((launch) => !launch.isRead);
    const pendings = unread.map((launch) => launch.#pending!);
    for (const launch of unread) launch.#isBeingRead = true;
    try {
      // An array, not arguments: a tracker that is exported seldom has more launches than a call has room for.
      const all = Pending.all<readonly Rows[]>(pendings);
      // Begun now: `await` alone would begin it after whatever the caller does next, dispose() included.
      const read = await all.then();
      read.forEach((rows, i) => {
        unread[i]!.#keep(rows);
      });
    } catch (error) {
      await Promise.all(
        unread.map((launch, i) =>
          pendings[i]!.then(
            (rows) => {
              launch.#keep(rows);
            },
            (loss: unknown) => {
              launch.#lose(loss);
            },
          ),
        ),
      );
      throw typed(error);
    }
  }

  /** The first who reads decides: an export may ask for what is being read already. */
  #keep(rows: Rows): void {
    this.#rows ??= rows;
    this.#pending = undefined;
  }

  #lose(loss: unknown): void {
    if (this.isRead) return;
    this.#loss = typed(loss);
    this.#keep(new Map());
  }

  /** Frees the device memory of rows that nobody will read. What an export is reading stays its own, and is freed by it. */
  release(): void {
    if (this.#isBeingRead) return;
    try {
      this.#pending?.release();
    } catch {
      // Of a device that is gone: nobody can do anything about it.
    }
  }
}

/** What a device failed with, as an error of the package. */
function typed(cause: unknown): TensortallyError {
  if (cause instanceof TensortallyError) return cause;
  return new BackendError(
    {
      where: 'export',
      input: 'statistics on the device',
      expected: 'a device that delivers them',
      received: `an error: ${messageOf(cause)}`,
      remedy:
        'export again for what is left; if the device is gone, start the backend again with initBackend()',
    },
    { cause },
  );
}

/** The refusal of a kernel, as that of the record call which it came from. */
function refusalOf(where: string, refusal: Error): Error {
  if (!(refusal instanceof BackendError)) return refusal;
  const { input, expected, received, remedy } = refusal;
  return new BackendError({ where, input, expected, received, remedy }, { cause: refusal });
}

function totals(tables: Readonly<Record<string, MomentsTable>>): Rows {
  return new Map(Object.entries(tables).map(([key, table]) => [key, keyRowOf(table.total())]));
}

function withHistograms([rows, histograms]: readonly [Rows, Readonly<Record<string, Histogram>>]): Rows {
  return new Map(
    [...rows].map(([key, row]) => {
      // Its own: stats may be called like what every object has.
      return [key, Object.hasOwn(histograms, key) ? { ...row, histogram: histograms[key] } : row];
    }),
  );
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
  /** Histograms are larger: some hundred of them. */
  static readonly BYTES_LIMIT = 2 ** 24;
  #launches: Launch[] = [];
  #bytes = 0;
  /** Those that are being read, until they are. */
  #reading: readonly Launch[] = [];
  readonly #onRead: () => void;

  /** @param onRead called when launches were read that nobody asked for */
  constructor(onRead: () => void) {
    this.#onRead = onRead;
  }

  /** Launches whose rows are not on the host. */
  get unread(): readonly Launch[] {
    return [...this.#reading, ...this.#launches].filter((launch) => !launch.isRead);
  }

  add(launch: Launch): void {
    if (launch.isRead) return;
    this.#launches.push(launch);
    this.#bytes += launch.unreadBytes;
    if (!this.#exceeds(1)) return;
    this.prune();
    // Those that an export has read meanwhile leave room without a read-back.
    if (!this.#exceeds(1 / 2)) return;
    const launches = this.#launches;
    this.#launches = [];
    this.#bytes = 0;
    void this.#read(launches);
  }

  /** Forgets those that were read. */
  prune(): void {
    this.#launches = this.#launches.filter(({ isRead }) => !isRead);
    this.#bytes = this.#launches.reduce((sum, { unreadBytes }) => sum + unreadBytes, 0);
  }

  /** Whether there are more than a share of what may be there. */
  #exceeds(share: number): boolean {
    return (
      this.#launches.length >= UnreadLaunches.LIMIT * share ||
      this.#bytes >= UnreadLaunches.BYTES_LIMIT * share
    );
  }

  /** Forgets all of them; what is being read is read, for nobody. */
  clear(): void {
    this.#launches = [];
    this.#bytes = 0;
    this.#reading = [];
  }

  async #read(launches: readonly Launch[]): Promise<void> {
    this.#reading = [...this.#reading, ...launches];
    try {
      await Launch.read(launches);
    } catch {
      // Nobody has asked. What is lost is on the launches, for the next export of every window that has rows of them.
    }
    this.#reading = this.#reading.filter(({ isRead }) => !isRead);
    this.#onRead();
  }
}
