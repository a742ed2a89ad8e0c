/**
 * The GPU device behind tfjs' `webgpu` backend: running programs, reading buffers back, and hearing of its faults.
 *
 * WebGPU reports errors asynchronously, and tfjs listens to none of them: a launch that failed validation leaves
 * zeros or stale numbers behind a resolved promise. Here whatever makes something on the device, and every read-back,
 * runs inside error scopes; the rest is heard as uncaptured errors. A fault becomes a BackendError at the next
 * read-back instead of a wrong number.
 */
import type { DataType, KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { BackendError } from '../errors.js';
import type { BlockReader } from './collect.js';
import { BufferPool } from './webgpu-buffers.js';
import {
  BufferUsage,
  type GpuError,
  type GpuLimits,
  MAP_READ,
  type TfjsWebGpuBackend,
  assertInternals,
  isSoftwareAdapter,
} from './webgpu-internals.js';
import { DeviceBuffer, type Launch, Launcher } from './webgpu-launch.js';
import { DeviceWork } from './webgpu-work.js';

export type { GpuLimits } from './webgpu-internals.js';
export { type Binding, DeviceBuffer, type Launch } from './webgpu-launch.js';

/** What browsers and Dawn say about themselves. */
interface Gpu {
  readonly wgslLanguageFeatures?: { has(name: string): boolean };
}

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
export class WebGpuDevice implements BlockReader<DeviceBuffer> {
  readonly #backend: TfjsWebGpuBackend;
  readonly #launcher: Launcher;
  readonly #results: BufferPool;
  readonly #staging: BufferPool;
  /** Error scopes whose outcome the device has not told yet. */
  readonly #openScopes = new Set<Promise<void>>();
  /** What stays on the device and no read-back has proven yet. */
  readonly #unproven = new Set<DeviceWork>();
  #fault: GpuError | undefined;
  #lost: string | undefined;

  constructor(backend: TfjsWebGpuBackend) {
    assertInternals(backend);
    this.#backend = backend;
    this.#launcher = new Launcher(backend);
    const pool = (usage: number): BufferPool =>
      new BufferPool((size) => this.#scoped(() => backend.device.createBuffer({ size, usage })));
    this.#results = pool(BufferUsage.STORAGE | BufferUsage.COPY_SRC);
    this.#staging = pool(BufferUsage.COPY_DST | BufferUsage.MAP_READ);
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

  /** How a dispatch arranges so many workgroups, none of its dimensions beyond what the device takes. */
  gridOf(workgroups: number): [x: number, y: number] {
    const across = Math.min(workgroups, this.limits.maxComputeWorkgroupsPerDimension);
    return [across, Math.ceil(workgroups / across)];
  }

  /** Whether a CPU plays the GPU: right, but with few threads and dear barriers. */
  get isSoftware(): boolean {
    const { adapterInfo } = this.#backend.device;
    return adapterInfo !== undefined && isSoftwareAdapter(adapterInfo);
  }

  /**
   * Fewest and most invocations in a subgroup, if shaders may use subgroups and their numbers within a workgroup.
   * Without these numbers a shader could not tell which elements its neighbours have.
   */
  get subgroups(): { readonly min: number; readonly max: number } | undefined {
    const { features, adapterInfo } = this.#backend.device;
    const { gpu } = (globalThis as { navigator?: { gpu?: Gpu } }).navigator ?? {};
    const min = adapterInfo?.subgroupMinSize ?? 0;
    const max = adapterInfo?.subgroupMaxSize ?? 0;
    const isKnown = min > 0 && max >= min && gpu?.wgslLanguageFeatures?.has('subgroup_id') === true;
    return isKnown && features.has('subgroups') ? { min, max } : undefined;
  }

  /**
   * The dtype of the buffer behind a tensor, which may differ from the tensor's own: tfjs casts bool and int32 to
   * float32 by looking at the same buffer with other eyes.
   */
  bufferDtype({ dataId }: TensorInfo): DataType {
    return this.#backend.tensorMap.get(dataId).dtype;
  }

  /** Device memory of at least `bytes` bytes with any contents, to be released by the caller. */
  acquire(bytes: number): DeviceBuffer {
    return new DeviceBuffer(this.#results.acquire(bytes), bytes);
  }

  /** Records a launch. What it binds may be disposed or released as soon as this returns. */
  launch(launch: Launch): void {
    const prepared = this.#launcher.find(launch) ?? this.#scoped(() => this.#launcher.prepare(launch));
    this.#launcher.record(launch, prepared);
  }

  /** To be called before launches whose results stay on the device for more than the next read-back. */
  beginWork(): DeviceWork {
    return new DeviceWork(this.#unproven);
  }

  /** Contents of the buffers behind `blocks`, in order: one submit, one mapping. */
  async read(blocks: readonly DeviceBuffer[]): Promise<ArrayBuffer[]> {
    if (this.#lost !== undefined) throw this.#deviceLost();
    const backend = this.#backend;
    const total = blocks.reduce((sum, { size }) => sum + size, 0);
    const staging = this.#staging.acquire(total);
    this.#scoped(() => {
      backend.ensureCommandEncoderReady();
      backend.endComputePassEncoder();
      let offset = 0;
      for (const { buffer, size } of blocks) {
        backend.commandEncoder.copyBufferToBuffer(buffer, 0, staging, offset, size);
        offset += size;
      }
      backend.submitQueue();
    });
    const submitted = [...this.#unproven];
    // Everything that was recorded is submitted, so nothing waiting to be used again is in use.
    this.#results.trim();
    this.#staging.trim();
    const [mapping] = await Promise.allSettled([staging.mapAsync(MAP_READ, 0, total)]);
    try {
      await this.#checkFaults(); // first: a failed mapping is only the symptom of a fault
      if (mapping.status === 'rejected') throw this.#faultError(String(mapping.reason), mapping.reason);
    } catch (error) {
      staging.destroy();
      throw error;
    }
    for (const work of submitted) work.forget();
    const bytes = staging.getMappedRange(0, total);
    let end = 0;
    const contents = blocks.map(({ size }) => bytes.slice(end, (end += size)));
    staging.unmap();
    this.#staging.release(staging);
    return contents;
  }

  release({ buffer }: DeviceBuffer): void {
    this.#results.release(buffer);
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
    if (fault === undefined) return;
    // What was made meanwhile may be invalid, and would go on failing.
    this.#launcher.forget();
    this.#results.forget();
    this.#staging.forget();
    for (const work of this.#unproven) work.blame(firstLine(fault.message));
    throw this.#faultError(fault.message, fault);
  }

  #faultError(message: string, cause: unknown): BackendError {
    return new BackendError(
      {
        where: 'collect',
        expected: 'the webgpu device to run without errors',
        received: firstLine(message),
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

/** Dawn's messages go on with the calls that led there. */
function firstLine(message: string): string {
  return message.split('\n')[0]!;
}
