/** Promises where values belong, the usual slip of a caller who forgot an `await`, and thenables from callbacks. */

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

/** Under it, a thenable says that its work has begun already, as that of a promise has. */
export const BEGUN = Symbol.for('tensortally/begun@1');

/**
 * What a callback has returned, begun where it was called: a thenable may do its work only when it is asked for its
 * result, and would do it in the context of whoever awaits it. Promises are what they are, and so are results that wait
 * on a device.
 */
export function begun<T>(result: T): T {
  if (!isThenable(result) || BEGUN in result) return result;
  if (result instanceof Promise && result.then === Promise.prototype.then) return result;
  const promise = new Promise<unknown>((resolve, reject) => {
    result.then(resolve, reject);
  });
  return promise as T;
}
