/**
 * The controller's end of a stream: merges the deltas of many workers, each exactly once, and says how they are doing.
 */
import { TensortallyError, ValueError } from '../../errors.js';
import { assertOptions, kindOf } from '../../kernels/arguments.js';
import { MomentsTable, type MomentsRow, emptyRow, mergeRows } from '../../kernels/moments/record.js';
import { exportRecord } from '../export-record.js';
import { exportedNumbers } from '../reduce-type.js';
import { type Clock, monotonicClock } from '../timing.js';
import { readDelta } from './delta-reader.js';
import type { Delta } from './delta.js';
import { KeyTable, MOST_KEYS } from './key-table.js';
import type { StreamRow } from './schema.js';
import type { DeltaAck } from './transport.js';
import { assertWhole, assertPolicyVersion } from './stream-options.js';
import { VersionedRows } from './versioned-rows.js';
import { WorkerRoster } from './worker-roster.js';

export interface StreamIngestOptions {
  /** Workers that must report: their ids, or how many. Without it `stream/workers_expected` is absent. */
  readonly expectedWorkers?: readonly string[] | number | undefined;
  /**
   * This controller takes over in the middle of a run: what a worker sent before the first delta that arrives here was
   * merged by somebody else. Default false: it is reported as missing, then as lost.
   */
  readonly joinsMidway?: boolean | undefined;
  /** Workers that were not heard of for so long are forgotten when an export resets; default a day. */
  readonly forgetAfterSeconds?: number | undefined;
  /** Keys of the whole stream; further ones are refused. Default 10000. */
  readonly maxKeys?: number | undefined;
  /** Policy versions kept apart; with more of them the oldest joins the records without one. Default 64. */
  readonly maxPolicyVersions?: number | undefined;
  /** Monotonic seconds, for ages; default `performance.now() / 1000`. */
  readonly clock?: Clock | undefined;
}

export interface StreamExportOptions {
  /** Only records that are tagged with it; default all, tagged or not. */
  readonly policyVersion?: number | undefined;
  /** Forget what was exported; default true. */
  readonly reset?: boolean | undefined;
}

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
  /** Messages that were no delta, or had keys that contradict those of the stream. */
  readonly refused: number;
}

/** What an export says of the stream itself: names that no key may export. */
const HEALTH_NAMES = {
  'stream/workers_seen': ({ workersSeen }) => workersSeen,
  'stream/workers_expected': ({ workersExpected }) => workersExpected,
  'stream/oldest_age_seconds': ({ oldestAgeSeconds }) => oldestAgeSeconds,
  'stream/merged': ({ merged }) => merged,
  'stream/duplicates': ({ duplicates }) => duplicates,
  'stream/missing': ({ missing }) => missing,
  'stream/lost': ({ lost }) => lost,
  'stream/stale': ({ stale }) => stale,
  'stream/refused': ({ refused }) => refused,
} as const satisfies Record<string, (health: StreamHealth) => number | undefined>;

/** A schema as this stream sees it. */
interface KnownSchema {
  /** Key numbers in the order of the schema; `REFUSED` for a key that is not of this stream. */
  readonly ids: readonly number[];
  /** Why, by place in the schema. */
  readonly refusals: ReadonlyMap<number, Error>;
}

const REFUSED = -1;

/** Tables of up to so many rows are kept for the next delta. */
const MOST_KEPT_ROWS = 256;

/** Schemas remembered at once; a worker whose schema was forgotten is asked for it again. */
const MOST_SCHEMAS = 1024;

/**
 * Merges what the emitters of many workers send.
 *
 * A delta is merged exactly once, however often and in whatever order it comes: duplicates, late ones and those of a
 * life before a restart are told apart by worker id, epoch and sequence number. Memory is O(workers + keys × policy versions).
 *
 * @example
 *   const ingest = new StreamIngest({ expectedWorkers: 64 });
 *   const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'rollout-0' });
 *   emitter.scalar({ 'rollout/reward': 1 });
 *   await emitter.flush();
 *   ingest.export(); // { 'rollout/reward': 1, 'rollout/reward__count': 1, 'stream/workers_seen': 1, … }
 */
