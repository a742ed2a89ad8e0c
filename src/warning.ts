/** How the package warns: as a `TensortallyWarning` of the process, with a code to filter by, and of one thing once. */
import { printable } from './printable.js';

/** Warns with `text`, in which names of the user may stand. */
export function warn(code: string, text: string): void {
  process.emitWarning(printable(text), { type: 'TensortallyWarning', code });
}

/** What was warned of already. Bounded, since names of the user are in it: who was told so many has been told. */
export class Told {
  readonly #known = new Set<string>();
  readonly #most: number;

  constructor(most = 100) {
    this.#most = most;
  }

  /** Those of `names` that are told now: what was not yet told, and nothing once `most` were. */
  fresh(names: readonly string[]): string[] {
    const left = this.#most - this.#known.size;
    if (left <= 0) return [];
    const fresh = names.filter((name) => !this.#known.has(name)).slice(0, left);
    for (const name of fresh) this.#known.add(name);
    return fresh;
  }
}
