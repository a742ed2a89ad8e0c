/** A memory seen as numbers. Addresses are bytes, as the functions of the SIMD module take them. */
import type { ModuleMemory } from '../module-memory.js';

/** How the elements of a tile are stored. */
export type Stored = 'Float32' | 'Int32' | 'Bool' | 'Float64';

/** Bytes of an element. */
export const bytesOf: Readonly<Record<Stored, number>> = { Float32: 4, Int32: 4, Bool: 1, Float64: 8 };

/** Views of a memory, made anew where the memory has grown: its buffer is another one then. */
export class Cells {
  readonly #memory: ModuleMemory;
  #buffer: ArrayBuffer | undefined;
  #float64!: Float64Array;
  #float32!: Float32Array;
  #int32!: Int32Array;
  #bytes!: Uint8Array;

  constructor(memory: ModuleMemory) {
    this.#memory = memory;
  }

  get float64(): Float64Array {
    this.#refresh();
    return this.#float64;
  }

  get int32(): Int32Array {
    this.#refresh();
    return this.#int32;
  }

  get bytes(): Uint8Array {
    this.#refresh();
    return this.#bytes;
  }

  /** The `n` elements at `address`. */
  elements(
    stored: Stored,
    address: number,
    n: number,
  ): Float64Array | Float32Array | Int32Array | Uint8Array {
    this.#refresh();
    const first = address / bytesOf[stored];
    return this.#array(stored).subarray(first, first + n);
  }

  #array(stored: Stored): Float64Array | Float32Array | Int32Array | Uint8Array {
    switch (stored) {
      case 'Float32':
        return this.#float32;
      case 'Int32':
        return this.#int32;
      case 'Bool':
        return this.#bytes;
      case 'Float64':
        return this.#float64;
    }
  }

  #refresh(): void {
    const { buffer } = this.#memory;
    if (this.#buffer === buffer) return;
    this.#buffer = buffer;
    this.#float64 = new Float64Array(buffer);
    this.#float32 = new Float32Array(buffer);
    this.#int32 = new Int32Array(buffer);
    this.#bytes = new Uint8Array(buffer);
  }
}
