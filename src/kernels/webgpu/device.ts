/**
 * The GPU device behind tfjs' `webgpu` backend: running programs, reading buffers back, and hearing of its faults.
 *
 * WebGPU reports errors asynchronously, and tfjs listens to none of them: a launch that failed validation leaves
 * zeros or stale numbers behind a resolved promise. Here whatever makes something on the device, and every read-back,
 * runs inside error scopes; the rest is heard as uncaptured errors. A fault becomes a BackendError for every result that
 * was launched before it, instead of a wrong number; see webgpu-faults.ts.
 */
import type { DataType, KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { messageOf } from '../../arguments.js';
import { BackendError } from '../../errors.js';
import type { BlockReader } from '../collect.js';
import { BufferPool } from './buffers.js';
import { CommandStream } from './commands.js';
import { FaultLog, faultError, keepTrack } from './faults.js';
import {
  BufferUsage,
  type GpuError,
  type GpuLimits,
  MAP_READ,
  type TfjsWebGpuBackend,
  assertInternals,
  isSoftwareAdapter,
} from './internals.js';
import { DeviceBuffer, type Launch, Launcher } from './launch.js';

export type { GpuLimits } from './internals.js';
export { type Binding, DeviceBuffer, type Launch } from './launch.js';

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
  readonly #faults = new FaultLog();
  /** Results that wait to be read or released. */
  readonly #waiting = new Set<DeviceBuffer>();
  readonly #commands: CommandStream;
  #lost: string | undefined;

  constructor(backend: TfjsWebGpuBackend) {
    assertInternals(backend);
    this.#backend = backend;
    this.#launcher = new Launcher(backend);
    this.#commands = new CommandStream(backend, this.#faults, (submit, settle) => {
      // Of a fault that all work up to now is refused for, nobody has to hear again.
      const isNoted = this.#faults.faultSince(this.#faults.latest) !== undefined;
      const note = this.#noting();
      this.#scoped(submit, (fault) => {
        if (!isNoted) note(fault);
        settle(fault);
      });
    });
    const pool = (usage: number): BufferPool =>
      new BufferPool((size) => this.#scoped(() => backend.device.createBuffer({ size, usage })));
    this.#results = pool(BufferUsage.STORAGE | BufferUsage.COPY_SRC);
    this.#staging = pool(BufferUsage.COPY_DST | BufferUsage.MAP_READ);
    backend.device.addEventListener('uncapturederror', ({ error }) => {
      this.#noteFault(error, this.#faults.latest);
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

  /** Whether the adapter is software: right, but with few threads and expensive barriers. */
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
    this.#commands.leaveFault();
    const number = this.#faults.begin();
    const made = new DeviceBuffer(this.#results.acquire(bytes), bytes, number);
    this.#waiting.add(made);
    return made;
  }

  /** Records a launch. What it binds may be disposed or released as soon as this returns. */
  launch(launch: Launch): void {
    this.#commands.leaveFault();
    const prepared = this.#launcher.find(launch) ?? this.#scoped(() => this.#launcher.prepare(launch));
    this.#launcher.record(launch, prepared);
  }

  /**
   * Launches what makes tensors that stay on the device: using them is refused if a fault may have spoilt them.
   *
   * @param body launches all that `made` needs
   */
  making(made: readonly TensorInfo[], body: () => void): void {
    this.#commands.leaveFault();
    this.#faults.begin();
    body();
    for (const { dataId } of made) keepTrack(this.#faults, dataId);
  }

  /**
   * Contents of the buffers behind `blocks`, in order: one submit, one mapping. An error stands for the contents of a
   * block that was launched before a fault.
   */
  async read(blocks: readonly DeviceBuffer[]): Promise<(ArrayBuffer | BackendError)[]> {
    if (this.#lost !== undefined) throw this.#deviceLost();
    const usable = blocks.filter((block) => this.#refusalOf(block) === undefined);
    const contents = usable.length === 0 ? [] : await this.#copy(usable);
    const unheard = this.#faults.takeUnheard();
    return blocks.map((block) => {
      const refusal = this.#refusalOf(block);
      if (refusal !== undefined) return refusal;
      // Nothing in flight was there to tell of it.
      if (unheard !== undefined) return faultError(unheard.message, unheard);
      return contents[usable.indexOf(block)]!;
    });
  }

  release(block: DeviceBuffer): void {
    this.#waiting.delete(block);
    this.#results.release(block.buffer);
  }

  /** @throws BackendError for a lost device, and for a mapping that failed without a fault */
  async #copy(blocks: readonly DeviceBuffer[]): Promise<ArrayBuffer[]> {
    const backend = this.#backend;
    this.#commands.leaveFault();
    const total = blocks.reduce((sum, { size }) => sum + size, 0);
    const staging = this.#staging.acquire(total);
    this.#scoped(() => {
      backend.ensureCommandEncoderReady();
      backend.endComputePassEncoder();
      let offset = 0;
      for (const { buffer, size } of blocks) {
        backend.commandEncoder!.copyBufferToBuffer(buffer, 0, staging, offset, size);
        offset += size;
      }
      backend.submitQueue();
    });
    const submitted = this.#faults.latest;
    // Everything that was recorded is submitted, so nothing waiting to be used again is in use.
    this.#results.trim();
    this.#staging.trim();
    const [mapping] = await Promise.allSettled([staging.mapAsync(MAP_READ, 0, total)]);
    // What the device says of the work is heard before its result is believed.
    await Promise.all(this.#openScopes);
    if (this.#lost !== undefined || mapping.status === 'rejected') {
      staging.destroy();
      if (this.#lost !== undefined) throw this.#deviceLost();
      const fault = this.#faults.faultSince(submitted);
      // A failed mapping is only the symptom of a fault.
      if (fault !== undefined) throw faultError(fault.message, fault);
      const reason: unknown = (mapping as PromiseRejectedResult).reason;
      throw faultError(messageOf(reason), reason);
    }
    if (this.#faults.faultSince(submitted) === undefined) this.#faults.prove(submitted);
    const bytes = staging.getMappedRange(0, total);
    let end = 0;
    const contents = blocks.map(({ size }) => bytes.slice(end, (end += size)));
    staging.unmap();
    this.#staging.release(staging);
    return contents;
  }

  #refusalOf({ number }: DeviceBuffer): BackendError | undefined {
    const fault = this.#faults.faultSince(number);
    return fault && faultError(fault.message, fault);
  }

  /**
   * Runs `body` inside error scopes.
   *
   * @param settle is called with what they report, later; by default a fault concerns all work up to now
   */
  #scoped<T>(body: () => T, settle = this.#noting()): T {
    const { device } = this.#backend;
    device.pushErrorScope('internal');
    device.pushErrorScope('out-of-memory');
    device.pushErrorScope('validation');
    try {
      return body();
    } finally {
      // A scope is only refused by a lost device, which #lost knows.
      const scopes = [1, 2, 3].map((): Promise<GpuError | null> =>
        device.popErrorScope().catch((): null => null),
      );
      const heard = Promise.all(scopes)
        .then((errors) => {
          settle(errors.find((error) => error !== null) ?? undefined);
        })
        .finally(() => this.#openScopes.delete(heard));
      this.#openScopes.add(heard);
    }
  }

  #noting(): (fault: GpuError | undefined) => void {
    const { latest } = this.#faults;
    return (fault) => {
      if (fault !== undefined) this.#noteFault(fault, latest);
    };
  }

  /** @param until the latest work that it may concern */
  #noteFault(error: GpuError, until: number): void {
    const isHeard = [...this.#waiting].some(({ number }) => number <= until);
    this.#faults.add(error, until, isHeard);
    this.#commands.suspect(error);
    // What was made meanwhile may be invalid, and would go on failing.
    this.#launcher.forget();
    this.#results.forget();
    this.#staging.forget();
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
