/**
 * Delivery of one emitter: seals what waits into numbered deltas and sends them one at a time until each is acknowledged.
 */
import { kindOf, messageOf } from '../../arguments.js';
import { MomentsTable } from '../../rows/index.js';
import { StreamError } from './errors.js';
import type { DeltaAck, StreamTransport } from './transport.js';
import type { KeyedRows, VersionedRows } from './versioned-rows.js';
import { type Delta, encodeDelta } from './wire/delta.js';
import type { KeyTable } from './wire/key-table.js';
import { SentSchema, numbersFrom } from './wire/sent-schema.js';

export interface CourierOptions {
  readonly workerId: string;
  readonly epoch: number;
  readonly sendTimeoutMs: number;
}

/** What is on its way, and what became of what was. */
export interface EmitterStatus {
  /** Rows that wait to be sent: keys times policy versions, however many records they hold. */
  readonly waitingRows: number;
  /** Deltas with a number that are not acknowledged yet. */
  readonly unacknowledged: number;
  /** Deltas that were acknowledged. */
  readonly delivered: number;
  /** Deliveries that failed, and were or will be repeated. */
  readonly failures: number;
  /** Deltas that the controller refused, whole or in part, or took for old ones; what it refused is lost. */
  readonly refused: number;
}

/** What a number was given to: it keeps this content until it is acknowledged. */
interface Sealed {
  readonly seq: number;
  readonly policyVersion: number | undefined;
  readonly isFinal: boolean;
  /** Keys that have a row. */
  readonly ids: readonly number[];
  readonly rows: KeyedRows | undefined;
  /** Keys that were known when it was sealed. */
  readonly keyCount: number;
}

export class Courier {
  readonly #transport: StreamTransport;
  readonly #keys: KeyTable;
  readonly #waiting: VersionedRows;
  readonly #options: CourierOptions;
  /** Sealed and not acknowledged, oldest first. */
  readonly #sealed: Sealed[] = [];
  /** The schema of the last delta that was answered: the controller has it, or asks. */
  #known: SentSchema | undefined;
  /** How many wait for a delivery; while nobody does, it does not keep the process alive. */
  #awaiting = 0;
  #deadline: NodeJS.Timeout | undefined;
  #seq = 0;
  #hasSealedFinal = false;
  #delivered = 0;
  #failures = 0;
  #refused = 0;

  constructor(transport: StreamTransport, keys: KeyTable, waiting: VersionedRows, options: CourierOptions) {
    this.#transport = transport;
    this.#keys = keys;
    this.#waiting = waiting;
    this.#options = options;
  }

  /** Whether there is nothing to deliver. */
  get isIdle(): boolean {
    return this.#sealed.length === 0 && this.#waiting.isEmpty;
  }

  status(): EmitterStatus {
    return {
      waitingRows: this.#waiting.size,
      unacknowledged: this.#sealed.length,
      delivered: this.#delivered,
      failures: this.#failures,
      refused: this.#refused,
    };
  }

