/** What a callback may return beside a promise. */
import { Pending } from '../kernels/index.js';
import { isThenable } from '../promises.js';

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
