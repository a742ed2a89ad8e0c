/** What a callback may return beside a promise. */
import { Pending } from '../kernels/index.js';

/** Whether `value` has a `then` to wait for. One that throws when it is asked for it is a value like any other. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  try {
    return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
  } catch {
    return false;
  }
}

/**
 * What a callback has returned, begun where it was called: a thenable may do its work only when it is asked for its
 * result, and would do it in the context of whoever awaits it. Promises are what they are, and so are results that wait
 * on a device.
 */
export function begun<T>(result: T): T {
  if (!isThenable(result) || result instanceof Pending) return result;
  if (result instanceof Promise && result.then === Promise.prototype.then) return result;
  const promise = new Promise<unknown>((resolve, reject) => {
    result.then(resolve, reject);
  });
  return promise as T;
}
