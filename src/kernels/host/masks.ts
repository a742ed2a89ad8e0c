/**
 * Compact masks in the memory of the host: runs of selected elements, or a bit per element where there are many.
 *
 * Responses are a run each, so a mask of them takes a few bytes per row.
 */
import { type KernelBackend, type Tensor, engine } from '@tensorflow/tfjs-core';
import { WORD_BITS } from '../masks/forms.js';
import type { MaskKernel } from '../masks/request.js';
import { holdTensor } from '../residency.js';
import type { SimdExports } from '../simd/instance.js';
import { joined } from '../typed-arrays.js';
import type { HostArray } from './arrays.js';
import { type Host, storageOf, viewOf } from './hosts.js';

/** Bits that the module packs at once, and the words that they are. */
const BLOCK_BITS = 64;
const BLOCK_WORDS = BLOCK_BITS / WORD_BITS;

/** Elements that are packed in one call, a multiple of that. */
const TILE = 2 ** 15;

/** The kernel of such a backend. */
export function hostMask(host: Host): MaskKernel {
  return (backend, mask) => {
    const packer = new Packer(host, backend, mask);
    const runs = packer.runs();
    const ints = runs ?? packer.words();
    host.workspace(backend).assertRoom(ints.byteLength);
    const held = holdTensor(engine().makeTensor(ints, [ints.length], 'int32', backend));
    const form = runs === undefined ? 'bits' : 'runs';
    return { held, form, bytes: ints.byteLength, selected: packer.selected };
  };
}

/** Reads a mask tile by tile. */
class Packer {
  /** Elements that the last walk over the mask has found selected. */
  selected = 0;
  readonly #simd: SimdExports;
  readonly #size: number;
  /** Most elements of a tile, a multiple of `BLOCK_BITS`. */
  readonly #elements: number;
  readonly #array: HostArray;
  /** Where the elements of a tile are copied to, if they have to be. */
  readonly #copies: HostArray | undefined;
  /** The bits of a tile, and the elements at which they change. */
  readonly #bits: Int32Array;
  readonly #changes: Int32Array;

  constructor(host: Host, backend: KernelBackend, mask: Tensor) {
    const workspace = host.workspace(backend);
    this.#simd = workspace.simd;
    this.#size = mask.size;
    this.#elements = Math.min(TILE, Math.ceil(mask.size / BLOCK_BITS) * BLOCK_BITS);
    const words = this.#elements / WORD_BITS;
    const address = workspace.scratch(
      4 * (words + this.#elements + (host.holdsTensors ? 0 : this.#elements)),
    );
    // Only now: what was allocated may have moved the tensor.
    this.#array = host.array(backend, mask);
    this.#bits = new Int32Array(workspace.buffer, address, words);
    this.#changes = new Int32Array(workspace.buffer, address + 4 * words, this.#elements);
    this.#copies = host.holdsTensors
      ? undefined
      : viewOf(
          storageOf(this.#array),
          workspace.buffer,
          address + 4 * (words + this.#elements),
          this.#elements,
        );
  }

  /** Pairs of the first element of a run and the first behind it; undefined if bits are fewer bytes. */
  runs(): Int32Array | undefined {
    // Runs are int32.
    if (this.#size >= 2 ** 31) return undefined;
    const parts: Int32Array[] = [];
    const room = this.#blocks * BLOCK_WORDS;
    let found = 0;
    for (const { start, blocks } of this.#tiles()) {
      const limit = Math.min(room - found, this.#changes.length);
      const { byteOffset: bits } = this.#bits;
      const more = this.#simd.findChanges(bits, blocks, start, found % 2, this.#changes.byteOffset, limit);
      if (more < 0) return undefined;
      if (more > 0) parts.push(this.#changes.slice(0, more));
      found += more;
    }
    // What is behind the last element is not selected, but a run may end with the last block.
    if (found % 2 === 1) parts.push(Int32Array.of(this.#size));
    // A tensor has elements: one empty run where nothing is selected.
    if (found === 0) return new Int32Array(2);
    return parts.length === 1 ? parts[0]! : joined(Int32Array, parts);
  }

  /** Words of bits. One block more than there are elements for, because passes load vectors from where the last one is. */
  words(): Int32Array {
    const words = new Int32Array((this.#blocks + 1) * BLOCK_WORDS);
    for (const { start, blocks } of this.#tiles()) {
      words.set(this.#bits.subarray(0, blocks * BLOCK_WORDS), start / WORD_BITS);
    }
    return words;
  }

  get #blocks(): number {
    return Math.ceil(this.#size / BLOCK_BITS);
  }

  /** Tiles, packed one after the other to the same place. */
  *#tiles(): Generator<{ readonly start: number; readonly blocks: number }> {
    const array = this.#array;
    const copies = this.#copies;
    const pack = this.#simd[`pack${storageOf(array)}`];
    this.selected = 0;
    for (let start = 0; start < this.#size; start += this.#elements) {
      const count = Math.min(this.#elements, this.#size - start);
      copies?.set(array.subarray(start, start + count));
      const address = copies?.byteOffset ?? array.byteOffset + start * array.BYTES_PER_ELEMENT;
      this.selected += pack(address, count, this.#bits.byteOffset);
      yield { start, blocks: Math.ceil(count / BLOCK_BITS) };
    }
  }
}
