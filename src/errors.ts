/**
 * The errors that tensortally throws on purpose.
 *
 * Every message has the same four parts, in this order: where it happened and which input it is about, what was
 * expected, what came instead, and what to do. Code that wants to react branches on the class or on `code`; the
 * message is for people.
 *
 * An error shows the beginning of what is long and keeps nothing of the rest, so that refusing 10 MB costs a few kB
 * wherever errors are collected.
 */
import { printable } from './printable.js';

/** What every tensortally error carries besides its message. */
export interface ErrorDetail {
  /** The public function that refused, e.g. `maskedMoments`. */
  readonly where: string;
  /** The input at fault, as the caller spelled it, e.g. `mask`. */
  readonly input?: string | undefined;
  /** What the function needs. */
  readonly expected: string;
  /** What it was given. */
  readonly received: string;
  /** What the caller can do about it. */
  readonly remedy: string;
}

/** Characters of each part of a message; what is longer is cut, with `…` at its end. */
export const MOST_CHARACTERS = 1000;

/** A text as a terminal may see it, of at most `MOST_CHARACTERS`. */
function shown(text: string): string {
  // Cut before it is spelled out, which is work for every character, and again where that has made it longer.
  const brief = shortened(printable(shortened(text)));
  // In memory of its own: a slice of a string keeps all of that string alive.
  return Buffer.from(brief, 'utf16le').toString('utf16le');
}

function shortened(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text;
}

/** Base class: `catch (e) { if (e instanceof TensortallyError) … }` catches every deliberate refusal. */
export abstract class TensortallyError extends Error implements ErrorDetail {
  /** Stable identifier of the kind of error, one per class. */
  abstract readonly code: string;
  readonly where: string;
  readonly input: string | undefined;
  readonly expected: string;
  readonly received: string;
  readonly remedy: string;

  constructor(detail: ErrorDetail, options?: ErrorOptions) {
    const where = shown(detail.where);
    const input = detail.input === undefined ? undefined : shown(detail.input);
    const expected = shown(detail.expected);
    const received = shown(detail.received);
    const remedy = shown(detail.remedy);
    const subject = input === undefined ? where : `${where}: ${input}`;
    super(`${subject}: expected ${expected}, got ${received}; ${remedy}`, options);
    this.name = new.target.name;
    this.where = where;
    this.input = input;
    this.expected = expected;
    this.received = received;
    this.remedy = remedy;
  }
}

/** Shapes that do not fit together: wrong rank, a mask of another shape, rows that do not match. */
export class ShapeError extends TensortallyError {
  readonly code = 'shape';
}

/** An input of a kind that carries no numbers to reduce: string or complex tensors, plain arrays. */
export class DtypeError extends TensortallyError {
  readonly code = 'dtype';
}

/** An input that the computation needs and that is not there. */
export class MissingInputError extends TensortallyError {
  readonly code: string = 'missing_input';
}

/** A tensor that was disposed before it was handed over: the handle is there, its data is not. */
export class DisposedTensorError extends MissingInputError {
  override readonly code = 'disposed_tensor';
}

/** A result whose device memory was given back before anybody read it. */
export class ReleasedError extends TensortallyError {
  readonly code = 'released';
}

/** An option or a scalar outside its domain: an unknown reduce type, a negative count, text where a number belongs. */
export class ValueError extends TensortallyError {
  readonly code = 'value';
}

/** A key that two different records claim: another kind, reduce type or denominator, or the same exported name. */
export class KeyConflictError extends TensortallyError {
  readonly code = 'key_conflict';
}

/** A backend that cannot run here, tensors that live on two backends, or a device that reported a fault. */
export class BackendError extends TensortallyError {
  readonly code = 'backend';
}

/** A number of records that does not pair up: more values than masks, or masks that no value ever used. */
export class PairingError extends TensortallyError {
  readonly code = 'pairing';
}
