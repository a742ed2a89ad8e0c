/**
 * What stays on a GPU and is used again: whether the device had a fault while it was made.
 *
 * A fault is told at the next read-back, once, to whoever reads. What is read is refused then; what stays has to know
 * that it may have come out of the same fault, or the next pass over it would give numbers from nowhere.
 */
import { BackendError } from '../errors.js';

/** Work recorded on a device: sound once a read-back behind it found no fault. */
export class DeviceWork {
  readonly #unproven: Set<DeviceWork>;
  #fault: string | undefined;

  /** @param unproven where it waits for the next read-back */
  constructor(unproven: Set<DeviceWork>) {
    this.#unproven = unproven;
    unproven.add(this);
  }

  /** Ends the watch, for work that nobody will use any more. */
  forget(): void {
    this.#unproven.delete(this);
  }

  /** The device reported `fault` and may have done so because of this work. */
  blame(fault: string): void {
    this.#fault = fault;
    this.forget();
  }

  /** @throws BackendError if the device reported a fault before the work was known to be sound */
  assertSound(where: string, name: string): void {
    if (this.#fault === undefined) return;
    throw new BackendError({
      where,
      input: name,
      expected: 'a mask that the webgpu device made without errors',
      received: `one made before the device reported: ${this.#fault}`,
      remedy: 'make it again from its tensor',
    });
  }
}
