/** One destination of a logger and the order of what it is given: a slow one keeps no other from its commits. */
import type { CommitPoint, StatsWriter } from './logger.js';

export class Destination {
  readonly #writer: StatsWriter;
  /** Settles when everything so far has been tried. */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(writer: StatsWriter) {
    this.#writer = writer;
  }

  get name(): string {
    return this.#writer.name;
  }

  /**
   * Gives the destination a commit: at once if it keeps the order itself, else after the commits before.
   *
   * @param from the step that the run went back to, if it did
   */
  async write(
    step: number,
    data: Readonly<Record<string, number>>,
    point: CommitPoint,
    from: number | undefined,
  ): Promise<void> {
    const told = from === undefined ? undefined : this.#next(() => this.#writer.resume?.(from));
    const written = this.#next(() => this.#writer.write(step, data, point));
    const outcomes = await Promise.allSettled([told, written]);
    const failure = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
  }

  /** Closes the destination, after all that it was given. */
  async close(): Promise<void> {
    await this.#tail;
    await this.#writer.close();
  }

  #next(act: () => void | Promise<void>): Promise<void> {
    const run = async (): Promise<void> => act();
    const outcome = this.#writer.keepsOrder === true ? run() : this.#tail.then(run);
    this.#tail = Promise.allSettled([this.#tail, outcome]);
    return outcome;
  }
}
