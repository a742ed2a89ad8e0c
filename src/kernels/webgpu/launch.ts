/**
 * Launches that tfjs' own runner cannot express: own bindings, windows of buffers, several results, own directives.
 *
 * A launch is recorded into tfjs' command stream, in order with tfjs' kernels. What it is made of, a pipeline, a
 * bind group and a uniform buffer, is kept for the next launch of the same kind; the numbers of each are bounded.
 */
import { type TensorInfo, env } from '@tensorflow/tfjs-core';
import {
  BufferUsage,
  type GpuBinding,
  type GpuBuffer,
  type GpuPipeline,
  type TfjsWebGpuBackend,
} from './internals.js';

/** A block of device memory that is no tensor. It belongs to whoever acquired it until it is released. */
export class DeviceBuffer {
  constructor(
    readonly buffer: GpuBuffer,
    /** Bytes in use, from the start. */
    readonly size: number,
    /** Its number among the work of the device. */
    readonly number: number,
  ) {}
}

/** A buffer, or `size` bytes of it from `offset` on. */
export interface Binding {
  readonly source: TensorInfo | DeviceBuffer;
  readonly offset?: number;
  readonly size?: number;
}

/** One launch. The shader declares the bindings as 0, 1, … of group 0 and the uniforms after them. */
export interface Launch {
  /** Identifies the shader: equal keys have equal text. */
  readonly key: string;
  /** WGSL with an entry point `main`, asked for when the key is new. */
  text(): string;
  readonly bindings: readonly Binding[];
  readonly uniforms: Uint32Array;
  readonly workgroups: readonly [x: number, y: number];
}

/** What a launch needs of the device. */
interface Prepared {
  readonly pipeline: GpuPipeline;
  readonly group: object;
}

/** A map that forgets what was not asked for longest. */
export class RecentMap<V> {
  readonly #capacity: number;
  readonly #entries = new Map<string, V>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: string, value: V): void {
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#capacity) return;
    const [oldest] = this.#entries.keys();
    this.#entries.delete(oldest!);
  }

  clear(): void {
    this.#entries.clear();
  }
}

interface Pipeline {
  readonly id: number;
  readonly pipeline: GpuPipeline;
}

/** Prepares and records the launches of one backend. */
export class Launcher {
  readonly #backend: TfjsWebGpuBackend;
  readonly #pipelines = new RecentMap<Pipeline>(256);
  readonly #uniforms = new RecentMap<GpuBuffer>(256);
  /** Few: a bind group keeps its buffers alive unless they are destroyed. */
  readonly #groups = new RecentMap<object>(64);
  /** Buffers by number, for the keys of bind groups. */
  readonly #numbers = new WeakMap<GpuBuffer, number>();
  #lastNumber = 0;

  constructor(backend: TfjsWebGpuBackend) {
    this.#backend = backend;
  }

  /** What `launch` needs, if all of it exists. */
  find(launch: Launch): Prepared | undefined {
    const known = this.#pipelines.get(launch.key);
    if (known === undefined) return undefined;
    const bindings = this.#resolve(launch.bindings);
    const group = bindings && this.#groups.get(this.#groupKey(known, bindings, launch.uniforms));
    return group && { pipeline: known.pipeline, group };
  }

  /** Makes what `launch` needs, uploading tensors that are still on the host. */
  prepare(launch: Launch): Prepared {
    const { device } = this.#backend;
    let known = this.#pipelines.get(launch.key);
    if (known === undefined) {
      const module = device.createShaderModule({ code: launch.text() });
      const pipeline = device.createComputePipeline({
        layout: 'auto',
        compute: { module, entryPoint: 'main' },
      });
      known = { id: ++this.#lastNumber, pipeline };
      this.#pipelines.set(launch.key, known);
    }
    for (const { source } of launch.bindings) {
      if (!(source instanceof DeviceBuffer)) this.#backend.uploadToGPU(source.dataId);
    }
    const bindings = this.#resolve(launch.bindings)!;
    const uniforms = this.#uniformBuffer(launch.uniforms);
    const group = device.createBindGroup({
      layout: known.pipeline.getBindGroupLayout(0),
      entries: [
        ...bindings,
        {
          binding: bindings.length,
          resource: { buffer: uniforms, offset: 0, size: launch.uniforms.byteLength },
        },
      ],
    });
    this.#groups.set(this.#groupKey(known, bindings, launch.uniforms), group);
    return { pipeline: known.pipeline, group };
  }

  /** Records a launch; tensors that it uses may be disposed from then on. */
  record({ bindings, workgroups }: Launch, { pipeline, group }: Prepared): void {
    const backend = this.#backend;
    backend.ensureCommandEncoderReady();
    const pass = (backend.computePassEncoder ??= backend.commandEncoder!.beginComputePass());
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(...workgroups);
    for (const { source } of bindings) {
      if (!(source instanceof DeviceBuffer)) backend.commandQueueOwnedIds.add(source.dataId);
    }
    backend.dispatchCountInPass++;
    if (backend.dispatchCountInPass >= env().getNumber('WEBGPU_DEFERRED_SUBMIT_BATCH_SIZE')) {
      backend.endComputePassEncoder();
      backend.submitQueue();
    }
  }

  /** Forgets everything, since a fault may have left any of it invalid. */
  forget(): void {
    this.#pipelines.clear();
    this.#uniforms.clear();
    this.#groups.clear();
  }

  /** Bind group entries of `bindings`; undefined while one is only on the host. */
  #resolve(bindings: readonly Binding[]): GpuBinding[] | undefined {
    const entries: GpuBinding[] = [];
    for (const { source, offset = 0, size } of bindings) {
      const buffer =
        source instanceof DeviceBuffer ? source.buffer : this.#backend.tensorMap.get(source.dataId).resource;
      if (buffer === undefined || buffer === null) return undefined;
      const whole = source instanceof DeviceBuffer ? source.size : buffer.size;
      entries.push({ binding: entries.length, resource: { buffer, offset, size: size ?? whole - offset } });
    }
    return entries;
  }

  #groupKey({ id }: Pipeline, bindings: readonly GpuBinding[], uniforms: Uint32Array): string {
    let key = `${id}`;
    for (const { resource } of bindings) {
      key += `;${this.#numberOf(resource.buffer)},${resource.offset},${resource.size}`;
    }
    return `${key};${uniforms.join()}`;
  }

  #numberOf(buffer: GpuBuffer): number {
    const known = this.#numbers.get(buffer);
    if (known !== undefined) return known;
    this.#numbers.set(buffer, ++this.#lastNumber);
    return this.#lastNumber;
  }

  /** Never written again, so it serves every launch with these uniforms. */
  #uniformBuffer(contents: Uint32Array): GpuBuffer {
    const key = contents.join();
    const known = this.#uniforms.get(key);
    if (known !== undefined) return known;
    const { device } = this.#backend;
    const buffer = device.createBuffer({
      size: contents.byteLength,
      usage: BufferUsage.UNIFORM | BufferUsage.COPY_DST,
    });
    device.queue.writeBuffer(buffer, 0, contents);
    this.#uniforms.set(key, buffer);
    return buffer;
  }
}
