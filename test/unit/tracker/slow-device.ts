/** A device for tests of exports: mock `momentsTables` and `channelTables` with its `hold`. Not a test. */
import { type BlockReader, DeviceBlock, Pending } from '../../../src/kernels/collect.js';

/** A device whose transfers the test watches, delays and lets fail. */
export class SlowDevice implements BlockReader {
  /** Blocks per transfer. */
  readonly transfers: number[] = [];
  readonly live = new Set<unknown>();
  gate: Promise<void> = Promise.resolve();
  /** Reads to fail; what is on the device is not lost by it. */
  failures = 0;
  #next = 0;

  async read(handles: readonly unknown[]): Promise<ArrayBuffer[]> {
    this.transfers.push(handles.length);
    await this.gate;
    return handles.map(() => new ArrayBuffer(0));
  }

  release(handle: unknown): void {
    this.live.delete(handle);
  }

  hold<T>(pending: Pending<T>): Pending<T> {
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
