/**
 * What a controller remembers of its workers: which deltas it has merged, and when it last heard of each.
 *
 * Two lives of a worker are remembered, so that deltas of the one before a restart still count when they come late.
 * Memory is a few hundred bytes per worker, whatever they send, and the number of workers is bounded.
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

/** What a delta is: `implausible` if its number is too far ahead, `crowded` if its worker is one too many. */
export type DeltaVerdict = SequenceVerdict | 'implausible' | 'crowded';

/**
 * How far a sequence number may be ahead of the last one. An emitter sends one delta at a time, so only a store that loses
 * deltas leaves gaps. Further ahead, a delta counts when it follows one that was refused for this.
 *
 * @source RFC 3550, appendix A.1 (two packets in sequence after a jump).
 */
export const SEQUENCE_JUMP = 10_000;

/** Workers whose last delta was implausible that are remembered. */
const MOST_SUSPECTS = 1024;

export interface RosterOptions {
  /** Workers that are known at once; as many that were forgotten are remembered by the number of their last delta. */
  readonly maxWorkers: number;
  /** Workers that must report: their ids, or how many. */
  readonly expected: readonly string[] | number | undefined;
  /** Workers may be met in the middle of a life, after somebody else merged what came before. */
  readonly joinsMidway: boolean;
}

export class WorkerRoster {
  readonly #options: RosterOptions;
  readonly #startedAt: number;
  readonly #workers = new Map<string, Worker>();
  /** Workers that were silent for long, least recently forgotten first: one that returns goes on with its numbers. */
  readonly #forgotten = new Map<string, Worker>();
  /** The last implausible delta of a worker. */
  readonly #suspects = new Map<string, { readonly epoch: number; readonly seq: number }>();
  #period = 0;
  #reported = 0;
  #lost = 0;

  constructor(options: RosterOptions, now: number) {
    this.#options = options;
    this.#startedAt = now;
  }

  /** What a delta is to this receiver; changes nothing. */
  judge(delta: DeltaNumbers): DeltaVerdict {
    const { workerId, epoch, seq } = delta;
    const worker = this.#workers.get(workerId) ?? this.#forgotten.get(workerId);
    if (worker === undefined || epoch > worker.current.epoch) return this.#judgeNewLife(delta);
    if (epoch === worker.current.epoch) return this.#judgeIn(worker.current, delta);
    if (worker.previous === undefined || epoch > worker.previous.epoch) return this.#judgeNewLife(delta);
    return epoch === worker.previous.epoch ? worker.previous.window.judge(seq) : 'stale';
  }

  #judgeNewLife(delta: DeltaNumbers): DeltaVerdict {
    const isKnown = this.#workers.has(delta.workerId);
    if (!isKnown && this.#workers.size >= this.#options.maxWorkers) return 'crowded';
    return this.#options.joinsMidway || this.#isPlausible(delta, 0) ? 'new' : 'implausible';
  }

  #judgeIn({ window }: Life, delta: DeltaNumbers): DeltaVerdict {
    const isKnown = this.#workers.has(delta.workerId);
    if (!isKnown && this.#workers.size >= this.#options.maxWorkers) return 'crowded';
    const verdict = window.judge(delta.seq);
    return verdict === 'new' && !this.#isPlausible(delta, window.top) ? 'implausible' : verdict;
  }

  #isPlausible({ workerId, epoch, seq }: DeltaNumbers, top: number): boolean {
    if (seq - top <= SEQUENCE_JUMP) return true;
    const suspect = this.#suspects.get(workerId);
    return suspect?.epoch === epoch && seq === suspect.seq + 1;
  }

  /** Remembers an implausible delta, so that the one after it is believed. */
  doubt({ workerId, epoch, seq }: DeltaNumbers): void {
    this.#suspects.delete(workerId);
    this.#suspects.set(workerId, { epoch, seq });
    dropOldest(this.#suspects, MOST_SUSPECTS);
  }

  /** Remembers that a new delta has come. */
  note(delta: DeltaNumbers, now: number): void {
    const { workerId, epoch, isFinal } = delta;
    this.#suspects.delete(workerId);
    let worker = this.#workers.get(workerId) ?? this.#revived(workerId);
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
    this.#forgotten.set(workerId, worker);
    dropOldest(this.#forgotten, this.#options.maxWorkers);
  }

  /** A worker that was forgotten and is heard of again: what it sent before is still told apart. */
  #revived(workerId: string): Worker | undefined {
    const worker = this.#forgotten.get(workerId);
    if (worker === undefined) return undefined;
    this.#forgotten.delete(workerId);
    worker.period = -1;
    worker.hasClosed = false;
    this.#workers.set(workerId, worker);
    return worker;
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
    this.#lost += life?.window.giveUp() ?? 0;
  }
}

function dropOldest(map: Map<unknown, unknown>, most: number): void {
  for (const key of map.keys()) {
    if (map.size <= most) return;
    map.delete(key);
  }
}
