/**
 * The worker's end of a stream: accumulates records per key and delivers them at least once, in few small messages.
 *
 * One delta is under way at a time. What is recorded meanwhile, or while the controller is out of reach, merges into the
 * rows that wait, so memory does not grow with records or with the length of an outage; a delta that was sent keeps its
 * number and its content until it is acknowledged, so that the controller can tell it apart from its repetition.
 */
import { randomInt } from 'node:crypto';
import { assertFunction, assertNamed, assertOptions, kindOf } from '../../arguments.js';
import { TensortallyError, ValueError } from '../../errors.js';
import { processWide } from '../../process-wide.js';
import { liftRow } from '../../rows/index.js';
import { warn } from '../../warning.js';
import { Courier, type EmitterStatus } from './courier.js';
import { StreamError } from './errors.js';
import { assertStreamRow, namedNumbers } from './record-checks.js';
import { MOST_WORKER_ID, assertPolicyVersion, assertWhole } from './stream-options.js';
import type { StreamTransport } from './transport.js';
import { VersionedRows } from './versioned-rows.js';
import { DEFAULT_KEY_BYTES, KeyTable, MOST_KEYS, MOST_KEY_BYTES } from './wire/key-table.js';
import type { StreamReduction, StreamRow } from './wire/schema.js';

export interface StreamEmitterOptions {
  /** Tells the workers of a stream apart; the same after a restart. */
  readonly workerId: string;
  /**
   * Which life of the worker this is: an integer larger than that of its last one. Default: microseconds of the wall
   * clock, with chance in the last three digits so that two processes that start together differ.
   */
  readonly epoch?: number | undefined;
  /** Flush every so many milliseconds; default never. The timer does not keep the process alive. */
  readonly flushIntervalMs?: number | undefined;
  /** A delivery without an answer for so long has failed, and is repeated by the next flush; default 10000. */
  readonly sendTimeoutMs?: number | undefined;
  /** Keys that may be recorded; further ones are refused. Default 10000. */
  readonly maxKeys?: number | undefined;
  /** Bytes of UTF-8 that a key has at most; longer ones are refused. Default 1024, at most 16383. */
  readonly maxKeyBytes?: number | undefined;
  /** Policy versions that wait apart; with more of them the oldest joins the records without one. Default 64. */
  readonly maxPolicyVersions?: number | undefined;
  /** Hears of flushes by the timer that failed. Default: one process warning per outage. */
  readonly onError?: ((error: Error) => void) | undefined;
}

export interface EmitOptions {
  /** Of the policy that made the sample, so that a late one can still be told from the next step's. */
  readonly policyVersion?: number | undefined;
}

export interface MergeOptions extends EmitOptions {
  /** Is called with every row that cannot be merged, and why; the others are merged. Without it, all or none are. */
  readonly onRefused?: ((row: StreamRow, error: TensortallyError) => void) | undefined;
}

/** What `StreamEmitter.merge` throws: an error that holds the rows that it was given, none of which was merged. */
export type MergeRefusal = TensortallyError & { readonly rows: readonly StreamRow[] };

export interface EmitScalarOptions extends EmitOptions {
  /** How the numbers are exported; default `scalar`, their mean and `__count`. */
  readonly reduceType?: Exclude<StreamReduction, 'denominator' | 'counter'> | undefined;
}

/** The last epoch of this process, over all copies of the package. */
const epochs = processWide('stream-epochs', 1, () => ({ last: 0 }));

/** Later than every epoch of this process, and of its earlier lives unless the wall clock went back. */
function nextEpoch(): number {
  epochs.last = Math.max(epochs.last + 1, Date.now() * 1000 + randomInt(1000));
  return epochs.last;
}

