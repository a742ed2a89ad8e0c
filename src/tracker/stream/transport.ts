/**
 * How deltas get from workers to a controller. A transport moves bytes and answers what became of them; that nothing is
 * lost and nothing counts twice is the business of the two ends.
 */

/** What became of a delta. */
export type DeltaAck =
  /** It is merged, was merged before, or is stored by whoever delivers it from now on. */
  | { readonly status: 'accepted' }
  /**
   * It is so old, or of a life so long ago, that it cannot be told from one that was merged, and was left out. An emitter
   * gets this where somebody else uses its worker id.
   */
  | { readonly status: 'stale' }
  /** Its schema is not known: it has to come again, with definitions. */
  | { readonly status: 'unknown_schema' }
  /** It, or some of its keys, can never be merged; sending it again would not help. */
  | { readonly status: 'refused'; readonly error: Error };

export interface StreamTransport {
  /**
   * Who acknowledges: `direct`, the controller itself, or `stored`, somebody who delivers later and cannot ask for the
   * definitions of a schema, so that each delta has to bring its own.
   */
  readonly delivery: 'direct' | 'stored';
  /**
   * Delivers one delta. Called again with the same delta after a failure or a lost answer.
   *
   * @param options `signal`: aborts when the sender has stopped waiting
   * @returns rejects if the delta may not have arrived
   */
  send(delta: Uint8Array, options: { readonly signal: AbortSignal }): Promise<DeltaAck>;
}
