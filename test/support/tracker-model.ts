/**
 * What a tracker should export, by the simplest code: a list of records per window. Not a test.
 *
 * The model does not foresee refusals. A call that is refused changes nothing, here as there; what is accepted must come
 * out of the exports, in record order, whatever fails in between.
 */
import type { NonFiniteRule } from '../../src/tracker/index.js';

/** Numbers that a key was given in one call, and what the key is. */
export interface ModelRecord {
  readonly key: string;
  readonly reduction: string;
  readonly numbers: readonly number[];
  readonly weight?: number;
  /** Place among all records. */
  readonly order: number;
}

export class TrackerModel {
  readonly #rule: NonFiniteRule | undefined;
  readonly #windows: ReadonlyMap<string, ModelRecord[]>;
  #next = 0;

  constructor(windows: readonly string[], rule: NonFiniteRule | undefined) {
    this.#rule = rule;
    this.#windows = new Map(windows.map((window) => [window, []]));
  }

  record(key: string, reduction: string, numbers: readonly number[], weight?: number): void {
    const order = this.#next++;
    const one = { key, reduction, numbers, order, ...(weight === undefined ? {} : { weight }) };
    for (const records of this.#windows.values()) records.push(one);
  }

  /** What an export takes, out of its window. */
  take(window: string, key?: string): ModelRecord[] {
    const records = this.#windows.get(window)!;
    const taken = this.look(window, key);
    records.splice(0, Infinity, ...records.filter((record) => !taken.includes(record)));
    return taken;
  }

  look(window: string, key?: string): ModelRecord[] {
    return this.#windows.get(window)!.filter((record) => key === undefined || record.key === key);
  }

  restore(window: string, taken: readonly ModelRecord[]): void {
    this.#windows.get(window)!.push(...taken);
    this.#windows.get(window)!.sort((a, b) => a.order - b.order);
  }

  clear(): void {
    for (const records of this.#windows.values()) records.length = 0;
  }

  /** What an export of `records` gives. */
  numbers(records: readonly ModelRecord[]): Record<string, number> {
    const all = new Map<string, ModelRecord[]>();
    for (const record of records) all.set(record.key, [...(all.get(record.key) ?? []), record]);
    return Object.fromEntries([...all].flatMap(([key, own]) => this.#numbersOf(key, own)));
  }

  #numbersOf(key: string, records: readonly ModelRecord[]): [string, number][] {
    const { reduction } = records[0]!;
    if (reduction === 'denominator') return [[key, add(records.flatMap(({ numbers }) => numbers))]];
    const isIgnored = (x: number): boolean => this.#rule === 'ignore' && !Number.isFinite(x);
    const weighted = records
      .filter(({ weight }) => weight !== 0)
      .flatMap(({ numbers, weight = 1 }) => numbers.map((x) => ({ x, weight })));
    const kept = weighted.filter(({ x }) => !isIgnored(x));
    const x = kept.map((one) => one.x);
    const broken = weighted.filter((one) => !Number.isFinite(one.x)).length;
    const told: [string, number][] =
      this.#rule !== undefined && broken > 0 ? [[`${key}/nonfinite`, broken]] : [];
    if (x.length === 0) return reduction === 'sum' || reduction === 'counter' ? [[key, 0], ...told] : told;
    const weight = add(kept.map((one) => one.weight));
    const mean = add(kept.map((one) => one.x * one.weight)) / weight;
    switch (reduction) {
      case 'scalar':
        return [[key, mean], [`${key}__count`, weight], ...told];
      case 'avg':
        return [[key, mean], ...told];
      case 'sum':
      case 'counter':
        return [[key, add(x)], ...told];
      case 'min':
        return [[key, Math.min(...x)], ...told];
      case 'max':
        return [[key, Math.max(...x)], ...told];
      case 'last':
        return [[key, x.at(-1)!], ...told];
      default:
        return [
          [`${key}/avg`, mean],
          [`${key}/min`, Math.min(...x)],
          [`${key}/max`, Math.max(...x)],
          ...told,
        ];
    }
  }
}

function add(numbers: readonly number[]): number {
  return numbers.reduce((sum, x) => sum + x, 0);
}
