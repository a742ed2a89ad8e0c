/** How a stream is doing, and the names under which an export says so. */

/**
 * How a stream is doing. Everything but `missing` and the age is about the time since the last export that forgot all that
 * was merged; one of a single policy version does so if there is no other.
 */
export interface StreamHealth {
  /** Workers of which a delta was merged. */
  readonly workersSeen: number;
  readonly workersExpected: number | undefined;
  /** Ids of known or expected workers that sent nothing and have not closed, sorted. */
  readonly silentWorkers: readonly string[];
  /** How long the quietest worker that has not closed was not heard of; undefined while there is none. */
  readonly oldestAgeSeconds: number | undefined;
  /** Deltas merged. */
  readonly merged: number;
  /** Deltas that came again and were left out. */
  readonly duplicates: number;
  /** Deltas that have not come although later ones of their worker have; they still may. */
  readonly missing: number;
  /** Missing deltas that were given up. */
  readonly lost: number;
  /** Deltas so old that they cannot be told from duplicates, left out. Unless they are, they were counted as lost. */
  readonly stale: number;
  /** Messages that were no delta, or had keys that contradict those of the stream, or that are counted below. */
  readonly refused: number;
  /** Rows that were left out because their keys contradict those of the stream or are too many or too long. */
  readonly refusedRows: number;
  /** Deltas refused for who sent them: of a worker too many, of another one than said, or numbered implausibly. */
  readonly refusedWorkers: number;
  /** Policy versions that joined the records without one, because there were too many. */
  readonly foldedVersions: number;
  /** Schemas that were forgotten, because there were too many. */
  readonly forgottenSchemas: number;
}

/** What an export says of the stream itself: names that no key may export. */
export const HEALTH_NAMES = {
  'stream/workers_seen': ({ workersSeen }) => workersSeen,
  'stream/workers_expected': ({ workersExpected }) => workersExpected,
  'stream/oldest_age_seconds': ({ oldestAgeSeconds }) => oldestAgeSeconds,
  'stream/merged': ({ merged }) => merged,
  'stream/duplicates': ({ duplicates }) => duplicates,
  'stream/missing': ({ missing }) => missing,
  'stream/lost': ({ lost }) => lost,
  'stream/stale': ({ stale }) => stale,
  'stream/refused': ({ refused }) => refused,
  'stream/refused_rows': ({ refusedRows }) => refusedRows,
  'stream/refused_workers': ({ refusedWorkers }) => refusedWorkers,
  'stream/folded_versions': ({ foldedVersions }) => foldedVersions,
  'stream/forgotten_schemas': ({ forgottenSchemas }) => forgottenSchemas,
} as const satisfies Record<string, (health: StreamHealth) => number | undefined>;
