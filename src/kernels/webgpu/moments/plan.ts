/**
 * How a moments request is cut into launches that a GPU can run: as few as its limits allow, one in ordinary cases.
 *
 * Channels are grouped so that their tensors fit the buffers that a shader may bind; the matrix is cut into blocks so
 * that what a block reads of each tensor, and what it writes, fits one binding.
 */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { BackendError } from '../../../errors.js';
import { WORD_BITS } from '../../masks/forms.js';
import type { MatrixView, MomentsRequest } from '../../moments/request.js';
import { argsOf, prune } from '../../program.js';
import type { GpuLimits } from '../device.js';
import { RECORD_WORDS, TILE } from './accumulator.js';
import { WORKGROUP } from './tree.js';

/** Channels that share a launch, and what they read. */
export interface ChannelGroup {
  /** Their places in the request. */
  readonly channels: readonly number[];
  readonly inputs: readonly string[];
  /** Places in the request's masks. */
  readonly masks: readonly number[];
  /** The tensors behind inputs and masks, each once. */
  readonly buffers: readonly TensorInfo[];
}

/** A part of the matrix. */
export interface Block {
  readonly firstRow: number;
  readonly rows: number;
  readonly firstCol: number;
  readonly cols: number;
}

/** The units of a block: chunks of rows. */
export interface Chunking {
  readonly chunks: number;
  readonly chunkLength: number;
  /** Invocations that share a chunk. */
  readonly lanes: number;
}

/** What a binding shows of a tensor, and where the elements of its views are in there. */
export interface Window {
  /** In elements of the tensor; of a packed mask those are words. */
  readonly first: number;
  readonly length: number;
}

/** How the work of a pass is spread. */
export interface Tuning {
  /** Units to aim for. */
  readonly wantedUnits: number;
  /** Elements that a lane should at least have before another one helps it. */
  readonly perLane: number;
}

/** 16 workgroups for each of the 132 multiprocessors of a large GPU, and as many lanes as find work. */
const GPU_TUNING: Tuning = { wantedUnits: 2112, perLane: TILE };
/** A CPU has few threads, and merging lanes is what costs there. */
const SOFTWARE_TUNING: Tuning = { wantedUnits: 64, perLane: 256 };

export function tuningFor({ isSoftware }: { readonly isSoftware: boolean }): Tuning {
  return isSoftware ? SOFTWARE_TUNING : GPU_TUNING;
}

/** Chunks are not cut smaller than this, so that small tensors stay one unit. */
const MIN_CHUNK = 2048;
/** Nor longer: a lane then adds at most 64 tiles, and rounding does not pile up. */
const MAX_CHUNK = 64 * WORKGROUP * TILE;

/**
 * Groups the channels of a request.
 *
 * @throws BackendError for a channel of more tensors than a shader may bind
 */
export function groupChannels(request: MomentsRequest, limits: GpuLimits): ChannelGroup[] {
  const available = limits.maxStorageBuffersPerShaderStage - 1; // one is for the records
  const all = groupOf(
    request,
    request.channels.map((_, channel) => channel),
    [...request.inputs.keys()],
  );
  if (all.buffers.length <= available && weightOf(request, all.channels) <= MAX_WEIGHT) return [all];
  const groups: ChannelGroup[] = [];
  const inputsOf = nodeInputs(request);
  request.channels.forEach(({ node }, channel) => {
    const last = groups.at(-1);
    const names = [...inputsOf[node]!];
    const together =
      last && groupOf(request, [...last.channels, channel], [...new Set([...last.inputs, ...names])]);
    if (
      together !== undefined &&
      together.buffers.length <= available &&
      weightOf(request, together.channels) <= MAX_WEIGHT
    ) {
      groups[groups.length - 1] = together;
      return;
    }
    const alone = groupOf(request, [channel], names);
    if (alone.buffers.length > available) {
      throw new BackendError({
        where: 'channelMoments',
        input: names.at(-1)!,
        expected: `a channel of at most ${available} tensors with its mask, the most this device can bind`,
        received: `one of ${alone.buffers.length}: ${names.join(', ')}`,
        remedy: 'compute a part of the expression into a tensor of its own',
      });
    }
    const weight = weightOf(request, [channel]);
    if (weight > 2 * MAX_WEIGHT) {
      throw new BackendError({
        where: 'channelMoments',
        input: 'channels',
        expected: `an expression that a shader can hold: at most ${2 * MAX_WEIGHT} simple operations, an exponential or logarithm counting as ${HEAVY_WEIGHT}`,
        received: `one that counts as ${weight}`,
        remedy: 'compute a part of the expression into a tensor of its own',
      });
    }
    groups.push(alone);
  });
  return groups;
}

/**
 * Simple operations that one shader holds. Compilers take longer than in proportion to the text, and a software GPU
 * crashes at about forty exponentials.
 */
const MAX_WEIGHT = 600;
const HEAVY_WEIGHT = 32;
/** Reducing a channel costs as much text as so many operations. */
const CHANNEL_WEIGHT = 8;
const HEAVY: ReadonlySet<string> = new Set(['exp', 'expm1', 'log', 'log1p', 'expm1Residual']);

