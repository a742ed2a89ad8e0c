/**
 * Rows by policy version and key number: what a worker has yet to send, and what a controller has yet to export.
 *
 * Memory grows with versions times keys, never with records. Records without a version are kept apart from all others.
 */
import { type MomentsRow, MomentsTable } from '../../rows/index.js';

/** Rows by key number. Knows which keys it has, because an empty row is a record too: a sum of nothing is 0. */
export class KeyedRows {
  #table = new MomentsTable(8);
  #has = new Uint8Array(8);
  #size = 0;

  /** Number of keys that have a row. */
  get size(): number {
    return this.#size;
  }

  has(id: number): boolean {
    return this.#has[id] === 1;
  }

  row(id: number): MomentsRow {
    return this.#table.row(id);
  }

  add(id: number, row: MomentsRow): void {
    this.#note(id);
    this.#table.add(id, row);
  }

  /** Merges row `j` of a table. */
  addFrom(id: number, rows: MomentsTable, j: number): void {
    this.#note(id);
    this.#table.addFrom(id, rows, j);
  }

  addAll(other: KeyedRows): void {
    for (const id of other.ids()) this.addFrom(id, other.#table, id);
  }

  #note(id: number): void {
    if (id >= this.#has.length) this.#grow(id + 1);
    if (this.#has[id] === 1) return;
    this.#has[id] = 1;
    this.#size++;
  }

  /** Numbers of the keys that have a row, ascending. */
  ids(): number[] {
    const ids: number[] = [];
    for (let id = 0; id < this.#has.length; id++) if (this.#has[id] === 1) ids.push(id);
    return ids;
  }

  #grow(length: number): void {
    const table = new MomentsTable(Math.max(length, 2 * this.#has.length));
    table.cells.set(this.#table.cells);
    const has = new Uint8Array(table.length);
    has.set(this.#has);
    this.#table = table;
    this.#has = has;
  }
}

export class VersionedRows {
  readonly #maxPolicyVersions: number;
  #byVersion = new Map<number | undefined, KeyedRows>();
  #folded = 0;

  /** @param maxPolicyVersions versions to keep apart; with more of them the oldest joins the records without one */
  constructor(maxPolicyVersions: number) {
    this.#maxPolicyVersions = maxPolicyVersions;
  }

  get isEmpty(): boolean {
    return this.#byVersion.size === 0;
  }

  /** Rows over all versions. */
  get size(): number {
    let size = 0;
    for (const rows of this.#byVersion.values()) size += rows.size;
    return size;
  }

  /** How often a version has joined the records without one, since `startPeriod`. */
  get folded(): number {
    return this.#folded;
  }

  startPeriod(): void {
    this.#folded = 0;
  }

  /** The versions there are records of, ascending. */
  policyVersions(): number[] {
    return [...this.#byVersion.keys()].filter((tag) => tag !== undefined).sort((a, b) => a - b);
  }

  /** Where the records of a version go. Only valid until the next call with another one. */
  at(policyVersion: number | undefined): KeyedRows {
    const existing = this.#byVersion.get(policyVersion);
    if (existing !== undefined) return existing;
    const opened = new KeyedRows();
    this.#byVersion.set(policyVersion, opened);
    if (policyVersion === undefined) return opened;
    const versions = this.policyVersions();
    if (versions.length <= this.#maxPolicyVersions) return opened;
    this.#folded++;
    const oldest = versions[0]!;
    const folded = this.#byVersion.get(oldest)!;
    this.#byVersion.delete(oldest);
    this.at(undefined).addAll(folded);
    return oldest === policyVersion ? this.at(undefined) : opened;
  }

  /** The rows of one version, or of all: those without one first, then ascending. */
  entries(policyVersion?: number): [policyVersion: number | undefined, rows: KeyedRows][] {
    const versions = policyVersion === undefined ? [undefined, ...this.policyVersions()] : [policyVersion];
    return versions.flatMap((version) => {
      const rows = this.#byVersion.get(version);
      return rows === undefined ? [] : [[version, rows] as [number | undefined, KeyedRows]];
    });
  }

  /** Forgets one version, or everything. */
  clear(policyVersion?: number): void {
    if (policyVersion === undefined) this.#byVersion = new Map();
    else this.#byVersion.delete(policyVersion);
  }
}
