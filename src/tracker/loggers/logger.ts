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
   * Writes one commit. Steps only ever grow, and the next call comes after this one has settled.
   *
   * @param step global step
   * @param data numbers by name, in the order of the export; NaN and infinities included
   * @param point epoch and step within it, for people
   */
  write(step: number, data: Readonly<Record<string, number>>, point: CommitPoint): void | Promise<void>;
  /** Writes out what is buffered and lets resources go. Called once. */
  close(): void | Promise<void>;
}
