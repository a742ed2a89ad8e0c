/**
 * Matrices that the host can see, handed to the SIMD module tile by tile.
 *
 * A tile is read where the tensor is, if that is in the memory of the module and the elements of the tile are next to
 * each other; else it is copied into a block there, no larger than the tile.
 */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import type { MatrixView } from '../../moments/request.js';
import type { HostArray } from '../arrays.js';
import { type Host, type Storage, storageOf, viewOf } from '../hosts.js';

/** How a pass reads tensors, the same for all of them. */
export interface Reading {
  readonly host: Host;
  readonly backend: KernelBackend;
  /** Columns of the pass. */
  readonly cols: number;
  /** Most elements of a tile. */
  readonly elements: number;
  /** Whether tiles may be of some whole rows; if not, they are parts of one. */
  readonly areRows: boolean;
}

/** Part of a matrix: some columns of a row, or some whole rows. */
export interface Tile {
  /** Its number in the pass. */
  serial: number;
  row: number;
  rows: number;
  col: number;
  cols: number;
}

/** The elements of a matrix. */
export class HostMatrix {
  readonly storage: Storage;
  readonly #view: MatrixView;
  readonly #array: HostArray;
  /** Where the tensor is in the memory of the module, or where the block is that tiles are copied to. */
  readonly #address: number;
  readonly #block: HostArray | undefined;
  /** The last tile that was located, and where. */
  #serial = -1;
  #located = 0;

  /** @param block address of room for a tile of elements of four bytes, for tiles that have to be copied */
  constructor({ host, backend, cols, elements, areRows }: Reading, view: MatrixView, block: number) {
    this.#array = host.array(backend, view.tensor);
    this.storage = storageOf(this.#array);
    this.#view = view;
    const isTogether = view.step === 1 && (view.stride === cols || !areRows);
    if (host.holdsTensors && isTogether) {
      this.#address = this.#array.byteOffset;
    } else {
      this.#address = block;
      this.#block = viewOf(this.storage, host.workspace(backend).buffer, block, elements);
    }
  }

  /** Whether all elements of a row are one. */
  get isPerRow(): boolean {
    return this.#view.step === 0;
  }

  /** The value at the first column of a row. */
  valueAt(row: number): number {
    return this.#array[row * this.#view.stride + this.#view.offset]!;
  }

  /** The address of the elements of a tile, one row behind the other, until another tile is asked for. */
  locate(tile: Tile): number {
    if (tile.serial !== this.#serial) {
      this.#serial = tile.serial;
      this.#located = this.#bring(tile);
    }
    return this.#located;
  }

  #bring({ row, rows, col, cols }: Tile): number {
    const { stride, offset, step } = this.#view;
    const start = row * stride + offset + col * step;
    const block = this.#block;
    if (block === undefined) return this.#address + start * this.#array.BYTES_PER_ELEMENT;
    if (step === 1 && (rows === 1 || stride === cols)) {
      block.set(this.#array.subarray(start, start + rows * cols));
    } else {
      this.#gather(block, start, rows, cols);
    }
    return this.#address;
  }

  #gather(block: HostArray, start: number, rows: number, cols: number): void {
    const { stride, step } = this.#view;
    const array = this.#array;
    let to = 0;
    for (let r = 0; r < rows; r++) {
      let from = start + r * stride;
      for (let c = 0; c < cols; c++) {
        block[to++] = array[from]!;
        from += step;
      }
    }
  }
}