/** How much a shader for these channels holds. */
function weightOf({ nodes, channels: all }: MomentsRequest, channels: readonly number[]): number {
  const outputs = channels.map((channel) => all[channel]!.node);
  const operations = prune({ nodes, outputs }).nodes;
  const weights = operations.map(({ op }) => (HEAVY.has(op) ? HEAVY_WEIGHT : 1));
  return weights.reduce((sum, weight) => sum + weight, CHANNEL_WEIGHT * channels.length);
}

function groupOf(
  { channels: all, masks: allMasks, inputs: views }: MomentsRequest,
  channels: readonly number[],
  inputs: readonly string[],
): ChannelGroup {
  const masks = [...new Set(channels.map((channel) => all[channel]!.mask))].filter(
    (mask) => mask !== undefined,
  );
  const tensors = [
    ...inputs.map((name) => views.get(name)!.tensor),
    ...masks.map((mask) => allMasks[mask]!.tensor),
  ];
  const buffers = [...new Map(tensors.map((tensor) => [tensor.dataId, tensor])).values()];
  return { channels, inputs, masks, buffers };
}

/** Names of the inputs that each node needs. */
function nodeInputs({ nodes }: MomentsRequest): ReadonlySet<string>[] {
  const needs: Set<string>[] = [];
  for (const node of nodes) {
    const own = node.op === 'input' ? [node.name] : argsOf(node).flatMap((arg) => [...needs[arg]!]);
    needs.push(new Set(own));
  }
  return needs;
}

/** Cuts the matrix for views of `group` into blocks that can be bound. */
export function blocksOf(
  request: MomentsRequest,
  group: ChannelGroup,
  limits: GpuLimits,
  tuning: Tuning,
): Block[] {
  const { rows, cols } = request;
  const views = viewsOf(request, group);
  const whole = { firstRow: 0, rows, firstCol: 0, cols };
  const bytes = limits.maxStorageBufferBindingSize;
  const recordBytes = RECORD_WORDS * 4 * group.channels.length;
  const fits = (block: Block): boolean =>
    recordBytes * block.rows * chunkingOf(block.rows, block.cols, tuning).chunks <= bytes &&
    [...windowsOf(views, block, limits).values()].every(({ length }) => 4 * length <= bytes);
  if (fits(whole)) return [whole];
  const cut = (height: number, width: number): Block[] => {
    const blocks: Block[] = [];
    for (let firstRow = 0; firstRow < rows; firstRow += height) {
      for (let firstCol = 0; firstCol < cols; firstCol += width) {
        blocks.push({
          firstRow,
          rows: Math.min(height, rows - firstRow),
          firstCol,
          cols: Math.min(width, cols - firstCol),
        });
      }
    }
    return blocks;
  };
  // Halving finds a size within a factor of two of the largest, and a cut at a multiple of 64 elements stays aligned.
  // Blocks of one size need not fit alike: a binding begins at a multiple of some bytes, before most of them.
  let [height, width] = [rows, cols];
  while (height > 1 && !cut(height, width).every(fits)) height = Math.ceil(height / 2);
  while (width > 1 && !cut(height, width).every(fits)) width = halfOf(width);
  return cut(height, width);
}

function halfOf(width: number): number {
  const half = Math.ceil(width / 2);
  return half > 64 ? 64 * Math.ceil(half / 64) : half;
}

/** The views of a group: its inputs, then its masks. */
export function viewsOf(request: MomentsRequest, { inputs, masks }: ChannelGroup): MatrixView[] {
  return [...inputs.map((name) => request.inputs.get(name)!), ...masks.map((mask) => request.masks[mask]!)];
}

/** What has to be bound of every tensor for the views of a block. */
export function windowsOf(
  views: readonly MatrixView[],
  block: Block,
  { minStorageBufferOffsetAlignment }: GpuLimits,
): Map<object, Window> {
  const alignment = minStorageBufferOffsetAlignment / 4;
  const windows = new Map<object, Window>();
  for (const { tensor, stride, offset, step, form } of views) {
    const perElement = form === 'bits' ? WORD_BITS : 1;
    const start = block.firstRow * stride + offset + block.firstCol * step;
    const stop = start + (block.rows - 1) * stride + (block.cols - 1) * step + 1;
    const [begin, end] = [Math.floor(start / perElement), Math.ceil(stop / perElement)];
    const other = windows.get(tensor.dataId);
    const first = Math.min(other?.first ?? Infinity, alignment * Math.floor(begin / alignment));
    // A whole vector of four where there is one: the last one is read as such.
    const size = tensor.shape.reduce((product, n) => product * n, 1);
    const last = Math.max(
      other === undefined ? 0 : other.first + other.length,
      Math.min(4 * Math.ceil(end / 4), size),
    );
    windows.set(tensor.dataId, { first, length: last - first });
  }
  return windows;
}

/** Cuts rows into chunks. */
export function chunkingOf(rows: number, cols: number, { wantedUnits, perLane }: Tuning): Chunking {
  const filling = Math.min(Math.ceil(cols / MIN_CHUNK), Math.floor(wantedUnits / rows));
  const wanted = Math.max(1, filling, Math.ceil(cols / MAX_CHUNK));
  const chunkLength = 4 * Math.ceil(cols / wanted / 4);
  return {
    chunks: Math.ceil(cols / chunkLength),
    chunkLength,
    lanes: Math.min(WORKGROUP, 2 ** Math.ceil(Math.log2(Math.max(1, chunkLength / perLane)))),
  };
}
