/**
 * Counts on WebGPU: dispatches, mapped buffers, and bytes of buffers in use.
 *
 * The classes of the binding are wrapped, not single objects: buffers that were made and kept before the count are
 * mapped in it too.
 */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import { type Counts, Peak } from './counts.js';

interface Buffer {
  readonly size: number;
  mapAsync(mode: number, offset?: number, size?: number): Promise<void>;
  destroy(): void;
}

interface Pass {
  dispatchWorkgroups(...size: number[]): void;
  dispatchWorkgroupsIndirect(buffer: Buffer, offset: number): void;
  end(): void;
}

interface Device {
  createBuffer(descriptor: { size: number; usage: number }): Buffer;
  createCommandEncoder(): { beginComputePass(): Pass };
}

/** tfjs' pool: a buffer that nobody uses stays allocated in it, and is memory that the next kernel need not ask for. */
interface Pool {
  acquireBuffer(size: number, ...rest: unknown[]): Buffer;
  releaseBuffer(buffer: Buffer, ...rest: unknown[]): void;
}

/** GPUMapMode.READ and GPUBufferUsage.COPY_DST, fixed by the WebGPU specification. */
const [MAP_READ, COPY_DST] = [0x1, 0x8];

export async function countWebGpu(backend: KernelBackend, body: () => Promise<unknown>): Promise<Counts> {
  const { device, bufferManager: pool } = backend as unknown as { device: Device; bufferManager: Pool };
  const { bufferClass, passClass } = classesOf(device);
  let [launches, readBacks, readBackBytes] = [0, 0, 0];
  const peak = new Peak();
  const made = new WeakSet<Buffer>();
  let isPooling = false;
  const restore = [
    wrap(bufferClass, 'mapAsync', (mapAsync) => {
      return function (this: Buffer, mode, offset = 0, size = this.size - offset) {
        if (mode === MAP_READ) {
          readBacks++;
          readBackBytes += size;
        }
        return mapAsync.call(this, mode, offset, size);
      };
    }),
    wrap(bufferClass, 'destroy', (destroy) => {
      return function (this: Buffer) {
        if (made.delete(this)) peak.add(-this.size);
        destroy.call(this);
      };
    }),
    wrap(passClass, 'dispatchWorkgroups', (dispatch) => {
      return function (this: Pass, ...size) {
        launches++;
        dispatch.apply(this, size);
      };
    }),
    wrap(passClass, 'dispatchWorkgroupsIndirect', (dispatch) => {
      return function (this: Pass, ...place) {
        launches++;
        dispatch.apply(this, place);
      };
    }),
    wrap(device, 'createBuffer', (createBuffer) => (descriptor) => {
      const buffer = createBuffer.call(device, descriptor);
      if (isPooling) return buffer; // acquireBuffer, below, counts it
      made.add(buffer);
      peak.add(buffer.size);
      return buffer;
    }),
    wrap(pool, 'acquireBuffer', (acquireBuffer) => (size, ...rest) => {
      isPooling = true;
      try {
        return acquireBuffer.call(pool, size, ...rest);
      } finally {
        isPooling = false;
        peak.add(size);
      }
    }),
    wrap(pool, 'releaseBuffer', (releaseBuffer) => (buffer, ...rest) => {
      peak.add(-buffer.size);
      releaseBuffer.call(pool, buffer, ...rest);
    }),
  ];
  try {
    await body();
  } finally {
    for (const undo of restore) undo();
  }
  return { launches, readBacks, readBackBytes, peakBytes: peak.bytes };
}

/** What the methods of buffers and passes are found on. */
function classesOf(device: Device): { bufferClass: Buffer; passClass: Pass } {
  const buffer = device.createBuffer({ size: 4, usage: COPY_DST });
  const pass = device.createCommandEncoder().beginComputePass();
  pass.end(); // never submitted
  buffer.destroy();
  return {
    bufferClass: Object.getPrototypeOf(buffer) as Buffer,
    passClass: Object.getPrototypeOf(pass) as Pass,
  };
}

/** Puts a method in place of another; returns what takes it back. */
function wrap<T extends object, K extends keyof T>(
  target: T,
  name: K,
  around: (original: T[K]) => T[K],
): () => void {
  const own = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value: around(target[name]), configurable: true, writable: true });
  return () => {
    if (own === undefined) Reflect.deleteProperty(target, name);
    else Object.defineProperty(target, name, own);
  };
}
