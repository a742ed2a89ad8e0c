/**
 * What a destination for exported statistics has to do. One file per destination; `stats-logger.ts` drives them.
 */

/** Where in the training run a commit was made. */
export interface CommitPoint {
  readonly epoch: number;
  /** Step within the epoch. */
  readonly step: number;
}

/** A destination: a terminal, a file, a service. */
export interface StatsWriter {
  /** What messages call it, e.g. `jsonl`. */
  readonly name: string;
  /**
   * Whether it takes the next commit before the last one has settled, keeps their order by itself, has read the data
   * when `write` returns, and waits in `close` for what it was given. Commits reach such a destination inside the call of
   * `StatsLogger.commit`; all others get them one at a time, later.
   */
  readonly keepsOrder?: boolean;
  /**
   * Writes one commit. Steps only ever grow, but after `resume`.
   *
   * @param step global step
   * @param data numbers by name, in the order of the export; NaN and infinities included
   * @param point epoch and step within it, for people
   */
  write(step: number, data: Readonly<Record<string, number>>, point: CommitPoint): void | Promise<void>;
  /**
   * The run goes on at step `from`, after a state was loaded: what the destination has from that step on no longer
   * counts. Called before the `write` that follows; left out where a destination cannot tell.
   */
  resume?(from: number): void | Promise<void>;
  /** Writes out what is buffered and lets resources go. Called once, after all writes. */
  close(): void | Promise<void>;
}
