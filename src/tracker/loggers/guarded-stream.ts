/**
 * Text to a stream whose other end may go away, such as a pipe to `head`.
 *
 * A stream that breaks emits `error`, after the callback of the write and much later on a socket; without a listener
 * that ends the process. Each stream has one listener of ours at most, and none while nothing is being written, unless
 * it is broken: then the event may still come.
 */

/** The part of a stream that is needed to write text to it. */
export interface TextStream {
  write(text: string, done?: (error?: Error | null) => void): unknown;
  once?(event: 'error', listener: (error: Error) => void): unknown;
  off?(event: 'error', listener: (error: Error) => void): unknown;
  readonly isTTY?: boolean | undefined;
  /** What broke it; a stream of Node takes text for ever then, and never says so. */
  readonly errored?: Error | null | undefined;
  /** Characters per line, on a terminal. */
  readonly columns?: number | undefined;
}

/** The listener of one stream. */
class Guard {
  readonly #stream: TextStream;
  /** What tells each write in progress that the stream broke. */
  readonly #writing = new Set<(error: Error) => void>();
  #isListening = false;

  constructor(stream: TextStream) {
    this.#stream = stream;
  }

  readonly #broke = (error: Error): void => {
    this.#isListening = false;
    for (const fail of [...this.#writing]) fail(error);
  };

  /** @returns after the stream has taken it; rejects with the stream's error */
  write(text: string): Promise<void> {
    if (!this.#isListening) this.#stream.once?.('error', this.#broke);
    this.#isListening = true;
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        this.#writing.delete(fail);
        reject(error);
      };
      this.#writing.add(fail);
      const done = (error?: Error | null): void => {
        if (error !== undefined && error !== null) {
          fail(error);
          return;
        }
        this.#writing.delete(fail);
        if (this.#writing.size === 0 && this.#isListening) {
          this.#stream.off?.('error', this.#broke);
          this.#isListening = false;
        }
        resolve();
      };
      try {
        this.#stream.write(text, done);
      } catch (error) {
        fail(error as Error);
      }
    });
  }
}

const guards = new WeakMap<TextStream, Guard>();

/** Writes, and waits where the stream can tell. @throws the error of the stream, which nobody else hears of */
export async function writeGuarded(stream: TextStream, text: string): Promise<void> {
  if (stream.once === undefined) {
    stream.write(text);
    return;
  }
  if (stream.errored instanceof Error) throw stream.errored;
  let guard = guards.get(stream);
  if (guard === undefined) {
    guard = new Guard(stream);
    guards.set(stream, guard);
  }
  await guard.write(text);
}