export class StreamIngest {
  readonly #clock: Clock;
  readonly #forgetAfterSeconds: number;
  readonly #roster: WorkerRoster;
  readonly #keys: KeyTable;
  readonly #rows: VersionedRows;
  /** By fingerprint. */
  readonly #schemas = new Map<number, KnownSchema>();
  readonly #isKnown = (fingerprint: number): boolean => this.#schemas.has(fingerprint);
  /** One table per number of rows, because making one costs more than to merge what is in it. */
  readonly #tables = new Map<number, MomentsTable>();
  readonly #tableFor = (length: number): MomentsTable => {
    if (length > MOST_KEPT_ROWS) return new MomentsTable(length);
    let table = this.#tables.get(length);
    if (table === undefined) this.#tables.set(length, (table = new MomentsTable(length)));
    return table;
  };
  #merged = 0;
  #duplicates = 0;
  #stale = 0;
  #refused = 0;

  /** @throws ValueError for options that are none */
  constructor(options: StreamIngestOptions = {}) {
    assertOptions('StreamIngest', options, {
      expectedWorkers: 'any',
      joinsMidway: 'boolean',
      forgetAfterSeconds: 'number',
      maxKeys: 'number',
      maxPolicyVersions: 'number',
      clock: 'function',
    });
    const { expectedWorkers: expected, joinsMidway = false, forgetAfterSeconds = 86_400 } = options;
    const { maxKeys = 10_000, maxPolicyVersions = 64, clock = monotonicClock } = options;
    assertExpected(expected);
    assertWhole('StreamIngest', 'maxKeys', maxKeys, MOST_KEYS);
    assertWhole('StreamIngest', 'maxPolicyVersions', maxPolicyVersions);
    this.#clock = clock;
    this.#forgetAfterSeconds = forgetAfterSeconds;
    this.#roster = new WorkerRoster({ expected, joinsMidway }, clock());
    this.#keys = new KeyTable(maxKeys, Object.keys(HEALTH_NAMES));
    this.#rows = new VersionedRows(maxPolicyVersions);
  }

  /**
   * Merges one delta, unless it was merged before.
   *
   * @returns what the transport has to answer. `refused` with a DeltaError for bytes that are no delta; with a
   *   KeyConflictError or ValueError for keys that contradict those of the stream, while all others are merged
   * @throws ValueError for what are no bytes
   */
  receive(bytes: Uint8Array): DeltaAck {
    if (!(bytes instanceof Uint8Array)) {
      throw new ValueError({
        where: 'receive',
        input: 'bytes',
        expected: 'a Uint8Array',
        received: kindOf(bytes),
        remedy: 'pass the bytes that an emitter has sent',
      });
    }
    try {
      return this.#receive(readDelta(bytes, this.#isKnown, this.#tableFor));
    } catch (error) {
      if (!(error instanceof TensortallyError)) throw error;
      this.#refused++;
      return { status: 'refused', error };
    }
  }

  /**
   * What was merged, as a tracker would export it, and the health of the stream under `stream/`.
   *
   * @param options `policyVersion`: only what is tagged with it; `reset: false`: look without forgetting
   * @returns names in sorted order
   * @throws ValueError for options that are none
   */
  export(options: StreamExportOptions = {}): Record<string, number> {
    const health = this.health();
    const numbers = this.#take('export', options).flatMap(({ key, reduction, row }) =>
      exportedNumbers(key, reduction, row),
    );
    for (const [name, of] of Object.entries(HEALTH_NAMES)) {
      const value = of(health);
      if (value !== undefined) numbers.push([name, value]);
    }
    return exportRecord(numbers);
  }

  /**
   * Takes what was merged, as rows: to hand on to the emitter of a controller above this one, or to read what an export
   * leaves out, such as the deviation and the non-finite elements of a scalar.
   *
   * Like `export`, and like `StatsTracker.rows`, it forgets what it returns, so that no record is handed on twice:
   * `reset: false` looks without forgetting.
   *
   * @param options as for `export`; one that forgets everything starts the counts of `health` afresh
   * @returns rows in the order of their keys
   * @throws ValueError for options that are none
   */
  rows(options: StreamExportOptions = {}): StreamRow[] {
    return this.#take('rows', options);
  }

  /** The policy versions of which there is something to export, ascending. */
  policyVersions(): number[] {
    return this.#rows.policyVersions();
  }

  /** How the stream is doing now. */
  health(): StreamHealth {
    const now = this.#clock();
    return {
      workersSeen: this.#roster.reported,
      workersExpected: this.#roster.expected,
      silentWorkers: this.#roster.silent(),
      oldestAgeSeconds: this.#roster.oldestAge(now),
      merged: this.#merged,
      duplicates: this.#duplicates,
      missing: this.#roster.missing(),
      lost: this.#roster.lost,
      stale: this.#stale,
      refused: this.#refused,
    };
  }

  /** Forgets a worker that will not come back, so that its age is no longer reported. What it sent stays merged. */
  forget(workerId: string): void {
    if (typeof workerId !== 'string') {
      throw new ValueError({
        where: 'forget',
        input: 'workerId',
        expected: 'the id of a worker',
        received: kindOf(workerId),
        remedy: 'pass one of health().silentWorkers',
      });
    }
    this.#roster.forget(workerId);
  }

  #receive(delta: Delta): DeltaAck {
    const verdict = this.#roster.judge(delta);
    if (verdict !== 'new') {
      if (verdict === 'duplicate') this.#duplicates++;
      else this.#stale++;
      return { status: 'accepted' };
    }
    const schema = this.#schemas.get(delta.fingerprint) ?? this.#learn(delta);
    if (schema === undefined) return { status: 'unknown_schema' };
    if (schema.ids.length !== delta.keyCount) throw mismatch(delta, schema.ids.length);
    this.#roster.note(delta, this.#clock());
    this.#merged++;
    const refusal = this.#merge(delta, schema);
    if (refusal === undefined) return { status: 'accepted' };
    this.#refused++;
    return { status: 'refused', error: refusal };
  }

  /** Merges the rows whose keys are of this stream; returns why others are not. */
  #merge({ policyVersion, positions, rows }: Delta, { ids, refusals }: KnownSchema): Error | undefined {
    let refusal: Error | undefined;
    // An empty delta must not leave a policy version that nothing is in.
    const totals = rows.length === 0 ? undefined : this.#rows.at(policyVersion);
    for (let i = 0; i < rows.length; i++) {
      const id = ids[positions[i]!]!;
      if (id === REFUSED) refusal ??= refusals.get(positions[i]!);
      else totals!.add(id, rows.row(i));
    }
    return refusal;
  }

  /** Claims the keys of a schema one by one, so that one that contradicts the stream costs only itself. */
  #learn({ fingerprint, definitions }: Delta): KnownSchema | undefined {
    if (definitions === undefined) return undefined;
    const refusals = new Map<number, Error>();
    const ids = definitions.map((definition, position) => {
      try {
        return this.#keys.claim('receive', [definition])[0]!;
      } catch (error) {
        refusals.set(position, error as Error);
        return REFUSED;
      }
    });
    if (this.#schemas.size >= MOST_SCHEMAS) {
      const [oldest] = this.#schemas.keys();
      this.#schemas.delete(oldest!);
    }
    const schema = { ids, refusals };
    this.#schemas.set(fingerprint, schema);
    return schema;
  }

  #take(where: string, options: StreamExportOptions): StreamRow[] {
    assertOptions(where, options, { policyVersion: 'any', reset: 'boolean' });
    const { policyVersion, reset = true } = options;
    if (policyVersion !== undefined) assertPolicyVersion(where, policyVersion);
    const totals: (MomentsRow | undefined)[] = [];
    for (const [, rows] of this.#rows.entries(policyVersion)) {
      for (const id of rows.ids()) totals[id] = mergeRows(totals[id] ?? emptyRow, rows.row(id));
    }
    const taken: StreamRow[] = [];
    totals.forEach((row, id) => {
      if (row !== undefined) taken.push({ ...this.#keys.definition(id), row });
    });
    if (reset) this.#reset(policyVersion);
    return taken.sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  #reset(policyVersion: number | undefined): void {
    this.#rows.clear(policyVersion);
    if (this.#rows.isEmpty) {
      this.#roster.startPeriod();
      this.#merged = this.#duplicates = this.#stale = this.#refused = 0;
    }
    this.#roster.forgetSilent(this.#forgetAfterSeconds, this.#clock());
  }
}

function mismatch({ keyCount }: Delta, known: number): ValueError {
  return new ValueError({
    where: 'receive',
    input: 'delta',
    expected: `${known} keys, as its schema has`,
    received: `${keyCount}`,
    remedy: 'send what an emitter has encoded',
  });
}

function assertExpected(expected: unknown): void {
  if (expected === undefined) return;
  if (Number.isSafeInteger(expected) && (expected as number) >= 0) return;
  if (Array.isArray(expected) && expected.every((id) => typeof id === 'string')) return;
  throw new ValueError({
    where: 'StreamIngest',
    input: 'options.expectedWorkers',
    expected: 'a number of workers, or an array of their ids',
    received: kindOf(expected),
    remedy: 'leave it out if workers come and go',
  });
}
