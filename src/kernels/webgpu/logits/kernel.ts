/** Logits on the `webgpu` backend: one launch per window of rows that the device can bind. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { BackendError } from '../../../errors.js';
import { WHERE, assertLabels } from '../../logits/checks.js';
import {
  type LogitsKernel,
  type LogitsRequest,
  type PerStatistic,
  perStatistic,
  statisticNames,
} from '../../logits/request.js';
import { type WebGpuDevice, webGpuDevice } from '../device.js';
import { type BufferType, type ProgramShape, type Window, logitsShader, uniformsOf } from './program.js';

/** The part of the backend that this kernel uses itself: numbers of a tensor that are on the host. */
interface WebGpuBackend {
  readonly tensorMap: { get(dataId: object): { readonly values?: ArrayLike<number> | null } };
}

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

export const webgpuLogits: LogitsKernel = (request) => {
  const { backend, cols, logits, labels, temperature } = request;
  const { tensorMap } = backend as unknown as WebGpuBackend;
  // Made by the host and not used yet, labels are still here to look at.
  const known = tensorMap.get(labels.dataId).values;
  if (known !== undefined && known !== null) assertLabels(known, labels.shape, cols);
  const device = webGpuDevice(backend);
  const windows = windowsOf(request, device);
  const shape: ProgramShape = {
    logits: bufferType(device, logits),
    labels: bufferType(device, labels),
    isAligned: cols % 4 === 0,
  };
  const results = perStatistic((): TensorInfo => ({
    dataId: backend.write(null as never, labels.shape, 'float32'),
    shape: labels.shape,
    dtype: 'float32',
  }));
  try {
    device.making(Object.values(results), () => {
      for (const { offset, size, ...window } of windows) {
        device.launch({
          key: `logits ${Object.values(shape).join(' ')}`,
          text: () => logitsShader(shape),
          bindings: [
            { source: logits, offset, size },
            { source: labels },
            ...statisticNames.map((name) => ({ source: results[name] })),
          ],
          uniforms: uniformsOf(window, temperature),
          workgroups: device.gridOf(window.rows),
        });
      }
    });
  } catch (error) {
    release(request, results);
    throw error;
  }
  return results;
};

function release({ backend }: LogitsRequest, results: PerStatistic<TensorInfo>): void {
  for (const name of statisticNames) backend.disposeData(results[name].dataId);
}

function bufferType(device: WebGpuDevice, info: TensorInfo): BufferType {
  return device.bufferDtype(info) === 'float32' ? 'f32' : 'i32';
}

/** A window of rows, and the bytes of the buffer that it lies in. */
interface BoundWindow extends Window {
  readonly offset: number;
  readonly size: number;
}

/**
 * As few windows as the device can bind. A binding begins at a multiple of some bytes, usually 256; rows need not.
 *
 * @throws BackendError if not even one row can be bound
 */
function windowsOf({ rows, cols, logits }: LogitsRequest, { limits }: WebGpuDevice): BoundWindow[] {
  const rowBytes = cols * FLOAT_BYTES;
  const { maxStorageBufferBindingSize: limit, minStorageBufferOffsetAlignment: alignment } = limits;
  const across = limits.maxComputeWorkgroupsPerDimension;
  // A whole tensor needs no window, and only windows lose bytes to the alignment.
  const fitting = rows * rowBytes <= limit ? rows : Math.floor((limit - alignment) / rowBytes);
  const most = Math.min(fitting, across * across);
  if (most < 1) {
    throw new BackendError({
      where: WHERE,
      input: 'logits',
      expected: `rows of at most ${limit - alignment} bytes, the most this device can bind`,
      received: `shape [${logits.shape.join(', ')}], ${rowBytes} bytes a row`,
      remedy: 'split the vocabulary, or use another backend',
    });
  }
  const windows: BoundWindow[] = [];
  for (let firstRow = 0; firstRow < rows; firstRow += most) {
    const count = Math.min(most, rows - firstRow);
    const start = firstRow * rowBytes;
    const offset = Math.floor(start / alignment) * alignment;
    windows.push({
      firstRow,
      rows: count,
      cols,
      skip: (start - offset) / FLOAT_BYTES,
      offset,
      size: start - offset + count * rowBytes,
    });
  }
  return windows;
}
