/**
 * The controller's end of a stream: merges the deltas of many workers, each exactly once, and says how they are doing.
 */
import { assertOptions, kindOf } from '../../arguments.js';
import { TensortallyError, ValueError } from '../../errors.js';
import { type MomentsRow, emptyRow, mergeRows, MomentsTable } from '../../rows/index.js';
import { exportRecord } from '../export/export-record.js';
import { exportedNumbers } from '../records/reduce-type.js';
import { type Clock, monotonicClock } from '../timing.js';
import { StreamError } from './errors.js';
import { MOST_WORKER_ID, assertPolicyVersion, assertSeconds, assertWhole } from './stream-options.js';
import type { DeltaAck } from './transport.js';
import { type KeyedRows, VersionedRows } from './versioned-rows.js';
import { readDelta } from './wire/delta-reader.js';
import type { Delta } from './wire/delta.js';
import { DEFAULT_KEY_BYTES, KeyTable, MOST_KEYS, MOST_KEY_BYTES } from './wire/key-table.js';
import { type KnownSchema, KnownSchemas, REFUSED } from './wire/known-schemas.js';
import type { StreamRow } from './wire/schema.js';
import { HEALTH_NAMES, type StreamHealth } from './workers/health.js';
import { type DeltaVerdict, SEQUENCE_JUMP, WorkerRoster } from './workers/worker-roster.js';

export interface StreamIngestOptions {
  /** Workers that must report: their ids, or how many. Without it `stream/workers_expected` is absent. */
  readonly expectedWorkers?: readonly string[] | number | undefined;
  /**
   * This controller takes over in the middle of a run: what a worker sent before the first delta that arrives here was
   * merged by somebody else. Default false: it is reported as missing, then as lost.
   */
  readonly joinsMidway?: boolean | undefined;
  /** Workers that were not heard of for so long, above 0, are forgotten when an export resets; default a day. */
  readonly forgetAfterSeconds?: number | undefined;
  /** Keys of the whole stream; further ones are refused. Default 10000. */
  readonly maxKeys?: number | undefined;
  /** Bytes of UTF-8 that a key has at most; longer ones are refused. Default 1024, at most 16383. */
  readonly maxKeyBytes?: number | undefined;
  /** Workers known at once; deltas of further ones are refused. Default 100000. */
  readonly maxWorkers?: number | undefined;
  /** Schemas remembered at once; a worker whose schema was forgotten is asked for it again. Default 1024. */
  readonly maxSchemas?: number | undefined;
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

export interface ReceiveOptions {
  /**
   * Who sent the bytes, as the transport has authenticated it: a delta that says it is of another worker is refused. Left
   * out, deltas are believed, and who can send bytes can speak for any worker.
   */
  readonly workerId?: string | undefined;
}

/** What a delta is received with unless somebody says more: nothing that would have to be checked. */
const NO_OPTIONS: ReceiveOptions = Object.freeze({});

const NO_SCHEMA: KnownSchema = { ids: new Int32Array(), reason: undefined };

/** Tables of up to so many rows are kept for the next delta. */
const MOST_KEPT_ROWS = 256;

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
  readonly #schemas: KnownSchemas;
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
  #refusedRows = 0;
  #refusedWorkers = 0;

  /** @throws ValueError for invalid options */
  constructor(options: StreamIngestOptions = {}) {
    assertOptions('StreamIngest', options, {
      expectedWorkers: 'any',
      joinsMidway: 'boolean',
      forgetAfterSeconds: 'number',
      maxKeys: 'number',
      maxKeyBytes: 'number',
      maxWorkers: 'number',
      maxSchemas: 'number',
      maxPolicyVersions: 'number',
      clock: 'function',
    });
    const { expectedWorkers: expected, joinsMidway = false, forgetAfterSeconds = 86_400 } = options;
    const { maxKeys = 10_000, maxKeyBytes = DEFAULT_KEY_BYTES, maxWorkers = 100_000 } = options;
    const { maxSchemas = 1024, maxPolicyVersions = 64, clock = monotonicClock } = options;
    assertExpected(expected);
    assertSeconds('StreamIngest', 'forgetAfterSeconds', forgetAfterSeconds);
    assertWhole('StreamIngest', 'maxKeys', maxKeys, MOST_KEYS);
    assertWhole('StreamIngest', 'maxKeyBytes', maxKeyBytes, MOST_KEY_BYTES);
    assertWhole('StreamIngest', 'maxWorkers', maxWorkers);
    assertWhole('StreamIngest', 'maxSchemas', maxSchemas);
    assertWhole('StreamIngest', 'maxPolicyVersions', maxPolicyVersions);
    this.#clock = clock;
    this.#forgetAfterSeconds = forgetAfterSeconds;
    this.#roster = new WorkerRoster({ expected, joinsMidway, maxWorkers }, clock());
    this.#keys = new KeyTable({ maxKeys, maxKeyBytes }, Object.keys(HEALTH_NAMES));
    this.#schemas = new KnownSchemas(maxSchemas);
    this.#rows = new VersionedRows(maxPolicyVersions);
  }

