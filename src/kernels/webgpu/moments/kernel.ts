/** Masked moments on the `webgpu` backend: one fused launch per pass, chunk records merged on the host in float64. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { MomentsTable } from '../../../rows/index.js';
import { DeviceBlock, Pending } from '../../collect.js';
import { WORD_BITS } from '../../masks/forms.js';
import type { MatrixView, MomentsKernel, MomentsRequest } from '../../moments/request.js';
import { type DeviceBuffer, type WebGpuDevice, webGpuDevice } from '../device.js';
import { SPECIAL_UNIFORMS } from '../wgsl-functions.js';
import { RECORD_WORDS } from './accumulator.js';
import {
  type Block,
  type ChannelGroup,
  type Window,
  blocksOf,
  chunkingOf,
  groupChannels,
  tuningFor,
  viewsOf,
  windowsOf,
} from './plan.js';
import { type BufferShape, type PassShape, joinRecordsText, passText, passUniforms } from './program.js';
import { type RecordLayout, mergeRecords } from './records.js';
import { type Team, WORKGROUP } from './tree.js';

const RECORD_BYTES = RECORD_WORDS * 4;

/**
 * Workgroup memory to use at most. Every workgroup clears it when it starts, and it decides how many of them a
 * multiprocessor holds; a CPU that plays a GPU compiles one instruction per word of it.
 */
const WORKGROUP_BYTES = 4096;

/** Records of a launch that the host merges at once; the device joins the chunks of larger ones first. */
const MAX_READ_BYTES = 64 * 1024;
/** Fewer chunks per row than this are not worth another launch. */
const LEAST_TO_JOIN = 8;

/** Records on the device and where they belong. */
interface Launched extends RecordLayout {
  readonly records: DeviceBuffer;
}

export const webgpuMoments: MomentsKernel = (request) => {
  const device = webGpuDevice(request.backend);
  const launches = groupChannels(request, device.limits).flatMap((group) =>
    blocksOf(request, group, device.limits, tuningFor(device)).map((block) => ({ group, block })),
  );
  const parts = Pending.launchAll<((tables: readonly MomentsTable[]) => void)[]>(
    launches.map(
      ({ group, block }) =>
        () =>
          launch(device, request, group, block),
    ),
  );
  return parts.map((mergeInto) => {
    const tables = request.channels.map(() => new MomentsTable(request.rows));
    for (const merge of mergeInto) merge(tables);
    return tables;
  });
};

/** Launches one block for one group of channels; the result merges it into the tables of the request. */
function launch(
  device: WebGpuDevice,
  request: MomentsRequest,
  group: ChannelGroup,
  block: Block,
): Pending<(tables: readonly MomentsTable[]) => void> {
  const { records, ...layout } = joinChunks(
    device,
    group.channels.length,
    launchPass(device, request, group, block),
  );
  return new Pending([new DeviceBlock(device, records)], ([contents]) => (tables) => {
    group.channels.forEach((channel, c) => {
      mergeRecords(tables[channel]!, contents!, c, layout);
    });
  });
}

