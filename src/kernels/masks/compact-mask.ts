/**
 * A mask that was made ready for passes once, and that any number of them may use.
 *
 * What it is made of depends on where it is: runs or bits, whichever are fewer, where the host can see it, bits where a
 * program of ours can pack them, else its elements. Passes see it as a tensor of that, which nobody else has a handle on.
 */
import type * as tf from '@tensorflow/tfjs-core';
import { ReleasedError } from '../../errors.js';
import { recognizeAcrossCopies } from '../../process-wide.js';
import { type RetainedTensor, assertNumericTensor, hasBackend } from '../residency.js';
import { assertSound } from '../webgpu/faults.js';
import type { MaskForm } from './forms.js';

/** What a compact mask is made of. */
export interface MaskStorage {
  readonly held: RetainedTensor;
  readonly form: MaskForm;
  /** Memory that it takes, on the device if there is one. */
  readonly bytes: number;
  /** How many elements it selects, where that was seen. */
  readonly selected?: number;
}

/** A mask as passes take it. */
export type MaskTensor = tf.Tensor | CompactMask;

/** A mask that is held in its most compact form until `release()`. Made by `compactMask`. */
export class CompactMask {
  /** The shape of the tensor that it was made of. */
  readonly shape: readonly number[];
  #storage: MaskStorage | undefined;

  static {
    recognizeAcrossCopies(this, 'compact-mask', 1);
  }

  /** For `compactMask`, which has checked the tensor. */
  constructor(shape: readonly number[], storage: MaskStorage) {
    this.shape = shape;
    this.#storage = storage;
  }

  get rank(): number {
    return this.shape.length;
  }

  /** Memory that is held for it, in bytes; 0 once it is released. */
  get bytes(): number {
    return this.#storage?.bytes ?? 0;
  }

  /** How many elements it selects; undefined where only a device knows, and once it is released. */
  get selected(): number | undefined {
    return this.#storage?.selected;
  }

  get isReleased(): boolean {
    return this.#storage === undefined;
  }

  /** Whether passes can read it: it is held, and its backend was not removed. */
  get isReadable(): boolean {
    return this.#storage !== undefined && hasBackend(this.#storage.held.tensor);
  }

  /** Gives the memory back. Passes that were launched with the mask are not concerned. Idempotent. */
  release(): void {
    const storage = this.#storage;
    this.#storage = undefined;
    storage?.held.release();
  }

  /**
   * What kernels read, alive only as long as the mask.
   *
   * @param name what the caller calls the mask, for messages
   * @throws ReleasedError, DisposedTensorError if its backend is gone, BackendError if the device failed to make it
   */
  stored(where: string, name: string): Pick<MaskStorage, 'form'> & { readonly tensor: tf.Tensor } {
    if (this.#storage === undefined) {
      throw new ReleasedError({
        where,
        input: name,
        expected: 'a mask that is still held',
        received: 'one that was released',
        remedy: 'release a mask after the last call that uses it',
      });
    }
    const { held, form } = this.#storage;
    assertNumericTensor(where, name, held.tensor);
    assertSound(where, name, held.tensor.dataId);
    return { tensor: held.tensor, form };
  }
}

/**
 * Refuses everything but a mask that a pass can read.
 *
 * @throws as `assertNumericTensor`, and as `CompactMask.stored`
 */
export function assertMask(where: string, name: string, mask: unknown): asserts mask is MaskTensor {
  if (mask instanceof CompactMask) mask.stored(where, name);
  else assertNumericTensor(where, name, mask);
}
