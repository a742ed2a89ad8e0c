/** What the functions of the module need of a memory, a `WebAssembly.Memory` or one that behaves like it. */
export interface ModuleMemory {
  /** Another one after every growth. */
  readonly buffer: ArrayBuffer;
  /** Adds pages of 64 KiB. Throws a RangeError where there are none; the memory stays as it was. */
  grow(pages: number): number;
}
