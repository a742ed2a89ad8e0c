/** What is counted of one run, whatever the backend. */
export interface Counts {
  /** GPU dispatches (webgpu) or TensorFlow ops (tensorflow); undefined where there is no device to launch on. */
  readonly launches: number | undefined;
  /** Transfers from the device to the host; undefined where memory is the host's own. */
  readonly readBacks: number | undefined;
  readonly readBackBytes: number | undefined;
  /** Most memory held at a time beyond what was held before. */
  readonly peakBytes: number;
}

/** Bytes held now and at the worst moment. */
export class Peak {
  #held = 0;
  #peak = 0;

  add(bytes: number): void {
    this.#held += bytes;
    this.#peak = Math.max(this.#peak, this.#held);
  }

  get bytes(): number {
    return this.#peak;
  }
}
