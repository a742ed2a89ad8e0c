/** Memory for the plain loops where WebAssembly gives none: an array of bytes. */
import type { ModuleMemory } from '../module-memory.js';

const PAGE = 65536;

/** Bytes that grow by pages of 64 KiB, as those of a `WebAssembly.Memory` do. */
export class PlainMemory implements ModuleMemory {
  buffer: ArrayBuffer;

  constructor(pages: number) {
    this.buffer = new ArrayBuffer(pages * PAGE);
  }

  /** @throws RangeError where there is no memory left; the bytes stay what they were */
  grow(pages: number): number {
    const before = this.buffer;
    const after = new ArrayBuffer(before.byteLength + pages * PAGE);
    new Uint8Array(after).set(new Uint8Array(before));
    this.buffer = after;
    return before.byteLength / PAGE;
  }
}
