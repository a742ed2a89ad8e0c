/**
 * The common pass on a host: tensors reduced as they are, or counted, over one row under at most one mask.
 *
 * It does what host-loop.ts does, which a test holds it to, without a program, a plan and a closure per step: records of
 * trackers are many and small, and cost as much to prepare as to reduce.
 */
import type { HostArray } from '../host-arrays.js';
import type { SimdExports } from '../simd/instance.js';
import { EVERYTHING, type Host, NOTHING, storageOf, viewOf } from './host-views.js';
import { MomentsTable } from './record.js';
import type { MatrixView, MomentsRequest } from './request.js';

const RECORD = MomentsTable.ROW_BYTES;

/** A row of elements, read where it is or through a block that tiles of it are copied to. */
interface Row {
  readonly array: HostArray;
  readonly offset: number;
  /** Where its first element is, or where the block is. */
  readonly address: number;
  readonly block: HostArray | undefined;
}

/** Reduces a tile of a row; a selection is an address, EVERYTHING or NOTHING. */
type Reduce = SimdExports['reduceFloat32'];

/** One table per channel, in order; undefined for a request that is of another kind. */
export function plainTables(host: Host, request: MomentsRequest): MomentsTable[] | undefined {
  const { backend, cols, inputs, masks, nodes, channels } = request;
  if (!isPlain(request)) return undefined;
  const workspace = host.workspace(backend);
  const { simd } = workspace;
  const elements = Math.min(simd.tileElements(), Math.ceil(cols / 4) * 4);
  const selectionBytes = simd.selectionBytes();
  const recordsBytes = channels.length * RECORD;
  const blockBytes = host.holdsTensors ? 0 : elements * Float32Array.BYTES_PER_ELEMENT;
  const selection = workspace.scratch(2 * selectionBytes + recordsBytes + (inputs.size + 1) * blockBytes);
  const spare = selection + selectionBytes;
  const records = spare + selectionBytes;
  let nextBlock = records + recordsBytes;

  // Only now: what was allocated may have moved the tensors.
  const rowOf = ({ tensor, offset }: MatrixView): Row => {
    const array = host.array(backend, tensor);
    if (host.holdsTensors) {
      return {
        array,
        offset,
        address: array.byteOffset + offset * array.BYTES_PER_ELEMENT,
        block: undefined,
      };
    }
    const address = nextBlock;
    nextBlock += blockBytes;
    return { array, offset, address, block: viewOf(storageOf(array), workspace.buffer, address, elements) };
  };
  const mask = masks[0] && rowOf(masks[0]);
  const select = mask && simd[`select${storageOf(mask.array)}`];
  const rows: (Row | undefined)[] = [];
  const reduces: Reduce[] = [];
  for (const { node } of channels) {
    const part = nodes[node]!;
    const row = part.op === 'input' ? rowOf(inputs.get(part.name)!) : undefined;
    rows.push(row);
    reduces.push(simd[`reduce${row === undefined ? 'Float32' : storageOf(row.array)}`]);
  }

  simd.clearRecords(records, channels.length);
  for (let start = 0; start < cols; start += elements) {
    const length = Math.min(elements, cols - start);
    let selected = EVERYTHING;
    if (mask !== undefined) {
      const count = select!(locate(mask, start, length), 1, length, selection);
      selected = count === 0 ? NOTHING : count === length ? EVERYTHING : selection;
    }
    for (let i = 0; i < channels.length; i++) {
      const chosen = channels[i]!.mask === undefined ? EVERYTHING : selected;
      if (chosen === NOTHING) continue;
      const row = rows[i];
      const out = records + i * RECORD;
      if (row === undefined) simd.reduceConstant(constantOf(request, i), 1, length, chosen, out);
      else reduces[i]!(locate(row, start, length), 1, length, chosen, spare, out);
    }
  }
  const { float64 } = workspace;
  return channels.map((_, i) => {
    const table = new MomentsTable(1);
    const from = (records + i * RECORD) / Float64Array.BYTES_PER_ELEMENT;
    for (let k = 0; k < MomentsTable.WIDTH; k++) table.cells[k] = float64[from + k]!;
    return table;
  });
}

/** Whether all channels are inputs or constants over one row of elements that are next to each other. */
function isPlain({ rows, inputs, masks, nodes, channels }: MomentsRequest): boolean {
  if (rows !== 1 || masks.length > 1 || masks[0]?.step === 0) return false;
  return channels.every(({ node }) => {
    const part = nodes[node]!;
    return part.op === 'constant' || (part.op === 'input' && inputs.get(part.name)!.step === 1);
  });
}

function constantOf({ nodes, channels }: MomentsRequest, channel: number): number {
  const node = nodes[channels[channel]!.node]!;
  return node.op === 'constant' ? node.value : NaN;
}

/** The address of the elements of a tile. */
function locate({ array, offset, address, block }: Row, start: number, length: number): number {
  if (block === undefined) return address + start * array.BYTES_PER_ELEMENT;
  block.set(array.subarray(offset + start, offset + start + length));
  return address;
}
