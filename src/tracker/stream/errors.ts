/** The errors of streams: bytes that are no delta, and a stream that cannot take or deliver records. */
import { TensortallyError } from '../../errors.js';

/** Bytes that are no delta: cut short, of another version, or with numbers that no worker can have counted. */
export class DeltaError extends TensortallyError {
  static override readonly kind: string = 'delta';
  readonly code = 'delta';
}

/** A stream that is closed, or a delivery that failed; what the transport threw is the `cause`. */
export class StreamError extends TensortallyError {
  static override readonly kind: string = 'stream';
  readonly code = 'stream';
}
