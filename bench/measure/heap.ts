/**
 * What is kept alive on the JavaScript heap, by collecting garbage before and after.
 *
 * Array buffers and the memories of backends lie outside of that heap and are counted where they are.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Collects garbage now, so that what is left is held by somebody. */
export function collectGarbage(): void {
  // The flag is only looked at when a context is made, so it reaches no other part of the process.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  setFlagsFromString('--no-expose-gc');
  // What finalizers let go is garbage for the next time.
  collect();
  collect();
}

/** Bytes of the heap in use once nothing is left to collect. */
function heapInUse(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/**
 * Bytes of the heap that one of what `make` returns keeps alive.
 *
 * @param copies how many are made and divided by: what an engine keeps for itself, such as compiled code, counts less then
 * @param dispose is called for each at the end
 */
export function heapKeptBy<T>(make: () => T, dispose: (made: T) => void, copies: number): number {
  warmUp(make, dispose);
  const before = heapInUse();
  const made = Array.from({ length: copies }, make);
  const after = heapInUse();
  made.forEach(dispose);
  return Math.max(0, (after - before) / copies);
}

/** Makes what is made once and belongs to nobody in particular. A function of its own: its frame keeps what it made. */
function warmUp<T>(make: () => T, dispose: (made: T) => void): void {
  dispose(make());
}
