/**
 * What a controller remembers of its workers: which deltas it has merged, and when it last heard of each.
 *
 * Two lives of a worker are remembered, so that deltas of the one before a restart still count when they come late.
 * Memory is a few hundred bytes per worker, whatever they send.
 */
import { SequenceWindow, type SequenceVerdict } from './sequence-window.js';

/** One life of a worker. */
interface Life {
  readonly epoch: number;
  readonly window: SequenceWindow;
}

interface Worker {
  current: Life;
  previous: Life | undefined;
  heardAt: number;
  /** The period in which a delta was last accepted; see `startPeriod`. */
  period: number;
  /** The current life has said that it is over. */
  hasClosed: boolean;
}

/** The numbers of a delta that tell it apart. */
export interface DeltaNumbers {
  readonly workerId: string;
  readonly epoch: number;
  readonly seq: number;
  readonly isFinal: boolean;
}

export interface RosterOptions {
  /** Workers that must report: their ids, or how many. */
  readonly expected: readonly string[] | number | undefined;
  /** Workers may be met in the middle of a life, after somebody else merged what came before. */
  readonly joinsMidway: boolean;
}

export class WorkerRoster {
  readonly #options: RosterOptions;
  readonly #startedAt: number;
  readonly #workers = new Map<string, Worker>();
  #period = 0;
  #reported = 0;
  #lost = 0;

  constructor(options: RosterOptions, now: number) {
    this.#options = options;
    this.#startedAt = now;
  }

  /** What a delta is to this receiver; changes nothing. */
  judge({ workerId, epoch, seq }: DeltaNumbers): SequenceVerdict {
    const worker = this.#workers.get(workerId);
    if (worker === undefined || epoch > worker.current.epoch) return 'new';
    if (epoch === worker.current.epoch) return worker.current.window.judge(seq);
    if (worker.previous === undefined || epoch > worker.previous.epoch) return 'new';
    return epoch === worker.previous.epoch ? worker.previous.window.judge(seq) : 'stale';
  }

  /** Remembers that a new delta has come. */
  note(delta: DeltaNumbers, now: number): void {
    const { workerId, epoch, isFinal } = delta;
    let worker = this.#workers.get(workerId);
    if (worker === undefined) {
      const current = this.#begin(delta);
      worker = { current, previous: undefined, heardAt: now, period: -1, hasClosed: false };
      this.#workers.set(workerId, worker);
    } else if (epoch > worker.current.epoch) {
      this.#giveUp(worker.previous);
      worker.previous = worker.current;
      worker.current = this.#begin(delta);
      worker.hasClosed = false;
    } else if (epoch < worker.current.epoch && worker.previous?.epoch !== epoch) {
      this.#giveUp(worker.previous);
      worker.previous = this.#begin(delta);
    }
    const life = epoch === worker.current.epoch ? worker.current : worker.previous!;
    this.#lost += life.window.mark(delta.seq);
    if (isFinal && life === worker.current) worker.hasClosed = true;
    worker.heardAt = now;
    if (worker.period !== this.#period) {
      worker.period = this.#period;
      this.#reported++;
    }
  }

  /** Forgets the workers that were not heard of for longer than `seconds`. */
  forgetSilent(seconds: number, now: number): void {
    for (const [workerId, { heardAt }] of this.#workers) if (now - heardAt > seconds) this.forget(workerId);
  }

  forget(workerId: string): void {
    const worker = this.#workers.get(workerId);
    if (worker === undefined) return;
    this.#giveUp(worker.previous);
    this.#giveUp(worker.current);
    this.#workers.delete(workerId);
  }

  /** Counts reports and losses afresh. */
  startPeriod(): void {
    this.#period++;
    this.#reported = 0;
    this.#lost = 0;
  }

  /** Workers that were heard of in this period. */
  get reported(): number {
    return this.#reported;
  }

  /** Deltas that were given up in this period. */
  get lost(): number {
    return this.#lost;
  }

  get expected(): number | undefined {
    const { expected } = this.#options;
    return typeof expected === 'object' ? new Set(expected).size : expected;
  }

  /** Workers, known or expected by name, that were not heard of in this period and have not closed. */
  silent(): string[] {
    const { expected } = this.#options;
    const names = new Set(typeof expected === 'object' ? expected : []);
    for (const [workerId, { period, hasClosed }] of this.#workers) {
      if (period === this.#period || hasClosed) names.delete(workerId);
      else names.add(workerId);
    }
    return [...names].sort();
  }

  /** How long the quietest worker that has not closed was not heard of; undefined if there is none. */
  oldestAge(now: number): number | undefined {
    let oldest: number | undefined;
    for (const { heardAt, hasClosed } of this.#workers.values()) {
      if (!hasClosed && (oldest === undefined || heardAt < oldest)) oldest = heardAt;
    }
    const { expected } = this.#options;
    if (typeof expected === 'object' && expected.some((workerId) => !this.#workers.has(workerId))) {
      oldest = Math.min(oldest ?? this.#startedAt, this.#startedAt);
    }
    return oldest === undefined ? undefined : now - oldest;
  }

  /** Deltas that have not come although later ones have, and still may. */
  missing(): number {
    let missing = 0;
    for (const { current, previous } of this.#workers.values()) {
      missing += current.window.missing + (previous?.window.missing ?? 0);
    }
    return missing;
  }

  #begin({ epoch, seq }: DeltaNumbers): Life {
    return { epoch, window: new SequenceWindow(this.#options.joinsMidway ? seq : 1) };
  }

  /** Nothing that is missing of a forgotten life can be merged any more. */
  #giveUp(life: Life | undefined): void {
    this.#lost += life?.window.missing ?? 0;
  }
}
