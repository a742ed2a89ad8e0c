/**
 * The records of one key: growing in a slot while they are made, sealed in an entry once an export has cut them off.
 *
 * A row may still be on the device: then it is a part, in record order behind the row that is on the host already.
 */
import {
  RowAccumulator,
  type KeyRow,
  emptyKeyRow,
  keyRowOf,
  mergeKeyRows,
  weightedNumber,
  liftRow,
} from '../../rows/index.js';
import type { Part } from './launch.js';
import { type NonFiniteRule, type Reduction, mergerOf } from './reduce-type.js';

/** What a key is, until no window holds records of it. */
export interface Binding {
  readonly reduction: Reduction;
  /** Full key of the denominator of a stat. */
  readonly denominator?: string | undefined;
  /** The rule that was chosen for non-finite elements, if one was. */
  readonly nonFinite?: NonFiniteRule | undefined;
}

/** What a device has failed with where records were lost by it; hardly ever anything, so nothing is kept for none. */
type Losses = ReadonlySet<Error> | undefined;

function withLoss(losses: Losses, loss: Error | undefined): Losses {
  return loss === undefined || losses?.has(loss) === true ? losses : new Set([...(losses ?? []), loss]);
}

/** Records of one key that no later record joins. */
export class Entry {
  readonly binding: Binding;
  #row: KeyRow;
  #parts: Part[];
  #losses: Losses;

  /** @param losses why the row lacks records that were made, if it does */
  constructor(binding: Binding, row: KeyRow, parts: Part[], losses?: Losses) {
    this.binding = binding;
    this.#row = row;
    this.#parts = parts;
    this.#losses = losses;
  }

  get parts(): readonly Part[] {
    return this.#parts;
  }

  /** Everything recorded that was not lost, as one row. Only once all parts were read. */
  row(): KeyRow {
    for (const { launch, key } of this.#parts) {
      this.#row = mergeKeyRows(this.#row, launch.row(key));
      this.#losses = withLoss(this.#losses, launch.loss);
    }
    this.#parts = [];
    return this.#row;
  }

  /** Whether all of it is on the host. */
  get isRead(): boolean {
    return this.#parts.every(({ launch }) => launch.isRead);
  }

  /** The records of both, `later` behind. Only once all parts of both were read. */
  followedBy(later: Entry): Entry {
    const { reduction, nonFinite } = later.binding;
    const row = mergerOf(reduction, nonFinite)(this.row(), later.row());
    let losses = this.#losses;
    for (const loss of later.losses()) losses = withLoss(losses, loss);
    return new Entry(later.binding, row, [], losses);
  }

  /** Why records are missing, if some are. Only once all parts were read. */
  losses(): Iterable<Error> {
    this.row();
    return this.#losses ?? [];
  }
}

/** The entries of some keys, in the order in which the keys were first recorded. */
export type Segment = ReadonlyMap<string, Entry>;

/** Segments as one. Entries are shared with other windows, so they are never changed but for what they mean the same. */
export function merged(segments: readonly Segment[]): Segment {
  if (segments.length === 1) return segments[0]!;
  const all = new Map<string, Entry>();
  for (const segment of segments) {
    for (const [key, entry] of segment) {
      const earlier = all.get(key);
      all.set(key, earlier === undefined ? entry : earlier.followedBy(entry));
    }
  }
  return all;
}

/** Where the records of a key go. Stays the same object for as long as some window holds records of the key. */
export class Slot {
  readonly key: string;
  binding: Binding;
  readonly #row = new RowAccumulator();
  #parts: Part[] = [];
  #losses: Losses;
  /** Whether something was recorded since the last export that forgot the key. */
  isTouched = false;

  constructor(key: string, binding: Binding) {
    this.key = key;
    this.binding = binding;
  }

  get parts(): readonly Part[] {
    return this.#parts;
  }

  addNumber(x: number): void {
    this.isTouched = true;
    const { reduction, nonFinite } = this.binding;
    if (reduction === 'last')
      this.#row.set(mergerOf(reduction, nonFinite)(this.#row.row(), keyRowOf(liftRow(x))));
    else this.#row.add(x);
  }

  /** A number that stands for `weight` samples; none for 0. */
  addWeighted(x: number, weight: number): void {
    this.isTouched = true;
    if (weight > 0) this.#row.set(mergeKeyRows(this.#row, weightedNumber(x, weight)));
  }

  addPart(part: Part): void {
    this.isTouched = true;
    this.#parts.push(part);
    if (part.launch.isRead) this.fold();
  }

  /** Notes that a record could not be made because of a device. */
  lose(loss: Error): void {
    this.isTouched = true;
    this.#losses = withLoss(this.#losses, loss);
  }

  /** Takes the oldest parts in that were read meanwhile. Merging in record order, when does not matter to the bits. */
  fold(): void {
    let read = 0;
    for (; this.#parts[read]?.launch.isRead === true; read++) {
      const { launch, key } = this.#parts[read]!;
      this.#row.set(mergeKeyRows(this.#row, launch.row(key)));
      this.#losses = withLoss(this.#losses, launch.loss);
    }
    this.#parts.splice(0, read);
  }

  /** What is recorded now; later records do not change it. */
  snapshot(): Entry {
    return new Entry(this.binding, this.#row.row(), [...this.#parts], this.#losses);
  }

  /** Cuts off what is recorded, and starts anew. */
  seal(): Entry {
    const sealed = new Entry(this.binding, this.#row.row(), this.#parts, this.#losses);
    this.#row.set(emptyKeyRow);
    this.#parts = [];
    this.#losses = undefined;
    this.isTouched = false;
    return sealed;
  }
}
