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
import { remedyFor } from './promises.js';

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

/**
 * Under it an error carries the kinds of its classes. A process may hold two copies of this package, and an error of one
 * is to be an `instanceof` the same class of the other.
 */
const KINDS = Symbol.for('tensortally/error-kinds@1');

/** The kinds of a class and of those it extends; a class that names none of its own is known to its copy alone. */
function kindsOf(type: object): string[] {
  const kinds: string[] = [];
  for (let at: unknown = type; typeof at === 'function'; at = Object.getPrototypeOf(at)) {
    const { kind } = at as { kind?: unknown };
    if (Object.hasOwn(at, 'kind') && typeof kind === 'string') kinds.push(kind);
  }
  return kinds;
}

/** Base class: `catch (e) { if (e instanceof TensortallyError) … }` catches every deliberate refusal. */
export abstract class TensortallyError extends Error implements ErrorDetail {
  /** @internal what `instanceof` of another copy knows the class by */
  static readonly kind: string = 'any';

  static override [Symbol.hasInstance](value: unknown): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, value)) return true;
    const kinds = (value as { readonly [KINDS]?: unknown } | null | undefined)?.[KINDS];
    return Array.isArray(kinds) && Object.hasOwn(this, 'kind') && kinds.includes(this.kind);
  }

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
    const remedy = shown(remedyFor(received, detail.remedy));
    const subject = input === undefined ? where : `${where}: ${input}`;
    super(`${subject}: expected ${expected}, got ${received}; ${remedy}`, options);
    this.name = new.target.name;
    Object.defineProperty(this, KINDS, { value: kindsOf(new.target) });
    this.where = where;
    this.input = input;
    this.expected = expected;
    this.received = received;
    this.remedy = remedy;
  }
}

/** Shapes that do not fit together: wrong rank, a mask of another shape, rows that do not match. */
export class ShapeError extends TensortallyError {
  static override readonly kind: string = 'shape';
  readonly code = 'shape';
}

/** An input of a kind that carries no numbers to reduce: string or complex tensors, plain arrays. */
export class DtypeError extends TensortallyError {
  static override readonly kind: string = 'dtype';
  readonly code = 'dtype';
}

/** An input that the computation needs and that is not there. */
export class MissingInputError extends TensortallyError {
  static override readonly kind: string = 'missing_input';
  readonly code: string = 'missing_input';
}

/** A tensor that was disposed before it was handed over: the handle is there, its data is not. */
export class DisposedTensorError extends MissingInputError {
  static override readonly kind: string = 'disposed_tensor';
  override readonly code = 'disposed_tensor';
}

/** A result whose device memory was given back before anybody read it. */
export class ReleasedError extends TensortallyError {
  static override readonly kind: string = 'released';
  readonly code = 'released';
}

/** An option or a scalar outside its domain: an unknown reduce type, a negative count, text where a number belongs. */
export class ValueError extends TensortallyError {
  static override readonly kind: string = 'value';
  readonly code = 'value';
}

/** A key that two different records claim: another kind, reduce type or denominator, or the same exported name. */
export class KeyConflictError extends TensortallyError {
  static override readonly kind: string = 'key_conflict';
  readonly code = 'key_conflict';
}

/** A backend that cannot run here, tensors that live on two backends, or a device that reported a fault. */
export class BackendError extends TensortallyError {
  static override readonly kind: string = 'backend';
  readonly code = 'backend';
}

/** A number of records that does not pair up: more values than masks, or masks that no value ever used. */
export class PairingError extends TensortallyError {
  static override readonly kind: string = 'pairing';
  readonly code = 'pairing';
}
