/**
 * The GPU device behind tfjs' `webgpu` backend: running a program, reading buffers back, and hearing of its faults.
 *
 * WebGPU reports errors asynchronously, and tfjs listens to none of them: a launch that failed validation leaves
 * zeros or stale numbers behind a resolved promise. Here every launch and every read-back runs inside error scopes,
 * and a fault becomes a BackendError at the next read-back instead of a wrong number.
 *
 * The types below describe only what is used, so that the published declarations need no WebGPU types.
 */
import type { DataType, KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { BackendError } from '../errors.js';
import type { BlockReader } from './collect.js';

/** A compute program in the form that tfjs' webgpu backend runs. */
export interface WebGpuProgram {
  /** Names of the input buffers in the shader, bound after the result. */
  readonly variableNames: readonly string[];
  /** Declarations of the program's own uniforms, `name : type, …`. */
  readonly uniforms: string;
  /** Everything that changes the shader text besides dtypes and ranks of the inputs. */
  readonly shaderKey: string;
  readonly dispatchLayout: {
    readonly x: readonly number[];
    readonly y: readonly number[];
    readonly z: readonly number[];
  };
  dispatch: [x: number, y: number, z: number];
  readonly workgroupSize: readonly [number, number, number];
  readonly outputShape: readonly number[];
  getUserCode(): string;
}

/** A uniform value, in the order of `WebGpuProgram.uniforms`. */
export interface Uniform {
  readonly type: 'int32' | 'uint32' | 'float32';
  readonly data: number[];
}

interface GpuError {
  readonly message: string;
}

interface GpuBuffer {
  readonly size: number;
  mapAsync(mode: number): Promise<void>;
  getMappedRange(): ArrayBuffer;
  destroy(): void;
}

/** The limits that kernels have to respect. */
export interface GpuLimits {
  readonly maxStorageBuffersPerShaderStage: number;
  readonly maxStorageBufferBindingSize: number;
  readonly maxComputeWorkgroupsPerDimension: number;
}

interface GpuDevice {
  readonly limits: GpuLimits;
  readonly lost: Promise<{ readonly reason: string; readonly message: string }>;
  createBuffer(descriptor: { size: number; usage: number }): GpuBuffer;
  pushErrorScope(filter: 'validation' | 'out-of-memory' | 'internal'): void;
  popErrorScope(): Promise<GpuError | null>;
  addEventListener(type: 'uncapturederror', listener: (event: { readonly error: GpuError }) => void): void;
}

/** tfjs' webgpu backend, as far as it is used here; `assertInternals` checks it. */
interface TfjsWebGpuBackend {
  readonly device: GpuDevice;
  readonly tensorMap: { get(dataId: object): { readonly dtype: DataType; readonly resource?: GpuBuffer } };
  readonly commandEncoder: {
    copyBufferToBuffer(
      from: GpuBuffer,
      fromOffset: number,
      to: GpuBuffer,
      toOffset: number,
      size: number,
    ): void;
  };
  runWebGPUProgram(
    program: WebGpuProgram,
    inputs: readonly TensorInfo[],
    outputDtype: DataType,
    uniforms: readonly Uniform[],
  ): TensorInfo;
  uploadToGPU(dataId: object): void;
  ensureCommandEncoderReady(): void;
  endComputePassEncoder(): void;
  submitQueue(): void;
  disposeData(dataId: object): boolean;
}

/** GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ and GPUMapMode.READ, fixed by the WebGPU specification. */
const STAGING_USAGE = 0x8 | 0x1;
const MAP_READ = 0x1;

const devices = new WeakMap<KernelBackend, WebGpuDevice>();

/** The device of a tfjs webgpu backend, ours or one that the caller set up. */
export function webGpuDevice(backend: KernelBackend): WebGpuDevice {
  const known = devices.get(backend);
  if (known !== undefined) return known;
  const device = new WebGpuDevice(backend as unknown as TfjsWebGpuBackend);
  devices.set(backend, device);
  return device;
}

/** Runs programs on one GPU device and reads their results. */
export class WebGpuDevice implements BlockReader<TensorInfo> {
  readonly #backend: TfjsWebGpuBackend;
  /** Error scopes whose outcome the device has not told yet. */
  readonly #openScopes = new Set<Promise<void>>();
  #fault: GpuError | undefined;
  #lost: string | undefined;

  constructor(backend: TfjsWebGpuBackend) {
    assertInternals(backend);
    this.#backend = backend;
    backend.device.addEventListener('uncapturederror', ({ error }) => {
      this.#fault ??= error;
    });
    void backend.device.lost.then(({ reason, message }) => {
      this.#lost = [reason, message].filter((part) => part !== '').join(': ') || 'no reason given';
    });
  }

  get limits(): GpuLimits {
    return this.#backend.device.limits;
  }

  /**
   * The dtype of the buffer behind a tensor, which may differ from the tensor's own: tfjs casts bool and int32 to
   * float32 by looking at the same buffer with other eyes.
   */
  bufferDtype({ dataId }: TensorInfo): DataType {
    return this.#backend.tensorMap.get(dataId).dtype;
  }

  /** Records `program`; its result is on the device and belongs to the caller. */
  run(
    program: WebGpuProgram,
    inputs: readonly TensorInfo[],
    outputDtype: DataType,
    uniforms: readonly Uniform[],
  ): TensorInfo {
    return this.#scoped(() => this.#backend.runWebGPUProgram(program, inputs, outputDtype, uniforms));
  }

  /** Contents of the buffers behind `tensors`, in order: one submit, one mapping. */
  async read(tensors: readonly TensorInfo[]): Promise<ArrayBuffer[]> {
    if (this.#lost !== undefined) throw this.#deviceLost();
    const backend = this.#backend;
    const buffers = tensors.map(({ dataId }) => {
      backend.uploadToGPU(dataId);
      return backend.tensorMap.get(dataId).resource!;
    });
    const total = buffers.reduce((sum, buffer) => sum + buffer.size, 0);
    const staging = this.#scoped(() => {
      const target = backend.device.createBuffer({ size: total, usage: STAGING_USAGE });
      backend.ensureCommandEncoderReady();
      backend.endComputePassEncoder();
      let offset = 0;
      for (const buffer of buffers) {
        backend.commandEncoder.copyBufferToBuffer(buffer, 0, target, offset, buffer.size);
        offset += buffer.size;
      }
      backend.submitQueue();
      return target;
    });
    try {
      const [mapping] = await Promise.allSettled([staging.mapAsync(MAP_READ)]);
      await this.#checkFaults(); // first: a failed mapping is only the symptom of a fault
      if (mapping.status === 'rejected') throw this.#faultError(String(mapping.reason), mapping.reason);
      const bytes = staging.getMappedRange();
      let end = 0;
      return buffers.map(({ size }) => bytes.slice(end, (end += size)));
    } finally {
      staging.destroy();
    }
  }

  release({ dataId }: TensorInfo): void {
    this.#backend.disposeData(dataId);
  }

  /** Runs `body` inside error scopes whose outcome the next read-back reports. */
  #scoped<T>(body: () => T): T {
    const { device } = this.#backend;
    device.pushErrorScope('internal');
    device.pushErrorScope('out-of-memory');
    device.pushErrorScope('validation');
    try {
      return body();
    } finally {
      for (let scope = 0; scope < 3; scope++) this.#watch(device.popErrorScope());
    }
  }

  #watch(scope: Promise<GpuError | null>): void {
    const heard = scope
      .then(
        (error) => {
          if (error !== null) this.#fault ??= error;
        },
        () => undefined, // a scope is only refused by a lost device, which #lost knows
      )
      .finally(() => this.#openScopes.delete(heard));
    this.#openScopes.add(heard);
  }

  /** @throws BackendError if anything since the last check failed on the device */
  async #checkFaults(): Promise<void> {
    await Promise.all(this.#openScopes);
    if (this.#lost !== undefined) throw this.#deviceLost();
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw this.#faultError(fault.message, fault);
  }

  #faultError(message: string, cause: unknown): BackendError {
    return new BackendError(
      {
        where: 'collect',
        expected: 'the webgpu device to run without errors',
        received: message.split('\n')[0]!,
        remedy:
          'results since the last read-back are unusable; free device memory or pass fewer elements at once',
      },
      { cause },
    );
  }

  #deviceLost(): BackendError {
    return new BackendError({
      where: 'collect',
      expected: 'a live webgpu device',
      received: `a lost one (${this.#lost!})`,
      remedy: 'restart the process, or call initBackend() and create the tensors again',
    });
  }
}

/** tfjs 4.22 is frozen upstream, but a caller may bring another version: refuse it instead of reading wrong numbers. */
function assertInternals(backend: TfjsWebGpuBackend): void {
  const present =
    'runWebGPUProgram' in backend &&
    'uploadToGPU' in backend &&
    'tensorMap' in backend &&
    'submitQueue' in backend &&
    'ensureCommandEncoderReady' in backend &&
    'endComputePassEncoder' in backend;
  if (!present) {
    throw new BackendError({
      where: 'webgpu',
      expected: 'the internals of @tensorflow/tfjs-backend-webgpu 4.22',
      received: 'a backend without them',
      remedy: 'install @tensorflow/tfjs-backend-webgpu@4.22.0',
    });
  }
}