  /** Keeps the process alive until a delivery that somebody waits for is over. */
  async awaited(delivery: Promise<void>): Promise<void> {
    this.#awaiting++;
    this.#deadline?.ref();
    try {
      await delivery;
    } finally {
      this.#awaiting--;
      if (this.#awaiting === 0) this.#deadline?.unref();
    }
  }

  /**
   * Delivers what was sealed before, then everything that waits now. Must not run twice at a time.
   *
   * @param isLast whether to end with a final delta
   * @throws StreamError for a delivery that failed; the reason of the controller for a delta that it refused
   */
  async deliver(isLast: boolean): Promise<void> {
    const refusals: Error[] = [];
    await this.#sendSealed(refusals);
    this.#seal(isLast);
    await this.#sendSealed(refusals);
    if (refusals.length > 0) throw refusals[0]!;
  }

  async #sendSealed(refusals: Error[]): Promise<void> {
    for (let delta = this.#sealed[0]; delta !== undefined; delta = this.#sealed[0]) {
      const ack = await this.#send(delta);
      if (ack.status === 'refused') {
        this.#refused++;
        refusals.push(ack.error);
      } else if (ack.status === 'stale') {
        this.#refused++;
        refusals.push(this.#leftOut(delta));
      } else {
        this.#delivered++;
      }
      this.#sealed.shift();
    }
  }

  /** @throws StreamError unless the delta was accepted or refused for good */
  async #send(delta: Sealed): Promise<DeltaAck> {
    try {
      const schema = this.#schemaOf(delta);
      const ack = await this.#ask(
        encodeDelta(this.#deltaOf(delta, schema), { definitions: schema !== this.#known }),
      );
      if (ack.status !== 'unknown_schema') {
        this.#known = schema;
        return ack;
      }
      // The controller was restarted, or has forgotten.
      const whole = SentSchema.of(this.#keys, numbersFrom(0, delta.keyCount));
      const again = await this.#ask(encodeDelta(this.#deltaOf(delta, whole)));
      this.#known = whole;
      if (again.status !== 'unknown_schema') return again;
      throw this.#failed('an answer to a delta with definitions', 'that its schema is not known');
    } catch (error) {
      this.#failures++;
      if (error instanceof StreamError) throw error;
      throw this.#failed('a delivery', messageOf(error), error);
    }
  }

  async #ask(bytes: Uint8Array): Promise<DeltaAck> {
    const { sendTimeoutMs } = this.#options;
    const abort = new AbortController();
    const deadline = new Promise<never>((_resolve, reject) => {
      this.#deadline = setTimeout(() => {
        const error = this.#failed('an answer', `none within ${sendTimeoutMs} ms`);
        reject(error);
        abort.abort(error);
      }, sendTimeoutMs);
      if (this.#awaiting === 0) this.#deadline.unref();
    });
    try {
      const ack: unknown = await Promise.race([
        this.#transport.send(bytes, { signal: abort.signal }),
        deadline,
      ]);
      if (isAck(ack)) return ack;
      throw this.#failed(
        "an answer with status 'accepted', 'stale', 'unknown_schema' or 'refused'",
        `${kindOf(ack)} with status ${kindOf((ack as { status?: unknown } | null | undefined)?.status)}`,
      );
    } finally {
      clearTimeout(this.#deadline);
      this.#deadline = undefined;
    }
  }

  #leftOut({ seq }: Sealed): StreamError {
    const { epoch } = this.#options;
    return new StreamError({
      where: 'flush',
      input: `worker '${this.#options.workerId}'`,
      expected: 'a delta that is newer than those the controller has merged',
      received: `delta ${seq} of epoch ${epoch}, which it cannot tell from one of those`,
      remedy: 'give every worker an id of its own, and every life of it a larger epoch',
    });
  }

  #failed(expected: string, received: string, cause?: unknown): StreamError {
    return new StreamError(
      {
        where: 'flush',
        input: `worker '${this.#options.workerId}'`,
        expected,
        received,
        remedy: 'flush again: nothing is lost, and what was delivered is not counted twice',
      },
      { cause },
    );
  }

  /** Turns everything that waits into deltas, one per policy version. */
  #seal(isLast: boolean): void {
    const entries = this.#waiting.entries();
    const endsNow = isLast && !this.#hasSealedFinal;
    entries.forEach(([policyVersion, rows], i) => {
      this.#push(policyVersion, rows, endsNow && i === entries.length - 1);
    });
    if (entries.length === 0 && endsNow) this.#push(undefined, undefined, true);
    if (endsNow) this.#hasSealedFinal = true;
    this.#waiting.clear();
  }

  #push(policyVersion: number | undefined, rows: KeyedRows | undefined, isFinal: boolean): void {
    const ids = rows?.ids() ?? [];
    this.#sealed.push({ seq: ++this.#seq, policyVersion, isFinal, ids, rows, keyCount: this.#keys.size });
  }

  /**
   * What a delta is written with: the schema that the controller has where that has its keys, the same with the keys that
   * are new, or all keys. Who delivers later can ask for nothing, and keeps no order: there, the keys of the delta.
   */
  #schemaOf({ ids, keyCount }: Sealed): SentSchema {
    if (this.#transport.delivery === 'stored') {
      this.#known = undefined;
      return SentSchema.of(this.#keys, ids);
    }
    if (this.#known === undefined) return SentSchema.of(this.#keys, numbersFrom(0, keyCount));
    return this.#known.has(ids) ? this.#known : this.#known.extended(this.#keys, keyCount);
  }

  #deltaOf({ seq, policyVersion, isFinal, ids, rows: keyed }: Sealed, schema: SentSchema): Delta {
    const { workerId, epoch } = this.#options;
    const { fingerprint, parent, definitions } = schema;
    const placed = ids.map((id) => ({ id, position: schema.positionOf(id)! }));
    placed.sort((a, b) => a.position - b.position);
    const rows = new MomentsTable(placed.length);
    placed.forEach(({ id }, i) => {
      rows.set(i, keyed!.row(id));
    });
    const positions = placed.map(({ position }) => position);
    return {
      ...{ workerId, epoch, seq, policyVersion, isFinal },
      ...{ fingerprint, keyCount: schema.ids.length, parent, definitions, positions, rows },
    };
  }
}

function isAck(ack: unknown): ack is DeltaAck {
  const { status, error } = (ack ?? {}) as { status?: unknown; error?: unknown };
  return (
    status === 'accepted' ||
    status === 'stale' ||
    status === 'unknown_schema' ||
    (status === 'refused' && error instanceof Error)
  );
}
