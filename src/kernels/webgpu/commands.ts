/**
 * The commands that tfjs and our kernels record together, and what is lost when a fault voids them.
 *
 * A command that the device refuses voids all that are submitted with it: what they would have computed stays what the
 * recycled buffers held. So every submission of tfjs' backend is watched, and data that a void one was to make is
 * refused from then on. Uploads go to the queue at once: tfjs records them as commands and drops the numbers, and a fault
 * of someone else would lose tensors that the host knew.
 */
import { type FaultLog, markLost, markSound } from './faults.js';
import { BufferUsage, type GpuError, type TfjsWebGpuBackend } from './internals.js';

/** Runs `submit` and tells what the device says of it, later. */
export type WatchSubmission = (submit: () => void, settle: (fault: GpuError | undefined) => void) => void;

/** Takes charge of `submitQueue` and `uploadToGPU` of a backend. */
export class CommandStream {
  readonly #backend: TfjsWebGpuBackend;
  readonly #log: FaultLog;
  /** Data that commands make which are not submitted yet. */
  #made = new Set<object>();
  /** Reported while these commands were recorded. Until they are submitted, what they make is taken for lost. */
  #fault: GpuError | undefined;

  constructor(backend: TfjsWebGpuBackend, log: FaultLog, watch: WatchSubmission) {
    this.#backend = backend;
    this.#log = log;
    const submitQueue = backend.submitQueue.bind(backend);
    const uploadToGPU = backend.uploadToGPU.bind(backend);
    backend.submitQueue = () => {
      const [made, doubt] = [this.#made, this.#fault];
      this.#made = new Set();
      this.#fault = undefined;
      watch(submitQueue, (fault) => {
        if (fault !== undefined) markLost(log, made, fault);
        else if (doubt !== undefined) markSound(made);
      });
    };
    backend.uploadToGPU = (dataId) => {
      const { resource, values } = backend.tensorMap.get(dataId);
      if (resource !== null && resource !== undefined) return;
      if (values !== null && values !== undefined) {
        this.#upload(dataId, values);
        return;
      }
      uploadToGPU(dataId);
      this.#made.add(dataId);
      if (this.#fault !== undefined) markLost(log, [dataId], this.#fault);
    };
  }

  /** The device reported a fault: what is recorded now may be void. */
  suspect(fault: GpuError): void {
    this.#fault ??= fault;
    markLost(this.#log, this.#made, fault);
  }

  /** Submits what is recorded if it may be void, so that what comes is in commands of its own. */
  leaveFault(): void {
    if (this.#fault === undefined) return;
    const backend = this.#backend;
    backend.endComputePassEncoder();
    if (backend.commandEncoder) backend.submitQueue();
    this.#fault = undefined;
  }

  #upload(dataId: object, values: ArrayLike<number>): void {
    const { bufferManager, device, tensorMap } = this.#backend;
    const data = tensorMap.get(dataId);
    const words = data.dtype === 'float32' ? Float32Array : Int32Array;
    const contents = values instanceof words ? values : new words(values);
    const usage = BufferUsage.STORAGE | BufferUsage.COPY_SRC | BufferUsage.COPY_DST;
    // No command that waits to be submitted uses a buffer of the pool: tfjs gives them back when it submits.
    const buffer = bufferManager.acquireBuffer(contents.byteLength, usage);
    device.queue.writeBuffer(buffer, 0, contents);
    data.resource = buffer;
    data.values = null;
  }
}
