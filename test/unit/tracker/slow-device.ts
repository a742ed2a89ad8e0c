/** A device for tests of exports: mock `momentsTables` and `channelTables` with its `hold`. Not a test. */
import { BackendError } from '../../../src/errors.js';
import { type BlockReader, DeviceBlock, Pending } from '../../../src/kernels/collect.js';

/** A device whose transfers the test watches, delays and lets fail. */
export class SlowDevice implements BlockReader {
  /** Blocks per transfer. */
  readonly transfers: number[] = [];
  readonly live = new Set<unknown>();
  gate: Promise<void> = Promise.resolve();
  /** Results whose finish is to fail, once: read by themselves they come, so nothing is lost. */
  failures = 0;
  /** Transfers to fail, as a device does that was lost: what they should have brought is gone. */
  lostTransfers = 0;
  /** Launches to refuse, after so many that are not: what a fault of the device does to kernels over what it has spoilt. */
  refusals = { after: 0, count: 0 };
  #next = 0;

  async read(handles: readonly unknown[]): Promise<ArrayBuffer[]> {
    this.transfers.push(handles.length);
    await this.gate;
    if (this.lostTransfers > 0) {
      this.lostTransfers--;
      throw deviceLost();
    }
    return handles.map(() => new ArrayBuffer(0));
  }

  release(handle: unknown): void {
    this.live.delete(handle);
  }

  hold<T>(pending: Pending<T>): Pending<T> {
    if (this.refusals.count > 0 && this.refusals.after-- === 0) {
      this.refusals = { after: 0, count: this.refusals.count - 1 };
      pending.release();
      return Pending.rejected(deviceLost());
    }
    this.live.add(this.#next);
    const block = new DeviceBlock(this, this.#next++);
    const gated = new Pending<undefined>([block], () => {
      if (this.failures > 0) {
        this.failures--;
        throw new Error('device lost');
      }
      return undefined;
    });
    return Pending.all<[T, undefined]>([pending, gated]).map(([result]) => result);
  }

  /** Makes transfers wait; the returned function lets them go. */
  close(): () => void {
    let open!: () => void;
    this.gate = new Promise<void>((resolve) => (open = resolve));
    return open;
  }
}

function deviceLost(): BackendError {
  return new BackendError({
    where: 'device',
    expected: 'a device that answers',
    received: 'one that was lost',
    remedy: 'restart the process',
  });
}
