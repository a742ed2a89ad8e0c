/**
 * Wall-clock durations of pieces of code. Times whatever runs between start and end on the host; work that a device
 * still does in the background is only part of it if the code waits for it.
 */

import { begun, isThenable } from '../promises.js';

/** Monotonic seconds since any fixed moment. */
export type Clock = () => number;

/** The default clock. */
export const monotonicClock: Clock = () => performance.now() / 1000;

/**
 * A running measurement: reports its duration once, when it is disposed.
 *
 * Disposing never throws: what was measured has an outcome, and an error of the measurement must not take its place.
 */
export class Stopwatch implements Disposable {
  readonly #clock: Clock;
  readonly #start: number;
  readonly #onLost: (error: unknown) => void;
  #report: ((seconds: number) => void) | undefined;

  /** @param onLost hears why a duration could not be reported */
  constructor(clock: Clock, report: (seconds: number) => void, onLost: (error: unknown) => void) {
    this.#clock = clock;
    this.#report = report;
    this.#onLost = onLost;
    this.#start = clock();
  }

  [Symbol.dispose](): void {
    const report = this.#report;
    this.#report = undefined;
    try {
      report?.(this.#clock() - this.#start);
    } catch (error) {
      this.#onLost(error);
    }
  }
}

/** Runs `fn` and disposes `running` when it is over: returned, thrown, or its promise settled. */
export function during<T>(running: Disposable, fn: () => T): T {
  let isPending = false;
  try {
    const result = fn();
    if (!isThenable(result)) return result;
    isPending = true;
    const settled = Promise.resolve(begun(result)).finally(() => {
      running[Symbol.dispose]();
    });
    return settled as T;
  } finally {
    if (!isPending) running[Symbol.dispose]();
  }
}
