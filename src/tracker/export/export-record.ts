/** The order of what is exported: by name, however it came together. */

/** For `sort`. */
export function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

/** Exported numbers as the flat record that callers get. */
export function exportRecord(numbers: Iterable<readonly [string, number]>): Record<string, number> {
  return Object.fromEntries([...numbers].sort(byName));
}
