/** Promises where values belong: the usual slip of a caller who forgot an `await`. */

/** What messages call a promise; what is received begins with it. */
export const PROMISE = 'a Promise';

/** Whether `value` has a `then` to wait for. One that throws when it is asked for it is a value like any other. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  try {
    return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
  } catch {
    return false;
  }
}

/** What helps, where `remedy` helps against values of other kinds: whatever the input is, awaiting the promise comes first. */
export function remedyFor(received: string, remedy: string): string {
  return received.startsWith(PROMISE) ? `await it first; ${remedy}` : remedy;
}