function launchPass(
  device: WebGpuDevice,
  request: MomentsRequest,
  group: ChannelGroup,
  block: Block,
): Launched {
  const { rows, cols } = block;
  const { chunks, chunkLength, lanes } = chunkingOf(rows, cols, tuningFor(device));
  const views = viewsOf(request, group);
  const windows = windowsOf(views, block, device.limits);
  const placed = views.map((view) => placeIn(windows.get(view.tensor.dataId)!, view, block));
  const packed = new Set(views.flatMap(({ tensor, form }) => (form === 'bits' ? [tensor.dataId] : [])));
  const buffers = group.buffers.map((tensor): BufferShape => ({
    type: device.bufferDtype(tensor) === 'float32' ? 'f32' : 'i32',
    isPacked: packed.has(tensor.dataId),
    isVector: views.every(
      (view, v) => view.tensor.dataId !== tensor.dataId || isVector(placed[v]!, view.step, rows, cols),
    ),
  }));
  const bufferOf = ({ tensor, step }: MatrixView) => ({
    buffer: group.buffers.findIndex(({ dataId }) => dataId === tensor.dataId),
    step,
  });
  const shape: PassShape = {
    nodes: request.nodes,
    channels: group.channels.map((channel) => {
      const { node, mask } = request.channels[channel]!;
      return { node, mask: mask === undefined ? undefined : group.masks.indexOf(mask) };
    }),
    inputs: group.inputs.map((name) => ({ name, ...bufferOf(request.inputs.get(name)!) })),
    masks: group.masks.map((mask) => bufferOf(request.masks[mask]!)),
    buffers,
    team: teamOf(device, group.channels.length, lanes),
  };
  const units = rows * chunks;
  const records = device.acquire(group.channels.length * units * RECORD_BYTES);
  try {
    device.launch({
      // JSON has no −0.
      key: `tensortally moments ${JSON.stringify(shape, (_, x: unknown) => (Object.is(x, -0) ? '-0' : x))}`,
      text: () => passText(shape),
      bindings: [
        { source: records },
        ...group.buffers.map((source) => bindingOf(source, windows.get(source.dataId)!)),
      ],
      uniforms: passUniforms({ units, cols, chunks, chunkLength, views: placed }),
      workgroups: device.gridOf(teams(units, lanes)),
    });
  } catch (error) {
    device.release(records);
    throw error;
  }
  return { records, firstRow: block.firstRow, rows, chunks };
}

/** Joins the chunks of every row on the device until the read-back is small. */
function joinChunks(device: WebGpuDevice, channels: number, launched: Launched): Launched {
  const { records: source, rows, chunks } = launched;
  if (source.size <= MAX_READ_BYTES || chunks < LEAST_TO_JOIN) return launched;
  const parts = Math.ceil(chunks / WORKGROUP);
  const units = channels * rows * parts;
  const team = teamOf(device, 1, WORKGROUP);
  const records = device.acquire(units * RECORD_BYTES);
  try {
    device.launch({
      key: `tensortally moments join ${JSON.stringify(team)}`,
      text: () => joinRecordsText(team),
      bindings: [{ source: records }, { source }],
      uniforms: Uint32Array.of(units, parts, chunks, WORKGROUP, SPECIAL_UNIFORMS.noBits),
      workgroups: device.gridOf(units),
    });
  } catch (error) {
    device.release(records);
    throw error;
  } finally {
    device.release(source);
  }
  return joinChunks(device, channels, { ...launched, records, chunks: parts });
}

function teamOf(device: WebGpuDevice, channels: number, lanes: number): Team {
  const { subgroups } = device;
  return {
    channels,
    lanes,
    // A subgroup larger than the workgroup would leave some of its places empty.
    subgroups: subgroups !== undefined && subgroups.max <= WORKGROUP ? { min: subgroups.min } : undefined,
    memory: Math.min(WORKGROUP_BYTES, device.limits.maxComputeWorkgroupStorageSize),
  };
}

/** Workgroups for `units` that `lanes` invocations share each. */
function teams(units: number, lanes: number): number {
  return Math.ceil(units / (WORKGROUP / lanes));
}

/** Where a view of a block is in what is bound of its tensor. */
function placeIn(
  window: Window,
  { stride, offset, step, form }: MatrixView,
  { firstRow, firstCol }: Block,
): { stride: number; offset: number } {
  const before = window.first * (form === 'bits' ? WORD_BITS : 1);
  return { stride, offset: firstRow * stride + offset + firstCol * step - before };
}

/** Whether all rows begin and end at multiples of four. */
function isVector(
  { stride, offset }: { stride: number; offset: number },
  step: 0 | 1,
  rows: number,
  cols: number,
): boolean {
  return step === 1 && cols % 4 === 0 && offset % 4 === 0 && (stride % 4 === 0 || rows === 1);
}

function bindingOf(
  source: TensorInfo,
  { first, length }: Window,
): {
  source: TensorInfo;
  offset?: number;
  size?: number;
} {
  return { source, offset: 4 * first, size: 4 * length };
}
