/**
 * Moments on the `cpu` and `wasm` backends: tile by tile through the SIMD module.
 *
 * A tile is a part of a row, or some whole rows if they are short. Per tile every mask is read once, every node of the
 * program computed once, and every channel merged into the records of its rows; a tile in which nothing is selected is
 * passed over. Inputs that are reduced as they are never leave the memory they are in, except on `cpu`, where tiles are
 * copied. What is needed besides is some hundred kilobytes of scratch, whatever the size of the tensors.
 */
import { MomentsTable } from '../../../rows/index.js';
import { Pending } from '../../collect.js';
import type { MomentsKernel, MomentsRequest } from '../../moments/request.js';
import type { SimdExports } from '../../simd/instance.js';
import type { Workspace } from '../../simd/workspace.js';
import type { Host } from '../hosts.js';
import { EVERYTHING, HostMask, NOTHING } from './masks.js';
import { plainTables } from './plain.js';
import {
  type InputKind,
  type Operand,
  type Place,
  type Source,
  type TilePlan,
  type TileStep,
  computation,
  planTiles,
} from './tiles.js';
import { HostMatrix, type Reading, type Tile } from './views.js';

/** The kernel of such a backend. */
export function hostMoments(host: Host): MomentsKernel {
  return (request) => Pending.of(plainTables(host, request) ?? new HostPass(host, request).run());
}

/** Bytes of a record: one row of a table. */
const RECORD = MomentsTable.ROW_BYTES;

/** Bytes for records: as many rows as go in are kept in the memory of the module before they are copied to tables. */
const RECORDS = 2 ** 15;

/** Rows of which there are records at least, however many channels there are. */
const LEAST_RECORDS = 16;

/** Rows of more columns than this have tiles of their own, shorter ones share them. The least that a tile has. */
const LONG_ROW = 512;

/** Bytes for the buffers of a program, which are to stay in the cache: many of them make tiles smaller. */
const BUFFERS = 2 ** 18;

/** Room behind the last element of a buffer, because vectors may end there. */
const BUFFER_REST = 32;

/** Bytes of a cell: one vector. */
const CELL = 16;

const CACHE_LINE = 64;

/** One pass at work. */
class HostPass {
  readonly #request: MomentsRequest;
  readonly #workspace: Workspace;
  readonly #simd: SimdExports;
  /** Most rows and columns of a tile. */
  readonly #tileRows: number;
  readonly #tileCols: number;
  /** Rows of which there are records, and where those of the first channel are, the others behind them. */
  readonly #recordRows: number;
  readonly #records: number;
  /** Room for a selection, for rows with elements that are not finite. */
  readonly #spare: number;
  readonly #inputs: ReadonlyMap<string, HostMatrix>;
  readonly #masks: readonly HostMask[];
  readonly #hasUnmasked: boolean;
  readonly #plan: TilePlan;
  readonly #buffers: readonly number[];
  readonly #cells: readonly number[];
  /** Cells that hold the value of an input in the row of the tile. */
  readonly #rowCells: readonly { readonly matrix: HostMatrix; readonly address: number }[];

  /** The tile at work, and where the record of its first row is among those of a channel. */
  readonly #tile: Tile = { serial: 0, row: 0, rows: 0, col: 0, cols: 0 };
  #record = 0;
  /** Elements to compute: what comes behind is selected by no mask. */
  #length = 0;

