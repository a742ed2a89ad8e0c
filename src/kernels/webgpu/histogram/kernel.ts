/**
 * Histograms on the `webgpu` backend: one launch per tensor, or per part of it that the device can bind.
 *
 * A tensor has a launch of its own because its counts fill the memory of a workgroup; the mask, which all of them read,
 * is then in the cache of the device.
 */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { buckets, histogramOfSlots } from '../../../rows/index.js';
import { DeviceBlock, Pending } from '../../collect.js';
import type { HistogramKernel, HistogramRequest } from '../../histogram/request.js';
import { type DeviceBuffer, type WebGpuDevice, webGpuDevice } from '../device.js';
import {
  MOST_PER_WORKGROUP,
  type BufferType,
  type ProgramShape,
  WORKGROUP,
  clearText,
  histogramText,
} from './program.js';

const WORD_BYTES = 4;
const BYTE_BITS = 8;
const TABLE_BYTES = buckets.SLOTS * WORD_BYTES;

/** 8 workgroups for each of the 132 multiprocessors of a large GPU. */
const WANTED_WORKGROUPS = 1056;
/** Fewer elements than this are not worth the counters that a workgroup clears and adds up. */
const LEAST_PER_WORKGROUP = 8192;

export const webgpuHistograms: HistogramKernel = (request) => {
  const device = webGpuDevice(request.backend);
  const tables = device.acquire(request.values.length * TABLE_BYTES);
  try {
    clear(device, tables);
    request.values.forEach((_, k) => {
      for (const window of windowsOf(request.size, device)) {
        for (const part of windowsOf(buckets.SLOTS, device)) launch(device, request, tables, k, window, part);
      }
    });
  } catch (error) {
    device.release(tables);
    throw error;
  }
  return new Pending([new DeviceBlock(device, tables)], ([contents]) => {
    const slots = new Uint32Array(contents!);
    return request.values.map((_, k) => histogramOfSlots(slots, k * buckets.SLOTS));
  });
};

function clear(device: WebGpuDevice, tables: DeviceBuffer): void {
  for (const { first, length } of windowsOf(tables.size / WORD_BYTES, device)) {
    device.launch({
      key: 'tensortally histogram clear',
      text: clearText,
      bindings: [{ source: tables, offset: first * WORD_BYTES, size: length * WORD_BYTES }],
      uniforms: Uint32Array.of(length, 0, 0, 0),
      workgroups: device.gridOf(Math.ceil(length / WORKGROUP)),
    });
  }
}

/** Elements of a tensor, or slots of a table, that one binding shows. */
interface Window {
  readonly first: number;
  readonly length: number;
}

/** As few windows as the device can bind; all begin where a binding may, also one of a bit per element. */
function windowsOf(size: number, { limits }: WebGpuDevice): Window[] {
  const { maxStorageBufferBindingSize: limit, minStorageBufferOffsetAlignment: alignment } = limits;
  const unit = BYTE_BITS * alignment;
  const most = Math.floor(limit / WORD_BYTES / unit) * unit;
  return Array.from({ length: Math.ceil(size / most) }, (_, i) => ({
    first: i * most,
    length: Math.min(most, size - i * most),
  }));
}

/** Adds the elements of a window of tensor `k` to a part of table `k`. */
function launch(
  device: WebGpuDevice,
  { values, mask }: HistogramRequest,
  tables: DeviceBuffer,
  k: number,
  { first, length }: Window,
  slots: Window,
): void {
  const part = (source: TensorInfo, type: BufferType) => {
    const perWord = type === 'bits' ? WORD_BYTES * BYTE_BITS : 1;
    const words = Math.ceil(length / perWord);
    return { source, offset: (first / perWord) * WORD_BYTES, size: words * WORD_BYTES };
  };
  const shape: ProgramShape = {
    values: bufferType(device, values[k]!),
    mask: mask && (mask.form === 'bits' ? 'bits' : bufferType(device, mask.tensor)),
    // A CPU that plays a GPU has no memory of its own for a workgroup, and takes seconds to compile one this large.
    hasOwnTable: !device.isSoftware,
  };
  const wanted = Math.max(LEAST_PER_WORKGROUP, Math.ceil(length / WANTED_WORKGROUPS));
  const share = Math.min(MOST_PER_WORKGROUP, WORKGROUP * Math.ceil(wanted / WORKGROUP));
  device.launch({
    key: `tensortally histogram ${JSON.stringify(shape)}`,
    text: () => histogramText(shape),
    bindings: [
      { source: tables, offset: k * TABLE_BYTES + slots.first * WORD_BYTES, size: slots.length * WORD_BYTES },
      part(values[k]!, shape.values),
      ...(mask ? [part(mask.tensor, shape.mask!)] : []),
    ],
    uniforms: Uint32Array.of(length, share, slots.first, 0),
    workgroups: device.gridOf(Math.ceil(length / share)),
  });
}

function bufferType(device: WebGpuDevice, info: TensorInfo): 'f32' | 'i32' {
  return device.bufferDtype(info) === 'float32' ? 'f32' : 'i32';
}