/**
 * Records numbers on a rollout worker and sends them to the controller, pre-aggregated.
 *
 * Record calls are atomic and never wait. Keys are full keys; one key is recorded in one way only. `flush` and `close`
 * deliver. `reportEpisode` records an episode; `rolloutKey` makes keys that tell training and evaluation apart.
 *
 * @example
 *   const emitter = new StreamEmitter(transport, { workerId: 'rollout-0', flushIntervalMs: 500 });
 *   emitter.scalar({ 'rollout/reward': 0.5 });
 *   emitter.counter({ 'rollout/accepted': 1 });
 *   await emitter.close();
 */
export class StreamEmitter {
  readonly #keys: KeyTable;
  readonly #waiting: VersionedRows;
  readonly #courier: Courier;
  readonly #onError: ((error: Error) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #hasWarned = false;
  /** The last flush that was asked for, and one that has not started yet. */
  #tail: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  /** @throws MissingInputError or ValueError for an invalid transport or invalid options */
  constructor(transport: StreamTransport, options: StreamEmitterOptions) {
    assertTransport(transport);
    assertNamed('StreamEmitter', 'options', options, {
      expected: 'an object with workerId',
      remedy: "name the worker: { workerId: 'rollout-0' }",
    });
    assertOptions('StreamEmitter', options, {
      workerId: 'string',
      epoch: 'number',
      flushIntervalMs: 'number',
      sendTimeoutMs: 'number',
      maxKeys: 'number',
      maxKeyBytes: 'number',
      maxPolicyVersions: 'number',
      onError: 'function',
    });
    const { workerId, epoch = nextEpoch(), flushIntervalMs, sendTimeoutMs = 10_000 } = options;
    const { maxKeys = 10_000, maxKeyBytes = DEFAULT_KEY_BYTES, maxPolicyVersions = 64, onError } = options;
    assertWorkerId(workerId);
    assertWhole('StreamEmitter', 'epoch', epoch);
    assertWhole('StreamEmitter', 'sendTimeoutMs', sendTimeoutMs, MOST_MS);
    if (flushIntervalMs !== undefined) {
      assertWhole('StreamEmitter', 'flushIntervalMs', flushIntervalMs, MOST_MS);
    }
    assertWhole('StreamEmitter', 'maxKeys', maxKeys, MOST_KEYS);
    assertWhole('StreamEmitter', 'maxKeyBytes', maxKeyBytes, MOST_KEY_BYTES);
    assertWhole('StreamEmitter', 'maxPolicyVersions', maxPolicyVersions);
    this.#onError = onError;
    this.#keys = new KeyTable({ maxKeys, maxKeyBytes });
    this.#waiting = new VersionedRows(maxPolicyVersions);
    this.#courier = new Courier(transport, this.#keys, this.#waiting, { workerId, epoch, sendTimeoutMs });
    if (flushIntervalMs !== undefined) {
      this.#timer = setInterval(() => {
        this.#flushUnasked();
      }, flushIntervalMs).unref();
    }
  }

  /**
   * Records numbers, one sample per key.
   *
   * @param values numbers by full key; NaN and infinities propagate, booleans count as 0 and 1
   * @throws ValueError for other values; KeyConflictError for a key that is recorded in another way; StreamError after
   *   `close`
   */
  scalar(values: Record<string, number | boolean>, options?: EmitScalarOptions): void {
    if (options !== undefined) assertOptions('scalar', options, { policyVersion: 'any', reduceType: 'any' });
    const { reduceType = 'scalar', policyVersion } = options ?? {};
    if (!isNumberReduction(reduceType)) throw noReduceType(reduceType);
    this.#record('scalar', namedNumbers('scalar', values), reduceType, policyVersion);
  }

  /**
   * Adds to counters, which are exported as their sum: exact for integers up to 2^53.
   *
   * @param values finite numbers from 0, by full key; true counts as 1
   * @throws as `scalar` does
   */
  counter(values: Record<string, number | boolean>, options?: EmitOptions): void {
    if (options !== undefined) assertOptions('counter', options, { policyVersion: 'any' });
    const numbers = namedNumbers('counter', values);
    for (const [key, x] of numbers) if (!(x >= 0 && x < Infinity)) throw noCount(key, x);
    this.#record('counter', numbers, 'counter', options?.policyVersion);
  }

  /**
   * Merges whole rows: tensor statistics of a tracker or of `momentsTables`, or what another stream has collected.
   *
   * All of them or none: an error leaves the emitter as it was, and has all rows as its `rows`, which may exist nowhere
   * else by then. With `onRefused`, the rows that can be merged are.
   *
   * @param collected as `StreamIngest.rows` and `StatsTracker.rows` return them
   * @param options `onRefused`: is called with every row that cannot be merged, and why
   * @throws ValueError for rows that nothing can have; KeyConflictError and StreamError as `scalar` does
   */
  merge(collected: Iterable<StreamRow>, options?: MergeOptions): void {
    if (typeof (collected as Iterable<StreamRow> | null | undefined)?.[Symbol.iterator] !== 'function') {
      throw new ValueError({
        where: 'merge',
        input: 'collected',
        expected: 'a list of { key, reduction, row }',
        received: kindOf(collected),
        remedy: 'pass what rows() of a StreamIngest, or await tracker.rows() of a StatsTracker, returned',
      });
    }
    const rows = [...collected];
    try {
      if (options !== undefined)
        assertOptions('merge', options, { policyVersion: 'any', onRefused: 'function' });
      this.#merge(rows, options?.policyVersion, options?.onRefused);
    } catch (error) {
      if (error instanceof TensortallyError) Object.defineProperty(error, 'rows', { value: rows });
      throw error;
    }
  }

  /**
   * Delivers everything that was recorded before this call.
   *
   * Calls made while one is running are served together by the next. A failed flush loses nothing: its records go out
   * with the next one.
   *
   * @throws StreamError if the transport fails or does not answer; what the controller says if it refuses a delta or
   *   some of its keys, which are then dropped, because repeating them would not help
   */
  flush(): Promise<void> {
    const delivered = this.#courier.awaited(this.#deliver());
    // Whoever asked hears of a failure; nobody has to.
    delivered.catch(() => undefined);
    return delivered;
  }

  /**
   * Delivers what is left and tells the controller that this worker has ended. Nothing can be recorded any more.
   *
   * @throws as `flush` does; the records are kept, so that `close` may be called again
   */
  close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    return this.flush();
  }

  /** What is on its way, and what became of what was. */
  status(): EmitterStatus {
    return this.#courier.status();
  }

  #record(
    where: string,
    numbers: readonly (readonly [string, number])[],
    reduction: StreamReduction,
    policyVersion: number | undefined,
  ): void {
    const definitions = numbers.map(([key]) => ({ key, reduction }));
    const { ids, rows } = this.#open(where, policyVersion, definitions);
    ids.forEach((id, i) => {
      rows.add(id, liftRow(numbers[i]![1]));
    });
  }

  #merge(
    given: readonly StreamRow[],
    policyVersion: number | undefined,
    onRefused: MergeOptions['onRefused'],
  ): void {
    this.#assertOpen('merge', policyVersion);
    const refused: [StreamRow, TensortallyError][] = [];
    const good =
      onRefused === undefined
        ? given
        : given.filter((row) => {
            const refusal = this.#refusalOf(row);
            if (refusal !== undefined) refused.push([row, refusal]);
            return refusal === undefined;
          });
    for (const one of good) assertStreamRow(one);
    const { ids, rows } = this.#open('merge', policyVersion, good);
    ids.forEach((id, i) => {
      rows.add(id, good[i]!.row);
    });
    for (const [row, refusal] of refused) onRefused?.(row, refusal);
  }

  /** Why a row cannot be merged; claims its key if it can. */
  #refusalOf(given: StreamRow): TensortallyError | undefined {
    try {
      assertStreamRow(given);
      this.#keys.claim('merge', [given]);
      return undefined;
    } catch (error) {
      if (error instanceof TensortallyError) return error;
      throw error;
    }
  }

  /** Checks everything that can refuse a record; what follows cannot fail. */
  #open(
    where: string,
    policyVersion: number | undefined,
    definitions: Parameters<KeyTable['claim']>[1],
  ): { ids: number[]; rows: ReturnType<VersionedRows['at']> } {
    this.#assertOpen(where, policyVersion);
    return { ids: this.#keys.claim(where, definitions), rows: this.#waiting.at(policyVersion) };
  }

  #assertOpen(where: string, policyVersion: number | undefined): void {
    if (this.#isClosed) {
      throw new StreamError({
        where,
        input: 'emitter',
        expected: 'an open emitter',
        received: 'a closed one',
        remedy: 'record before close()',
      });
    }
    if (policyVersion !== undefined) assertPolicyVersion(where, policyVersion);
  }

  /** Joins the delivery that is about to begin, or begins one when the one under way is over. */
  #deliver(): Promise<void> {
    if (this.#next === undefined) {
      const run = this.#tail.then(() => {
        this.#next = undefined;
        return this.#courier.deliver(this.#isClosed);
      });
      this.#next = run;
      this.#tail = run.catch(() => undefined);
    }
    return this.#next;
  }

  #flushUnasked(): void {
    if (this.#courier.isIdle) return;
    this.#deliver().then(
      () => {
        this.#hasWarned = false;
      },
      (error: unknown) => {
        this.#report(error as Error);
      },
    );
  }

  #report(error: Error): void {
    if (this.#onError !== undefined) {
      try {
        this.#onError(error);
      } catch (fault) {
        process.emitWarning(fault as Error);
      }
      return;
    }
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    warn('TENSORTALLY_STREAM_FAILED', `${error.message} (further failures in a row are not reported)`);
  }
}

