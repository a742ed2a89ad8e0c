/**
 * The common pass on a host: tensors reduced as they are, or counted, over one row under at most one mask.
 *
 * It does what host-loop.ts does, which a test holds it to, without a program, a plan and a closure per step: records of
 * trackers are many and small, and cost as much to prepare as to reduce.
 */
import { MomentsTable } from '../../../rows/index.js';
import type { MomentsRequest } from '../../moments/request.js';
import type { SimdExports } from '../../simd/instance.js';
import type { Host } from '../hosts.js';
import { EVERYTHING, HostMask, NOTHING } from './masks.js';
import { HostMatrix, type Reading, type Tile } from './views.js';

const RECORD = MomentsTable.ROW_BYTES;

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
  const maskBytes = elements * Int32Array.BYTES_PER_ELEMENT;
  const selection = workspace.scratch(
    2 * selectionBytes + recordsBytes + maskBytes + inputs.size * blockBytes,
  );
  const spare = selection + selectionBytes;
  const records = spare + selectionBytes;
  const maskBlock = records + recordsBytes;
  let nextBlock = maskBlock + maskBytes;
  const takeBlock = (): number => (nextBlock += blockBytes) - blockBytes;

  // Only now: what was allocated may have moved the tensors.
  const reading: Reading = { host, backend, cols, elements, areRows: false };
  const mask = masks[0] && new HostMask(reading, masks[0], maskBlock, selection);
  // One per input, however many channels read it: that is what there is room for, and a tile is copied once.
  const matrixOf = new Map(
    [...inputs].map(([name, view]) => [name, new HostMatrix(reading, view, takeBlock())]),
  );
  const matrices: (HostMatrix | undefined)[] = [];
  const reduces: Reduce[] = [];
  for (const { node } of channels) {
    const part = nodes[node]!;
    const matrix = part.op === 'input' ? matrixOf.get(part.name) : undefined;
    matrices.push(matrix);
    reduces.push(simd[`reduce${matrix?.storage ?? 'Float32'}`]);
  }

  simd.clearRecords(records, channels.length);
  const tile: Tile = { serial: 0, row: 0, rows: 1, col: 0, cols: 0 };
  for (; tile.col < cols; tile.col += elements) {
    tile.serial++;
    tile.cols = Math.min(elements, cols - tile.col);
    const selected = mask === undefined ? EVERYTHING : mask.select(tile);
    for (let i = 0; i < channels.length; i++) {
      const chosen = channels[i]!.mask === undefined ? EVERYTHING : selected;
      if (chosen === NOTHING) continue;
      const matrix = matrices[i];
      const out = records + i * RECORD;
      if (matrix === undefined) simd.reduceConstant(constantOf(request, i), 1, tile.cols, chosen, out);
      else reduces[i]!(matrix.locate(tile), 1, tile.cols, chosen, spare, out);
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
