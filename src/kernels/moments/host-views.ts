/**
 * Matrices and masks that the host can see, handed to the SIMD module tile by tile.
 *
 * A tile is read where the tensor is, if that is in the memory of the module and the elements of the tile are next to
 * each other; else it is copied into a block there, no larger than the tile.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import type { HostArray } from '../host-arrays.js';
import type { SimdExports } from '../simd/instance.js';
import type { Workspace } from '../simd/workspace.js';
import type { MatrixView } from './request.js';

/** A backend whose tensors the host can read without a round trip. */
export interface Host {
  /** The memory that the module works in. */
  workspace(backend: KernelBackend): Workspace;
  /** Whether that memory is where the tensors are. */
  readonly holdsTensors: boolean;
  /** Whether a tensor is stored as float32, where its dtype does not tell. */
  storesFloat32?(backend: KernelBackend, info: TensorInfo): boolean;
  /** The elements of a tensor, valid until something is allocated. */
  array(backend: KernelBackend, info: TensorInfo): HostArray;
}

/** How elements are stored, in the words of the functions of the module. */
export type Storage = 'Float32' | 'Int32' | 'Bool';

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
  #address = 0;
  #block: HostArray | undefined;
  /** The last tile that was located, and where. */
  #serial = -1;
  #located = 0;

  constructor(view: MatrixView, array: HostArray) {
    this.storage = storageOf(array);
    this.#view = view;
    this.#array = array;
  }

  /** From now on tiles are read where the tensor is, which has to be in the memory of the module. */
  readInPlace(): void {
    this.#address = this.#array.byteOffset;
  }

  /** From now on tiles of up to so many elements are copied to `address` in the memory of the module. */
  copyTo(buffer: ArrayBuffer, address: number, elements: number): void {
    this.#address = address;
    this.#block = viewOf(this.storage, buffer, address, elements);
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

/** How the elements of an array are stored, whatever the dtype of its tensor. */
export function storageOf(array: HostArray): Storage {
  return array instanceof Float32Array ? 'Float32' : array instanceof Int32Array ? 'Int32' : 'Bool';
}

/** So many elements at an address of a memory. */
export function viewOf(storage: Storage, buffer: ArrayBuffer, address: number, elements: number): HostArray {
  switch (storage) {
    case 'Float32':
      return new Float32Array(buffer, address, elements);
    case 'Int32':
      return new Int32Array(buffer, address, elements);
    case 'Bool':
      return new Uint8Array(buffer, address, elements);
  }
}

/** Instead of the address of a selection: everything in the tile is selected, or nothing. */
export const EVERYTHING = 0;
export const NOTHING = -1;

/** A mask, and what it selects of the tile at work. */
export class HostMask {
  /** Address of the selection, `EVERYTHING` or `NOTHING`. */
  selection = NOTHING;
  readonly #matrix: HostMatrix;
  readonly #address: number;
  readonly #end: SimdExports['selectedEnd'];
  readonly #read: SimdExports['selectBool'];

  /** @param address room for a selection */
  constructor(simd: SimdExports, matrix: HostMatrix, address: number) {
    this.#matrix = matrix;
    this.#address = address;
    this.#read = simd[`select${matrix.storage}`];
    this.#end = simd.selectedEnd;
  }

  /** Reads the mask; returns the selection. */
  select(tile: Tile): number {
    const { row, rows, cols } = tile;
    if (this.#matrix.isPerRow && rows === 1) {
      this.selection = this.#matrix.valueAt(row) === 0 ? NOTHING : EVERYTHING;
    } else {
      const count = this.#read(this.#matrix.locate(tile), rows, cols, this.#address);
      this.selection = count === 0 ? NOTHING : count === rows * cols ? EVERYTHING : this.#address;
    }
    return this.selection;
  }

  /** Elements of the tile up to the last one that is selected. */
  end({ rows, cols }: Tile): number {
    if (this.selection === NOTHING) return 0;
    return this.selection === EVERYTHING || rows > 1 ? rows * cols : this.#end(this.selection, cols);
  }
}