/** What timers can wait for. */
const MOST_MS = 2 ** 31 - 1;

function assertTransport(transport: unknown): asserts transport is StreamTransport {
  assertNamed('StreamEmitter', 'transport', transport, {
    expected: 'a StreamTransport',
    remedy: 'pass new InProcessTransport(ingest), or an object with delivery and send()',
  });
  const { send, delivery } = transport as Partial<StreamTransport>;
  assertFunction('StreamEmitter', 'transport.send', send);
  if (delivery === 'direct' || delivery === 'stored') return;
  throw new ValueError({
    where: 'StreamEmitter',
    input: 'transport.delivery',
    expected: "'direct' or 'stored'",
    received: kindOf(delivery),
    remedy: "use 'direct' if the controller itself acknowledges, 'stored' for a broker",
  });
}

function assertWorkerId(workerId: unknown): void {
  // 65535 bytes of UTF-8 at most, and a lone surrogate has no UTF-8 form.
  if (
    typeof workerId === 'string' &&
    workerId !== '' &&
    workerId.length <= MOST_WORKER_ID &&
    !/\p{Surrogate}/u.test(workerId)
  ) {
    return;
  }
  throw new ValueError({
    where: 'StreamEmitter',
    input: 'options.workerId',
    expected: 'a well-formed text of 1 to 1024 characters',
    received: kindOf(workerId),
    remedy: "name the worker, e.g. 'rollout-0'",
  });
}

function isNumberReduction(reduceType: StreamReduction): boolean {
  return reduceType !== 'denominator' && reduceType !== 'counter';
}

function noReduceType(reduceType: unknown): ValueError {
  return new ValueError({
    where: 'scalar',
    input: 'reduceType',
    expected: 'a reduce type of numbers',
    received: kindOf(reduceType),
    remedy: 'count with counter(), and merge() the rows of a denominator',
  });
}

function noCount(key: string, x: number): ValueError {
  return new ValueError({
    where: 'counter',
    input: key,
    expected: 'a finite number from 0',
    received: kindOf(x),
    remedy: 'record measurements with scalar()',
  });
}
