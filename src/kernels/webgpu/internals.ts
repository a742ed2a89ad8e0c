/**
 * What is used of tfjs' webgpu backend and of the GPU device behind it.
 *
 * The types describe only that, so that the published declarations need no WebGPU types; `assertInternals` checks that
 * a backend has it.
 */
import type { DataType } from '@tensorflow/tfjs-core';
import { BackendError } from '../../errors.js';

export interface GpuError {
  readonly message: string;
}

export interface GpuBuffer {
  readonly size: number;
  mapAsync(mode: number, offset: number, size: number): Promise<void>;
  getMappedRange(offset: number, size: number): ArrayBuffer;
  unmap(): void;
  destroy(): void;
}

/** The limits that kernels have to respect. */
export interface GpuLimits {
  readonly maxStorageBuffersPerShaderStage: number;
  readonly maxStorageBufferBindingSize: number;
  readonly maxComputeWorkgroupsPerDimension: number;
  readonly maxComputeWorkgroupStorageSize: number;
  readonly minStorageBufferOffsetAlignment: number;
}

export interface GpuPipeline {
  getBindGroupLayout(index: number): object;
}

export interface GpuPass {
  setPipeline(pipeline: GpuPipeline): void;
  setBindGroup(index: number, group: object): void;
  dispatchWorkgroups(x: number, y: number): void;
}

export interface GpuBinding {
  readonly binding: number;
  readonly resource: { readonly buffer: GpuBuffer; readonly offset: number; readonly size: number };
}

/** What the driver says about the processor. */
export interface GpuAdapterInfo {
  readonly vendor?: string;
  readonly architecture?: string;
  readonly description?: string;
  readonly subgroupMinSize?: number;
  readonly subgroupMaxSize?: number;
  readonly isFallbackAdapter?: boolean;
}

/** Whether the adapter is software (SwiftShader, llvmpipe): right, but slow. Not every such driver admits it. */
export function isSoftwareAdapter(info: GpuAdapterInfo): boolean {
  const { vendor, architecture, description, isFallbackAdapter } = info;
  return (
    isFallbackAdapter === true ||
    [vendor, architecture, description].some((name) => /swiftshader|llvmpipe|lavapipe/i.test(name ?? ''))
  );
}

export interface GpuDevice {
  readonly limits: GpuLimits;
  readonly features: { has(name: string): boolean };
  /** Absent before 2025. */
  readonly adapterInfo?: GpuAdapterInfo;
  readonly lost: Promise<{ readonly reason: string; readonly message: string }>;
  readonly queue: { writeBuffer(buffer: GpuBuffer, offset: number, data: ArrayBufferView): void };
  createBuffer(descriptor: { size: number; usage: number }): GpuBuffer;
  createShaderModule(descriptor: { readonly code: string }): object;
  createComputePipeline(descriptor: {
    readonly layout: 'auto';
    readonly compute: { readonly module: object; readonly entryPoint: string };
  }): GpuPipeline;
  createBindGroup(descriptor: { readonly layout: object; readonly entries: readonly GpuBinding[] }): object;
  pushErrorScope(filter: 'validation' | 'out-of-memory' | 'internal'): void;
  popErrorScope(): Promise<GpuError | null>;
  addEventListener(type: 'uncapturederror', listener: (event: { readonly error: GpuError }) => void): void;
}

/** tfjs' webgpu backend. */
export interface TfjsWebGpuBackend {
  readonly device: GpuDevice;
  readonly tensorMap: {
    get(dataId: object): {
      readonly dtype: DataType;
      resource?: GpuBuffer | null;
      /** Numbers that are on the host. */
      values?: ArrayLike<number> | null;
    };
  };
  readonly bufferManager: { acquireBuffer(size: number, usage: number): GpuBuffer };
  /** Absent while nothing is recorded. */
  readonly commandEncoder: {
    beginComputePass(): GpuPass;
    copyBufferToBuffer(
      from: GpuBuffer,
      fromOffset: number,
      to: GpuBuffer,
      toOffset: number,
      size: number,
    ): void;
  } | null;
  computePassEncoder: GpuPass | null;
  /** Buffers that a recorded launch uses are kept until it is submitted. */
  readonly commandQueueOwnedIds: { add(dataId: object): unknown };
  dispatchCountInPass: number;
  uploadToGPU(dataId: object): void;
  ensureCommandEncoderReady(): void;
  endComputePassEncoder(): void;
  submitQueue(): void;
}

/** GPUBufferUsage and GPUMapMode, fixed by the WebGPU specification. */
export const BufferUsage = {
  MAP_READ: 0x1,
  COPY_SRC: 0x4,
  COPY_DST: 0x8,
  UNIFORM: 0x40,
  STORAGE: 0x80,
} as const;
export const MAP_READ = 0x1;

const FIELDS = [
  'uploadToGPU',
  'tensorMap',
  'bufferManager',
  'submitQueue',
  'ensureCommandEncoderReady',
  'endComputePassEncoder',
  'computePassEncoder',
  'commandQueueOwnedIds',
  'dispatchCountInPass',
] as const;

/** tfjs 4.22 is frozen upstream, but a caller may bring another version: refuse it instead of reading wrong numbers. */
export function assertInternals(backend: TfjsWebGpuBackend): void {
  const missing = FIELDS.filter((field) => !(field in backend));
  if (missing.length === 0) return;
  throw new BackendError({
    where: 'webgpu',
    expected: 'the internals of @tensorflow/tfjs-backend-webgpu 4.22',
    received: `a backend without ${missing.join(', ')}`,
    remedy: 'install @tensorflow/tfjs-backend-webgpu@4.22.0',
  });
}
