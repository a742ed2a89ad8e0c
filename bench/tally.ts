/** Merges partial statistics by key and exports them under AReaL's names. */
import type { Numbers } from './agreement.js';

/** Of the selected elements of one tensor. */
export interface Part {
  readonly count: number;
  readonly sum: number;
  readonly min: number;
  readonly max: number;
}

/** Counts, averages and extremes over all parts of a key, in float64. */
export class Tally {
  readonly #denominators = new Map<string, number>();
  readonly #stats = new Map<string, Part>();
  readonly #scalars = new Map<string, number[]>();

  denominator(key: string, count: number): void {
    this.#denominators.set(key, (this.#denominators.get(key) ?? 0) + count);
  }

  stat(key: string, { count, sum, min, max }: Part): void {
    const a = this.#stats.get(key) ?? { count: 0, sum: 0, min: Infinity, max: -Infinity };
    this.#stats.set(key, {
      count: a.count + count,
      sum: a.sum + sum,
      min: Math.min(a.min, min),
      max: Math.max(a.max, max),
    });
  }

  scalar(key: string, value: number): void {
    const values = this.#scalars.get(key) ?? [];
    values.push(value);
    this.#scalars.set(key, values);
  }

  /** Stats that nothing was selected for are absent. */
  export(): Numbers {
    const numbers: Record<string, number> = Object.fromEntries(this.#denominators);
    for (const [key, { count, sum, min, max }] of this.#stats) {
      if (count === 0) continue;
      Object.assign(numbers, { [`${key}/avg`]: sum / count, [`${key}/min`]: min, [`${key}/max`]: max });
    }
    for (const [key, values] of this.#scalars) {
      numbers[key] = values.reduce((total, value) => total + value, 0) / values.length;
      numbers[`${key}__count`] = values.length;
    }
    return numbers;
  }
}