  /**
   * Merges one delta, unless it was merged before.
   *
   * @param options `workerId`: who sent it, where the transport knows
   * @returns what the transport has to answer. `refused` with a DeltaError for bytes that are no delta; with a
   *   KeyConflictError or ValueError for keys that contradict those of the stream or are too many or too long, while all
   *   others are merged; with a StreamError for a worker too many or another one than said, and for a sequence number
   *   that is more than 10000 ahead. `stale` for a delta that is too old to be told from one that was merged
   * @throws ValueError for what are no bytes or options
   */
  receive(bytes: Uint8Array, options: ReceiveOptions = NO_OPTIONS): DeltaAck {
    assertBytes('receive', 'bytes', bytes);
    if (options !== NO_OPTIONS) assertOptions('receive', options, { workerId: 'string' });
    try {
      return this.#receive(readDelta(bytes, this.#isKnown, this.#tableFor), options.workerId);
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
   * @throws ValueError for invalid options
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
   * @throws ValueError for invalid options
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
      refusedRows: this.#refusedRows,
      refusedWorkers: this.#refusedWorkers,
      foldedVersions: this.#rows.folded,
      forgottenSchemas: this.#schemas.forgotten,
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

  #receive(delta: Delta, sender: string | undefined): DeltaAck {
    if (sender !== undefined && sender !== delta.workerId) return this.#refuseWorker(foreign(delta, sender));
    if (delta.workerId.length > MOST_WORKER_ID) return this.#refuseWorker(longId(delta));
    const verdict = this.#roster.judge(delta);
    if (verdict !== 'new') return this.#leaveOut(delta, verdict);
    const schema = this.#schemas.get(delta.fingerprint) ?? this.#learn(delta);
    if (schema === undefined) return { status: 'unknown_schema' };
    if (schema.ids.length !== delta.keyCount) throw mismatch(delta, schema.ids.length);
    this.#roster.note(delta, this.#clock());
    this.#merged++;
    const left = this.#merge(delta, schema);
    if (left === 0) return { status: 'accepted' };
    this.#refused++;
    this.#refusedRows += left;
    return { status: 'refused', error: schema.reason! };
  }

  #leaveOut(delta: Delta, verdict: Exclude<DeltaVerdict, 'new'>): DeltaAck {
    switch (verdict) {
      case 'duplicate':
        this.#duplicates++;
        return { status: 'accepted' };
      case 'stale':
        this.#stale++;
        return { status: 'stale' };
      case 'crowded':
        return this.#refuseWorker(crowded(delta));
      case 'implausible':
        this.#roster.doubt(delta);
        return this.#refuseWorker(implausible(delta));
    }
  }

  #refuseWorker(error: StreamError): DeltaAck {
    this.#refused++;
    this.#refusedWorkers++;
    return { status: 'refused', error };
  }

  /** Merges the rows whose keys are of this stream; returns how many are not. */
  #merge({ policyVersion, positions, rows }: Delta, { ids }: KnownSchema): number {
    let left = 0;
    let totals: KeyedRows | undefined;
    for (let i = 0; i < rows.length; i++) {
      const id = ids[positions[i]!]!;
      // Not before there is a row: a policy version that nothing is in must not be left.
      if (id === REFUSED) left++;
      else (totals ??= this.#rows.at(policyVersion)).addFrom(id, rows, i);
    }
    return left;
  }

  /** Claims the keys of a schema one by one, so that one that contradicts the stream costs only itself. */
  #learn(delta: Delta): KnownSchema | undefined {
    const { fingerprint, definitions, parent } = delta;
    const before = parent === undefined ? NO_SCHEMA : this.#schemas.get(parent);
    if (definitions === undefined || before === undefined) return undefined;
    const count = before.ids.length + definitions.length;
    if (count !== delta.keyCount) throw mismatch(delta, count);
    const added = this.#keys.claimEach('receive', definitions, REFUSED);
    const ids = new Int32Array(count);
    ids.set(before.ids);
    ids.set(added.ids, before.ids.length);
    const schema = { ids, reason: before.reason ?? added.reason };
    this.#schemas.add(fingerprint, schema);
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
      this.#rows.startPeriod();
      this.#schemas.startPeriod();
      this.#merged = this.#duplicates = this.#stale = 0;
      this.#refused = this.#refusedRows = this.#refusedWorkers = 0;
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

function refusedWorker(input: string, expected: string, received: string, remedy: string): StreamError {
  return new StreamError({ where: 'receive', input, expected, received, remedy });
}

function foreign({ workerId }: Delta, sender: string): StreamError {
  const remedy = 'let a worker send its own deltas only';
  return refusedWorker('delta', `a delta of '${sender}', who sent it`, `one of '${workerId}'`, remedy);
}

function longId({ workerId }: Delta): StreamError {
  const expected = `the id of a worker of at most ${MOST_WORKER_ID} characters`;
  return refusedWorker('delta', expected, `${workerId.length}`, "name workers briefly, e.g. 'rollout-0'");
}

function crowded({ workerId }: Delta): StreamError {
  const remedy = 'keep ids over restarts, call forget() for workers that are gone, or raise maxWorkers';
  return refusedWorker('delta', 'no more than maxWorkers workers', `another one, '${workerId}'`, remedy);
}

function implausible({ workerId, seq }: Delta): StreamError {
  const expected = `a sequence number at most ${SEQUENCE_JUMP} after the last one of '${workerId}'`;
  const remedy = 'the delta after it is believed; a controller that takes over says joinsMidway';
  return refusedWorker('delta', expected, `${seq}`, remedy);
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

/** @throws ValueError for anything but bytes */
export function assertBytes(where: string, input: string, bytes: unknown): asserts bytes is Uint8Array {
  if (bytes instanceof Uint8Array) return;
  throw new ValueError({
    where,
    input,
    expected: 'a Uint8Array',
    received: kindOf(bytes),
    remedy: 'pass the bytes that an emitter has sent',
  });
}