  constructor(host: Host, request: MomentsRequest) {
    const { backend, rows, cols, inputs, masks, nodes, channels } = request;
    this.#request = request;
    this.#workspace = host.workspace(backend);
    const { simd } = this.#workspace;
    this.#simd = simd;

    const areRows = rows > 1 && cols <= LONG_ROW;
    const kindOf = (name: string): InputKind => {
      const { step, tensor } = inputs.get(name)!;
      if (step === 0 && !areRows) return 'cell';
      const isFloat32 = host.storesFloat32?.(backend, tensor) ?? tensor.dtype === 'float32';
      return isFloat32 ? 'float32' : 'other';
    };
    this.#plan = planTiles(nodes, new Set(channels.map(({ node }) => node)), kindOf);
    const elements = tileElements(simd, this.#plan.buffers);
    const recordRows = Math.floor(RECORDS / RECORD / channels.length);
    this.#recordRows = Math.min(Math.max(recordRows, LEAST_RECORDS), rows);
    this.#tileRows = areRows ? Math.min(Math.floor(elements / cols), simd.tileRows(), this.#recordRows) : 1;
    this.#tileCols = Math.min(elements, cols);

    const parts = [
      ...Array<number>(masks.length + 1).fill(simd.selectionBytes()),
      channels.length * this.#recordRows * RECORD,
      ...Array<number>(this.#plan.buffers).fill(elements * Float64Array.BYTES_PER_ELEMENT + BUFFER_REST),
      ...Array<number>(this.#plan.cells.length).fill(CELL),
      ...Array<number>(inputs.size + masks.length).fill(elements * Float32Array.BYTES_PER_ELEMENT),
    ];
    const addresses = addressesOf(this.#workspace, parts);
    const take = (count: number): number[] => addresses.splice(0, count);
    const selections = take(masks.length);
    this.#spare = take(1)[0]!;
    this.#records = take(1)[0]!;
    this.#buffers = take(this.#plan.buffers);
    this.#cells = take(this.#plan.cells.length);

    // Only now: what was allocated may have moved the tensors.
    const reading: Reading = { host, backend, cols, elements, areRows };
    this.#inputs = new Map(
      [...inputs].map(([name, view]) => [name, new HostMatrix(reading, view, take(1)[0]!)]),
    );
    this.#masks = masks.map((view, index) => new HostMask(reading, view, take(1)[0]!, selections[index]!));
    this.#hasUnmasked = channels.some(({ mask }) => mask === undefined);
    this.#rowCells = this.#plan.cells.flatMap((content, index) => {
      const address = this.#cells[index]!;
      if (typeof content === 'string') return [{ matrix: this.#inputs.get(content)!, address }];
      this.#fillCell(address, content);
      return [];
    });
  }

  /** One table per channel, in order. */
  run(): MomentsTable[] {
    const { rows, cols, channels } = this.#request;
    const tables = channels.map(() => new MomentsTable(rows));
    const steps = this.#plan.steps.map((step) => this.#stepOf(step));
    const tile = this.#tile;
    for (let first = 0; first < rows; first += this.#recordRows) {
      const end = Math.min(first + this.#recordRows, rows);
      this.#simd.clearRecords(this.#records, channels.length * this.#recordRows);
      for (tile.row = first; tile.row < end; tile.row += this.#tileRows) {
        tile.rows = Math.min(this.#tileRows, end - tile.row);
        this.#record = (tile.row - first) * RECORD;
        for (tile.col = 0; tile.col < cols; tile.col += this.#tileCols) {
          tile.cols = Math.min(this.#tileCols, cols - tile.col);
          if (this.#begin()) for (const step of steps) step();
        }
      }
      this.#deliver(tables, first, end);
    }
    return tables;
  }

  /** Prepares the tile; false if there is nothing to do. */
  #begin(): boolean {
    const tile = this.#tile;
    tile.serial++;
    let isNeeded = this.#hasUnmasked;
    for (const mask of this.#masks) if (mask.select(tile) !== NOTHING) isNeeded = true;
    if (!isNeeded) return false;
    this.#length = this.#hasUnmasked ? tile.rows * tile.cols : 0;
    if (this.#plan.buffers > 0) {
      for (const mask of this.#masks) this.#length = Math.max(this.#length, mask.end(tile));
    }
    for (const { matrix, address } of this.#rowCells) this.#fillCell(address, matrix.valueAt(tile.row));
    return true;
  }

  #fillCell(address: number, value: number): void {
    const index = address / Float64Array.BYTES_PER_ELEMENT;
    this.#workspace.float64.fill(value, index, index + 2);
  }

  #stepOf(step: TileStep): () => void {
    const simd = this.#simd;
    const tile = this.#tile;
    if (step.kind === 'deliver') return this.#reduction(step.node, step.from);
    const out = this.#buffers[step.buffer]!;
    if (step.kind === 'compute') {
      const operands = step.args.map((place) => this.#operandAt(place));
      const compute = computation(simd, step.op, operands, out);
      return () => {
        compute(this.#length);
      };
    }
    if (step.kind === 'difference') {
      const [left, right] = step.inputs.map((name) => this.#inputs.get(name)!);
      return () => {
        simd.subtractFloat32(left!.locate(tile), right!.locate(tile), this.#length, out);
      };
    }
    const matrix = this.#inputs.get(step.input)!;
    const widen = simd[`widen${matrix.storage}`];
    return () => {
      widen(matrix.locate(tile), this.#length, out);
    };
  }

  #operandAt(place: Place): Operand {
    return 'cell' in place
      ? { address: this.#cells[place.cell]!, step: 0 }
      : { address: this.#buffers[place.buffer]!, step: 16 };
  }

  /** Merges the values of a node into the records of its channels. */
  #reduction(node: number, from: Source): () => void {
    const { channels } = this.#request;
    const targets = channels.flatMap(({ node: of, mask }, index) => {
      const records = this.#records + index * this.#recordRows * RECORD;
      return of === node ? [{ mask: mask === undefined ? undefined : this.#masks[mask], records }] : [];
    });
    const reduce = this.#reducerOf(from);
    return () => {
      for (const { mask, records } of targets) {
        const selection = mask === undefined ? EVERYTHING : mask.selection;
        if (selection !== NOTHING) reduce(selection, records + this.#record);
      }
    };
  }

  /** Reduces the tile of a source into records at `out`. */
  #reducerOf(from: Source): (selection: number, out: number) => void {
    const simd = this.#simd;
    const tile = this.#tile;
    const spare = this.#spare;
    if ('cell' in from) {
      const index = this.#cells[from.cell]! / Float64Array.BYTES_PER_ELEMENT;
      return (selection, out) => {
        simd.reduceConstant(this.#workspace.float64[index]!, tile.rows, tile.cols, selection, out);
      };
    }
    if ('buffer' in from) {
      const address = this.#buffers[from.buffer]!;
      return (selection, out) => {
        simd.reduceFloat64(address, tile.rows, tile.cols, selection, spare, out);
      };
    }
    const matrix = this.#inputs.get(from.input)!;
    const reduce = simd[`reduce${matrix.storage}`];
    return (selection, out) => {
      reduce(matrix.locate(tile), tile.rows, tile.cols, selection, spare, out);
    };
  }

  /** Copies the records of the rows from `first` to `end` into the tables. */
  #deliver(tables: readonly MomentsTable[], first: number, end: number): void {
    const { float64 } = this.#workspace;
    tables.forEach((table, index) => {
      const from = (this.#records + index * this.#recordRows * RECORD) / Float64Array.BYTES_PER_ELEMENT;
      const records = float64.subarray(from, from + (end - first) * MomentsTable.WIDTH);
      table.cells.set(records, first * MomentsTable.WIDTH);
    });
  }
}

/** Elements of a tile of a program that has so many buffers. */
function tileElements(simd: SimdExports, buffers: number): number {
  const affordable = BUFFERS / Float64Array.BYTES_PER_ELEMENT / Math.max(buffers, 1);
  const elements = Math.floor(affordable / LONG_ROW) * LONG_ROW;
  return Math.max(LONG_ROW, Math.min(elements, simd.tileElements()));
}

/** Where parts of so many bytes are in the scratch, each at a cache line. */
function addressesOf(workspace: Workspace, parts: readonly number[]): number[] {
  const sizes = parts.map((bytes) => Math.ceil(bytes / CACHE_LINE) * CACHE_LINE);
  let next = workspace.scratch(sizes.reduce((total, size) => total + size, 0));
  return sizes.map((size) => (next += size) - size);
}
