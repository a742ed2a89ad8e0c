/** A memory for the SIMD module in which arrays end where the memory ends: to read beyond one of them is a fault. */
import {
  type SimdExports,
  type ModuleMemory,
  newMemory,
  simdOn,
} from '../../../src/kernels/simd/instance.js';

export type TestArray = Float32Array | Int32Array | Uint8Array | Float64Array;

/** Room for results and scratch at the beginning, as much for the array at the end. */
export class TestMemory {
  readonly simd: SimdExports;
  readonly #memory: ModuleMemory;
  #next = 64;

  constructor(pages = 3) {
    this.#memory = newMemory(pages);
    this.simd = simdOn(this.#memory);
    // What nobody wrote is no number that a result could hide in.
    new Float64Array(this.#memory.buffer).fill(NaN);
  }

  /** Room that begins at a multiple of 64, `shift` bytes further. */
  room(bytes: number, shift = 0): number {
    const address = this.#next + shift;
    this.#next = Math.ceil((address + bytes) / 64) * 64;
    if (this.#next > this.#memory.buffer.byteLength) throw new Error('the memory is too small for this test');
    return address;
  }

  /** A copy of `array` in some room. */
  put(array: TestArray, shift = 0, rest = 0): number {
    const address = this.room(array.byteLength + rest, shift);
    this.#bytes().set(bytesOf(array), address);
    return address;
  }

  /** A copy of `array` whose last byte is the last of the memory. There is one of them at a time. */
  putAtEnd(array: TestArray): number {
    const address = this.#memory.buffer.byteLength - array.byteLength;
    this.#bytes().set(bytesOf(array), address);
    return address;
  }

  /** `length` float64 at `address`. */
  float64(address: number, length: number): Float64Array {
    return new Float64Array(this.#memory.buffer, address, length);
  }

  #bytes(): Uint8Array {
    return new Uint8Array(this.#memory.buffer);
  }
}

function bytesOf(array: TestArray): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
