/**
 * Wall-clock durations of pieces of code. Times whatever runs between start and end on the host; work that a device
 * still does in the background is only part of it if the code waits for it.
 */

/** Monotonic seconds since any fixed moment. */
export type Clock = () => number;

/** The default clock. */
export const monotonicClock: Clock = () => performance.now() / 1000;

/** A running measurement: reports its duration once, when it is disposed. */
export class Stopwatch implements Disposable {
  readonly #clock: Clock;
  readonly #start: number;
  #report: ((seconds: number) => void) | undefined;

  constructor(clock: Clock, report: (seconds: number) => void) {
    this.#clock = clock;
    this.#report = report;
    this.#start = clock();
  }

  [Symbol.dispose](): void {
    const report = this.#report;
    this.#report = undefined;
    report?.(this.#clock() - this.#start);
  }
}

/** Runs `fn` and disposes `running` when it is over: returned, thrown, or its promise settled. */
export function during<T>(running: Disposable, fn: () => T): T {
  let isPending = false;
  try {
    const result = fn();
    if (!isPromiseLike(result)) return result;
    isPending = true;
    const settled = Promise.resolve(result).finally(() => {
      running[Symbol.dispose]();
    });
    return settled as T;
  } finally {
    if (!isPending) running[Symbol.dispose]();
  }
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
