/**
 * Memories to run the SIMD module in: the heap of tfjs' `wasm` backend, where the tensors are, or one of our own.
 *
 * A workspace is a memory with some scratch in it. Kernels run to their end without yielding, so all of them share
 * the scratch; what it held is gone with the next call of `scratch`. Where WebAssembly lacks memory or SIMD, a workspace
 * of our own is an array of bytes in which plain loops work.
 */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';
import {
  type ModuleMemory,
  type ModuleObstacle,
  type SimdExports,
  engineObstacle,
  loopsOn,
  memoryObstacle,
  newMemory,
  simdOn,
} from './instance.js';
import { PlainMemory } from './plain/index.js';

/** Where scratch begins: a cache line, so that vectors do not straddle two. */
const ALIGNMENT = 64;

const PAGE = 65536;

export abstract class Workspace {
  /** The functions of the module, or the plain loops that stand in for it. */
  readonly simd: SimdExports;
  /** Why the plain loops stand in; undefined where the module runs. */
  readonly obstacle: ModuleObstacle | undefined;
  readonly #memory: ModuleMemory;
  #start = 0;
  #capacity = 0;
  #bytes: Uint8Array;
  #float64: Float64Array;

  protected constructor(memory: ModuleMemory, obstacle?: ModuleObstacle) {
    this.#memory = memory;
    this.obstacle = obstacle;
    this.simd = obstacle === undefined ? simdOn(memory) : loopsOn(memory);
    this.#bytes = new Uint8Array(memory.buffer);
    this.#float64 = new Float64Array(memory.buffer);
  }

  /**
   * Refuses where a tensor of `bytes` bytes has no room: tfjs' wasm backend would write it over the beginning of its heap. Arrays of
   * JavaScript refuse by themselves.
   *
   * @throws BackendError
   */
  assertRoom: (bytes: number) => void = () => undefined;

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
  readonly #memory: ModuleMemory;

  constructor(memory: ModuleMemory, obstacle?: ModuleObstacle) {
    super(memory, obstacle);
    this.#memory = memory;
  }

  protected override allocate(bytes: number): number {
    // Address 0 stays free, as on any heap: kernels use it for "none".
    const missing = ALIGNMENT + bytes - this.#memory.buffer.byteLength;
    try {
      if (missing > 0) this.#memory.grow(Math.ceil(missing / PAGE));
    } catch (error) {
      const remedy =
        this.obstacle === undefined ? memoryObstacle(error).remedy : 'give the process more memory';
      throw outOfMemory(bytes, remedy, error);
    }
    return ALIGNMENT;
  }
}

/** The parts of tfjs' wasm backend that its heap is reached through; the same in all of 4.x, asserted by a test. */
export interface WasmBackend {
  readonly wasm: {
    readonly asm: { readonly memory: ModuleMemory };
    _malloc: (bytes: number) => number;
    readonly _free: (address: number) => void;
  };
}

/** The heap of a wasm backend. */
class HeapWorkspace extends Workspace {
  readonly #wasm: WasmBackend['wasm'];
  #block = 0;

  constructor({ wasm }: WasmBackend) {
    super(wasm.asm.memory, engineObstacle());
    this.#wasm = wasm;
  }

  override assertRoom = (bytes: number): void => {
    const address = this.#wasm._malloc(bytes);
    if (address === 0) throw outOfMemory(bytes, DISPOSE);
    this.#wasm._free(address);
  };

  protected override allocate(bytes: number): number {
    const old = this.#block;
    // Forgotten first: what fails below must not be freed once more by the next call.
    this.#block = 0;
    try {
      this.#wasm._free(old);
      // Addresses beyond 2 GiB come back negative.
      this.#block = this.#wasm._malloc(bytes) >>> 0;
    } catch (error) {
      throw outOfMemory(bytes, DISPOSE, error);
    }
    if (this.#block === 0) throw outOfMemory(bytes, DISPOSE);
    return this.#block;
  }
}

const DISPOSE = 'dispose of tensors that are no longer needed';

function outOfMemory(bytes: number, remedy: string, cause?: unknown): BackendError {
  return new BackendError(
    {
      where: 'scratch memory',
      expected: `${bytes} bytes for a kernel to work in or to write to`,
      received: 'a memory that cannot grow',
      remedy,
    },
    { cause },
  );
}

/** Pages that a memory of our own has from the start: enough for nearly every call, so that a lack shows at once. */
const FIRST_PAGES = 16;

function newWorkspace(): OwnWorkspace {
  const obstacle = engineObstacle();
  if (obstacle !== undefined) return new OwnWorkspace(new PlainMemory(FIRST_PAGES), obstacle);
  try {
    return new OwnWorkspace(newMemory(FIRST_PAGES));
  } catch (error) {
    return new OwnWorkspace(new PlainMemory(FIRST_PAGES), memoryObstacle(error));
  }
}

let own: OwnWorkspace | undefined;
const heaps = new WeakMap<KernelBackend, HeapWorkspace>();

/** The workspace for arrays that live outside of WebAssembly: what is to be computed is copied in, tile by tile. */
export function ownWorkspace(): Workspace {
  return (own ??= newWorkspace());
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
