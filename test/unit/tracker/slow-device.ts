/** A device for tests of exports, and what tests with it share: mock the kernels with `slowKernels`. Not a test. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as tf from '@tensorflow/tfjs-core';
import { expect } from 'vitest';
import { BackendError } from '../../../src/errors.js';
import { type BlockReader, DeviceBlock, Pending } from '../../../src/kernels/collect.js';
import type * as kernels from '../../../src/kernels/index.js';
import type { StatsTracker } from '../../../src/tracker/index.js';

type Kernels = typeof kernels;

/** The kernels that a tracker launches, with their results held by the device of the running test. */
export function slowKernels(original: Kernels, device: { readonly current?: SlowDevice }): Kernels {
  return {
    ...heldKernels(original, device),
    // A device does not say what a mask selects until it is asked.
    compactMask: (mask: tf.Tensor) =>
      Object.defineProperty(original.compactMask(mask), 'selected', { value: undefined }),
  };
}

/** The same, with masks that are in the memory of the host. */
export function heldKernels(original: Kernels, device: { readonly current?: SlowDevice }): Kernels {
  return {
    ...original,
    momentsTables: (...args: Parameters<Kernels['momentsTables']>) =>
      device.current!.hold(original.momentsTables(...args)),
    channelTables: (...args: Parameters<Kernels['channelTables']>) =>
      device.current!.hold(original.channelTables(...args)),
  };
}

/** Called before a test: what to call after it, to see that a disposed tracker has left nothing. */
export function leavesNothing(device: SlowDevice, tracker: StatsTracker): () => Promise<void> {
  const before = tf.memory().numTensors;
  return async () => {
    tracker.dispose();
    await nextTurn();
    expect(tf.memory().numTensors).toBe(before);
    expect(device.live.size).toBe(0);
  };
}

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
