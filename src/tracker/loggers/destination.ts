/** One destination of a logger and the order of what it is given: a slow one keeps no other from its commits. */
import type { CommitPoint, StatsWriter } from './logger.js';

export class Destination {
  readonly #writer: StatsWriter;
  /** Settles when everything so far has been tried; only for a destination that does not keep the order itself. */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(writer: StatsWriter) {
    this.#writer = writer;
  }

  get name(): string {
    return this.#writer.name;
  }

  /** Whether it has read its data when `write` returns. */
  get keepsOrder(): boolean {
    return this.#writer.keepsOrder === true;
  }

  /**
   * Gives the destination a commit: at once if it keeps the order itself, else after the commits before.
   *
   * @param from the step that the run went back to, if it did
   */
  write(
    step: number,
    data: Readonly<Record<string, number>>,
    point: CommitPoint,
    from: number | undefined,
  ): void | Promise<void> {
    if (this.keepsOrder) {
      if (from === undefined) return this.#writer.write(step, data, point);
      return Promise.all([this.#writer.resume?.(from), this.#writer.write(step, data, point)]).then(
        () => undefined,
      );
    }
    const attempt = this.#tail.then(async () => {
      if (from !== undefined) await this.#writer.resume?.(from);
      await this.#writer.write(step, data, point);
    });
    this.#tail = attempt.catch(() => undefined);
    return attempt;
  }

  /** Closes the destination, after all that it was given. */
  async close(): Promise<void> {
    await this.#tail;
    await this.#writer.close();
  }
}
