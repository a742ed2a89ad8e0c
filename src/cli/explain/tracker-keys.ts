/** What a tracker, a stream or a validation of one exports, by the form of the key: the names are the user's own. */

/** What is known of an exported name that a user has chosen. */
export interface TrackerKeyExplanation {
  readonly key: string;
  /** What the name is made of, e.g. `{key}/avg`. */
  readonly form: string;
  readonly meaning: string;
  readonly reportedBy: string;
}

const TRACKER = 'StatsTracker.export';
const STREAM = 'StreamIngest.export';

const WHOLE_NAMES: Readonly<Record<string, string>> = {
  'stream/workers_seen': 'workers of which a delta was merged',
  'stream/workers_expected': 'the option expectedWorkers',
  'stream/oldest_age_seconds':
    'seconds since the most silent worker was heard of, by the clock of the ingest',
  'stream/merged': 'deltas that were merged',
  'stream/duplicates': 'deltas that had been merged before, and were not merged again',
  'stream/missing': 'deltas that may still come: later ones of their worker have',
  'stream/lost': 'deltas that did not come and are no longer waited for',
  'stream/stale': 'deltas so old that they cannot be told from duplicates, and were not merged',
  'stream/refused': 'messages that were no delta, or of which keys contradict those of the stream',
  'stream/refused_rows':
    'rows left out because their keys contradict those of the stream, are too many, or too long',
  'stream/refused_workers':
    'deltas refused for their sender: a worker too many, another one than said, or a number that cannot be',
  'stream/folded_versions':
    'policy versions that joined the records without one, because there were too many',
  'stream/forgotten_schemas': 'schemas that were forgotten, because there were too many',
};

/** Names that are exported as they are here. */
export const wholeTrackerKeys: readonly string[] = Object.keys(WHOLE_NAMES);

const PREFIXES: readonly (readonly [prefix: string, name: string, meaning: string, reportedBy: string])[] = [
  ['timeperf/', 'stage', 'mean seconds of the calls that recordTiming and timing have timed', TRACKER],
  ['eval-rollout/', 'key', 'what evaluation rollouts have recorded under the key', STREAM],
  ['rollout/', 'key', 'what training rollouts have recorded under the key', STREAM],
];

const SUFFIXES: readonly (readonly [suffix: string, meaning: string])[] = [
  ['/avg', 'mean of the elements that the denominator selects, over all records of the window'],
  ['/min', 'smallest of the elements that the denominator selects'],
  ['/max', 'largest of the elements that the denominator selects'],
  ['/p50', 'median of the elements that the denominator selects, from a histogram'],
  ['/p90', '90th percentile of the elements that the denominator selects, from a histogram'],
  ['/p99', '99th percentile of the elements that the denominator selects, from a histogram'],
  ['/nonfinite', 'elements or records that were NaN or infinite; only where a rule for them was chosen'],
  ['__count', 'records behind the mean of the key, or the sum of their weights'],
];

/** What the name means if a tracker or a stream can export it; undefined for other names. */
export function explainTrackerKey(key: string): TrackerKeyExplanation | undefined {
  if (Object.hasOwn(WHOLE_NAMES, key))
    return { key, form: key, meaning: WHOLE_NAMES[key]!, reportedBy: STREAM };
  for (const [suffix, meaning] of SUFFIXES) {
    if (key.length > suffix.length && key.endsWith(suffix))
      return { key, form: `{key}${suffix}`, meaning, reportedBy: TRACKER };
  }
  for (const [prefix, name, meaning, reportedBy] of PREFIXES) {
    if (key.length > prefix.length && key.startsWith(prefix))
      return { key, form: `${prefix}{${name}}`, meaning, reportedBy };
  }
  return undefined;
}
