/** Masked moments on the `webgpu` backend: one fused launch per pass, chunk records merged on the host in float64. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';
import { DeviceBlock, Pending } from '../collect.js';
import { type Expression, inputNames } from '../expression.js';
import { type GpuLimits, type WebGpuDevice, webGpuDevice } from '../webgpu-device.js';
import { type MomentsRow, MomentsTable } from './record.js';
import type { MomentsKernel, MomentsRequest } from './request.js';
import {
  type BufferType,
  type ProgramShape,
  RECORD_WORDS,
  channelType,
  momentsProgram,
} from './webgpu-program.js';

/** Units to aim for: enough workgroups to fill a large GPU, few enough for the host to merge at once. */
const WANTED_UNITS = 1024;
/** Chunks are not cut smaller than this, so that small tensors stay one unit. */
const MIN_CHUNK = 2048;

export const webgpuMoments: MomentsKernel = (request) => {
  const device = webGpuDevice(request.backend);
  assertBindable(request, device.limits);
  const groups = splitByBindings(request, device.limits);
  const tables = Pending.launchAll<MomentsTable[][]>(
    groups.map((channels) => () => launch(device, request, channels)),
  );
  return tables.map((all) => all.flat());
};

/** Channels in groups whose inputs fit the number of buffers that a shader may bind. */
function splitByBindings(request: MomentsRequest, limits: GpuLimits): Expression[][] {
  const available = limits.maxStorageBuffersPerShaderStage - 1 - (request.mask === undefined ? 0 : 1);
  const groups: Expression[][] = [];
  let bound = new Set<string>();
  for (const channel of request.channels) {
    const together = new Set([...bound, ...inputNames(channel)]);
    if (groups.length > 0 && together.size <= available) {
      groups.at(-1)!.push(channel);
      bound = together;
    } else {
      groups.push([channel]);
      bound = new Set(inputNames(channel));
    }
  }
  return groups;
}

function launch(
  device: WebGpuDevice,
  request: MomentsRequest,
  channels: readonly Expression[],
): Pending<MomentsTable[]> {
  const { rows, cols, mask } = request;
  const names = [...new Set(channels.flatMap(inputNames))];
  const chunks = Math.max(1, Math.min(Math.ceil(cols / MIN_CHUNK), Math.floor(WANTED_UNITS / rows)));
  const chunkLength = Math.ceil(cols / chunks);
  const units = rows * chunks;
  const shape: ProgramShape = {
    channels,
    inputs: names.map((name) => ({ name, type: bufferType(device, request.inputs.get(name)!) })),
    mask: mask && bufferType(device, mask.tensor),
  };
  const sizes = {
    units,
    cols,
    chunks,
    chunkLength,
    maskStride: mask?.stride ?? 0,
    maskOffset: mask?.offset ?? 0,
  };
  const { program, uniforms } = momentsProgram(shape, sizes, device.limits.maxComputeWorkgroupsPerDimension);
  const buffers = names.map((name) => flat(request.inputs.get(name)!));
  if (mask !== undefined) buffers.push(flat(mask.tensor));
  const result = device.run(program, buffers, 'int32', uniforms);
  const types = channels.map((channel) => channelType(channel, shape));
  return new Pending([new DeviceBlock(device, result)], ([bytes]) =>
    types.map((type, index) => decodeTable(bytes!, type, index * units, rows, chunks)),
  );
}

function bufferType(device: WebGpuDevice, info: TensorInfo): BufferType {
  return device.bufferDtype(info) === 'float32' ? 'f32' : 'i32';
}

/** The same buffer seen as a vector: the program indexes it itself, and one pipeline serves all ranks. */
function flat(info: TensorInfo): TensorInfo {
  return { ...info, shape: [info.shape.reduce((size, n) => size * n, 1)] };
}

/** @throws BackendError for a tensor larger than the device can bind */
function assertBindable(request: MomentsRequest, limits: GpuLimits): void {
  const tensors = new Map(request.inputs);
  if (request.mask !== undefined) tensors.set('mask', request.mask.tensor);
  for (const [name, info] of tensors) {
    const bytes = 4 * flat(info).shape[0]!;
    if (bytes <= limits.maxStorageBufferBindingSize) continue;
    throw new BackendError({
      where: 'maskedMoments',
      input: name,
      expected: `a tensor of at most ${limits.maxStorageBufferBindingSize} bytes, the most this device can bind`,
      received: `shape [${info.shape.join(', ')}], ${bytes} bytes`,
      remedy: 'split the batch along its first axis and merge the results',
    });
  }
}

/** The table of one channel: the records of the chunks of a row merge in order. */
function decodeTable(
  bytes: ArrayBuffer,
  type: BufferType,
  firstUnit: number,
  rows: number,
  chunks: number,
): MomentsTable {
  const table = new MomentsTable(rows);
  const words = new DataView(bytes);
  for (let unit = 0; unit < rows * chunks; unit++) {
    const record = decodeRecord(words, (firstUnit + unit) * RECORD_WORDS * 4, type);
    if (chunks === 1) table.set(unit, record);
    else table.add(Math.floor(unit / chunks), record);
  }
  return table;
}

/** See `writeRecord` in the shader. GPUs that Dawn supports are little-endian. */
function decodeRecord(words: DataView, at: number, type: BufferType): MomentsRow {
  const u32 = (word: number): number => words.getUint32(at + word * 4, true);
  const f32 = (word: number): number => words.getFloat32(at + word * 4, true);
  const i32 = (word: number): number => words.getInt32(at + word * 4, true);
  const element = type === 'f32' ? f32 : i32;
  const finite = u32(0);
  const [nan, posInf, negInf] = [u32(1), u32(2), u32(3)];
  return {
    count: finite + nan + posInf + negInf,
    nan,
    posInf,
    negInf,
    sum: finite === 0 ? 0 : element(4) * finite + f32(6) * 2 ** i32(5),
    m2: finite === 0 ? 0 : f32(8) * 4 ** i32(7),
    min: finite === 0 ? Infinity : element(9),
    max: finite === 0 ? -Infinity : element(10),
  };
}
