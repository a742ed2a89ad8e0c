/**
 * Buffers that are used again: making one costs more than a launch.
 *
 * Most sizes are rounded up to powers of two, so that the passes of a training loop, whose batches differ, find what they
 * left. What waits to be used again is bounded in bytes.
 */
import type { GpuBuffer } from './internals.js';

/** Bytes that may wait in one pool. */
const MAX_FREE_BYTES = 32 * 2 ** 20;

const LEAST_BYTES = 256;

/** Buffers of one usage. */
export class BufferPool {
  readonly #create: (size: number) => GpuBuffer;
  readonly #free = new Map<number, GpuBuffer[]>();
  /** Buffers that may come back; those from before a fault may not. */
  #trusted = new WeakSet<GpuBuffer>();
  #freeBytes = 0;

  constructor(create: (size: number) => GpuBuffer) {
    this.#create = create;
  }

  /** Bytes of the buffers that wait to be used again. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** A buffer of at least `bytes` bytes; its contents are what the last user left. */
  acquire(bytes: number): GpuBuffer {
    const size = sizeFor(bytes);
    const waiting = this.#free.get(size)?.pop();
    if (waiting !== undefined) {
      this.#freeBytes -= size;
      return waiting;
    }
    const made = this.#create(size);
    this.#trusted.add(made);
    return made;
  }

  /** Takes a buffer back. Commands that are recorded may still use it. */
  release(buffer: GpuBuffer): void {
    if (!this.#trusted.has(buffer)) return;
    const sameSize = this.#free.get(buffer.size) ?? [];
    this.#free.set(buffer.size, sameSize);
    sameSize.push(buffer);
    this.#freeBytes += buffer.size;
  }

  /** Frees what exceeds the bound, large buffers first. Only when no recorded command is left unsubmitted. */
  trim(): void {
    if (this.#freeBytes <= MAX_FREE_BYTES) return;
    for (const size of [...this.#free.keys()].sort((a, b) => b - a)) {
      const sameSize = this.#free.get(size)!;
      while (this.#freeBytes > MAX_FREE_BYTES && sameSize.length > 0) {
        sameSize.pop()!.destroy();
        this.#freeBytes -= size;
      }
    }
  }

  /** Lets go of all that waits, since a fault may have left any of it broken. */
  forget(): void {
    this.#trusted = new WeakSet();
    this.#free.clear();
    this.#freeBytes = 0;
  }
}

/** Large buffers are not rounded up: they are rare, and it would be waste. */
function sizeFor(bytes: number): number {
  return bytes > 2 ** 24 ? 4 * Math.ceil(bytes / 4) : 2 ** Math.ceil(Math.log2(Math.max(bytes, LEAST_BYTES)));
}
