/**
 * Masks that the host can see, turned into what the SIMD module calls a selection, tile by tile.
 *
 * A mask is a matrix of elements, or what `compactMask` makes of it: bits or runs.
 */
import { WORD_BITS, firstRunBehind } from '../../masks/forms.js';
import type { MatrixView } from '../../moments/request.js';
import type { SimdExports } from '../../simd/instance.js';
import type { HostArray } from '../arrays.js';
import { HostMatrix, type Reading, type Tile } from './views.js';

/** Instead of the address of a selection: everything in the tile is selected, or nothing. */
export const EVERYTHING = 0;
export const NOTHING = -1;

/** Bits that begin within a word end in one word more. */
const WORDS_BEHIND = 1;

/** A mask, and what it selects of the tile at work. */
export class HostMask {
  /** Address of the selection, `EVERYTHING` or `NOTHING`. */
  selection = NOTHING;
  readonly #source: Source;
  readonly #simd: SimdExports;
  readonly #address: number;

  /**
   * @param block address of room for a tile of elements of four bytes
   * @param address room for a selection
   */
  constructor(reading: Reading, view: MatrixView, block: number, address: number) {
    this.#simd = reading.host.workspace(reading.backend).simd;
    this.#source = sourceOf(reading, view, block);
    this.#address = address;
  }

  /** Reads the mask; returns the selection. */
  select(tile: Tile): number {
    const count = this.#source.select(tile, this.#address);
    this.selection = count === 0 ? NOTHING : count === tile.rows * tile.cols ? EVERYTHING : this.#address;
    return this.selection;
  }

  /** Elements of the tile up to the last one that is selected. */
  end({ rows, cols }: Tile): number {
    if (this.selection === NOTHING) return 0;
    if (this.selection === EVERYTHING || rows > 1) return rows * cols;
    return this.#simd.selectedEnd(this.selection, cols);
  }
}

/** How a mask is stored. */
interface Source {
  /** Counts the selected elements of a tile, and writes the selection unless they are none or all. */
  select(tile: Tile, selection: number): number;
}

function sourceOf(reading: Reading, view: MatrixView, block: number): Source {
  const { form = 'elements' } = view;
  switch (form) {
    case 'bits':
      return new BitSource(reading, view, block);
    case 'runs':
      return new RunSource(reading, view, block);
    case 'elements':
      return new ElementSource(reading, view, block);
  }
}

class ElementSource implements Source {
  readonly #matrix: HostMatrix;
  readonly #read: SimdExports['selectBool'];

  constructor(reading: Reading, view: MatrixView, block: number) {
    this.#matrix = new HostMatrix(reading, view, block);
    this.#read = reading.host.workspace(reading.backend).simd[`select${this.#matrix.storage}`];
  }

  select(tile: Tile, selection: number): number {
    const { row, rows, cols } = tile;
    if (this.#matrix.isPerRow && rows === 1) return this.#matrix.valueAt(row) === 0 ? 0 : cols;
    return this.#read(this.#matrix.locate(tile), rows, cols, selection);
  }
}

/** Masks that `compactMask` has made: they are not read element by element unless a tile has them in pieces. */
abstract class CompactSource implements Source {
  protected readonly simd: SimdExports;
  /** What the mask is made of. */
  protected readonly ints: HostArray;
  /** Address of the block, which tiles are written to. */
  protected readonly address: number;
  readonly #view: MatrixView;
  readonly #buffer: ArrayBuffer;
  readonly #elements: number;
  #block: Int32Array | undefined;

  constructor({ host, backend, elements }: Reading, view: MatrixView, block: number) {
    const { simd, buffer } = host.workspace(backend);
    this.simd = simd;
    this.ints = host.array(backend, view.tensor);
    this.address = block;
    this.#view = view;
    this.#buffer = buffer;
    this.#elements = elements;
  }

  /** The words at `address`. */
  protected get block(): Int32Array {
    return (this.#block ??= new Int32Array(this.#buffer, this.address, this.#elements));
  }

  protected abstract isSelected(element: number): boolean;

  /** `select` for elements of the mask that are next to each other. */
  protected abstract selectFrom(first: number, rows: number, cols: number, selection: number): number;

  select({ row, rows, col, cols }: Tile, selection: number): number {
    const { stride, offset, step } = this.#view;
    const first = row * stride + offset + col * step;
    if (step === 1 && (rows === 1 || stride === cols)) return this.selectFrom(first, rows, cols, selection);
    if (rows === 1) return this.isSelected(first) ? cols : 0;
    for (let r = 0, to = 0; r < rows; r++, to += cols) {
      const start = first + r * stride;
      if (step === 0) this.block.fill(Number(this.isSelected(start)), to, to + cols);
      else for (let c = 0; c < cols; c++) this.block[to + c] = Number(this.isSelected(start + c));
    }
    return this.simd.selectInt32(this.address, rows, cols, selection);
  }
}

class BitSource extends CompactSource {
  readonly #isInPlace: boolean;

  constructor(reading: Reading, view: MatrixView, block: number) {
    super(reading, view, block);
    this.#isInPlace = reading.host.holdsTensors;
  }

  protected override isSelected(element: number): boolean {
    return ((this.ints[Math.floor(element / WORD_BITS)]! >>> (element % WORD_BITS)) & 1) !== 0;
  }

  protected override selectFrom(first: number, rows: number, cols: number, selection: number): number {
    const word = Math.floor(first / WORD_BITS);
    const address = this.#isInPlace
      ? this.ints.byteOffset + word * this.ints.BYTES_PER_ELEMENT
      : this.#copy(word, rows * cols);
    return this.simd.selectBits(address, first % WORD_BITS, rows, cols, selection);
  }

  /** Copies the words from `word` on that the bits of so many elements are in. */
  #copy(word: number, elements: number): number {
    this.block.set(this.ints.subarray(word, word + Math.ceil(elements / WORD_BITS) + WORDS_BEHIND));
    return this.address;
  }
}

class RunSource extends CompactSource {
  protected override isSelected(element: number): boolean {
    const run = firstRunBehind(this.ints, element);
    return run < this.ints.length && this.ints[run]! <= element;
  }

  protected override selectFrom(first: number, rows: number, cols: number, selection: number): number {
    const runs = this.ints;
    const size = rows * cols;
    let run = firstRunBehind(runs, first);
    if (run === runs.length || runs[run]! >= first + size) return 0;
    if (runs[run]! <= first && runs[run + 1]! >= first + size) return size;
    const words = this.block.fill(0, 0, Math.ceil(size / WORD_BITS));
    for (; run < runs.length && runs[run]! < first + size; run += 2) {
      setBits(words, Math.max(runs[run]! - first, 0), Math.min(runs[run + 1]! - first, size));
    }
    return this.simd.selectBits(this.address, 0, rows, cols, selection);
  }
}

/** Sets the bits from `from` to before `to`, at least one. */
function setBits(words: Int32Array, from: number, to: number): void {
  const first = from >>> 5;
  const last = (to - 1) >>> 5;
  // Shifts are modulo 32.
  const head = -1 << from;
  const tail = -1 >>> -to;
  if (first === last) {
    words[first]! |= head & tail;
    return;
  }
  words[first]! |= head;
  words.fill(-1, first + 1, last);
  words[last]! |= tail;
}
