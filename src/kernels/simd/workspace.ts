/**
 * Memories to run the SIMD module in: the heap of tfjs' `wasm` backend, where the tensors are, or one of our own.
 *
 * A workspace is a memory with some scratch in it. Kernels run to their end without yielding, so all of them share
 * the scratch; what it held is gone with the next call of `scratch`.
 */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';
import { type SimdExports, type WasmMemory, newMemory, simdOn } from './instance.js';

/** Where scratch begins: a cache line, so that vectors do not straddle two. */
const ALIGNMENT = 64;

const PAGE = 65536;

export abstract class Workspace {
  readonly simd: SimdExports;
  readonly #memory: WasmMemory;
  #start = 0;
  #capacity = 0;
  #bytes: Uint8Array;
  #float64: Float64Array;

  protected constructor(memory: WasmMemory) {
    this.#memory = memory;
    this.simd = simdOn(memory);
    this.#bytes = new Uint8Array(memory.buffer);
    this.#float64 = new Float64Array(memory.buffer);
  }

  /** Moves the scratch to a place of `bytes` bytes and returns where that is. */
  protected abstract allocate(bytes: number): number;

  /**
   * Address of `bytes` bytes of scratch, at a cache line.
   *
   * @throws BackendError if the memory cannot grow
   */
  scratch(bytes: number): number {
    if (bytes > this.#capacity) {
      this.#capacity = 0;
      const start = this.allocate(bytes + ALIGNMENT);
      this.#start = Math.ceil(start / ALIGNMENT) * ALIGNMENT;
      this.#capacity = bytes;
    }
    return this.#start;
  }

  /** The memory, valid until something is allocated in it. */
  get buffer(): ArrayBuffer {
    return this.#memory.buffer;
  }

  /** The memory as bytes: valid until something is allocated in it. */
  get bytes(): Uint8Array {
    // A memory that has grown has another buffer, and views of the old one are empty.
    if (this.#bytes.buffer !== this.#memory.buffer) this.#bytes = new Uint8Array(this.#memory.buffer);
    return this.#bytes;
  }

  /** The memory as float64 numbers: the one at address `a` has index `a / 8`. */
  get float64(): Float64Array {
    if (this.#float64.buffer !== this.#memory.buffer) this.#float64 = new Float64Array(this.#memory.buffer);
    return this.#float64;
  }
}

/** A memory that holds nothing but scratch. */
class OwnWorkspace extends Workspace {
  readonly #memory: WasmMemory;

  constructor() {
    const memory = newMemory(1);
    super(memory);
    this.#memory = memory;
  }

  protected override allocate(bytes: number): number {
    // Address 0 stays free, as on any heap: kernels use it for "none".
    const missing = ALIGNMENT + bytes - this.#memory.buffer.byteLength;
    try {
      if (missing > 0) this.#memory.grow(Math.ceil(missing / PAGE));
    } catch (error) {
      throw outOfMemory(bytes, { cause: error });
    }
    return ALIGNMENT;
  }
}

/** The parts of tfjs' wasm backend that its heap is reached through; the same in all of 4.x, asserted by a test. */
export interface WasmBackend {
  readonly wasm: {
    readonly asm: { readonly memory: WasmMemory };
    _malloc: (bytes: number) => number;
    readonly _free: (address: number) => void;
  };
}

/** The heap of a wasm backend. */
class HeapWorkspace extends Workspace {
  readonly #wasm: WasmBackend['wasm'];
  #block = 0;

  constructor({ wasm }: WasmBackend) {
    super(wasm.asm.memory);
    this.#wasm = wasm;
  }

  protected override allocate(bytes: number): number {
    this.#wasm._free(this.#block);
    // Addresses beyond 2 GiB come back negative.
    this.#block = this.#wasm._malloc(bytes) >>> 0;
    if (this.#block === 0) throw outOfMemory(bytes);
    return this.#block;
  }
}

function outOfMemory(bytes: number, options?: ErrorOptions): BackendError {
  return new BackendError(
    {
      where: 'scratch memory',
      expected: `${bytes} bytes for a kernel to work in`,
      received: 'a WebAssembly memory that cannot grow',
      remedy: 'dispose of tensors that are no longer needed',
    },
    options,
  );
}

let own: OwnWorkspace | undefined;
const heaps = new WeakMap<KernelBackend, HeapWorkspace>();

/** The workspace for arrays that live outside of WebAssembly: what is to be computed is copied in, tile by tile. */
export function ownWorkspace(): Workspace {
  return (own ??= new OwnWorkspace());
}

/** The workspace in which the tensors of a wasm backend are: addresses are `typedArrayFromHeap(info).byteOffset`. */
export function heapWorkspace(backend: KernelBackend): Workspace {
  let workspace = heaps.get(backend);
  if (workspace === undefined) {
    workspace = new HeapWorkspace(backend as unknown as WasmBackend);
    heaps.set(backend, workspace);
  }
  return workspace;
}
