/** Which known name a misspelt one means: of an option, of a column. */

/** A misspelling changes at most one letter in so many, and at least one. */
const LETTERS_PER_CHANGE = 6;

/** The known name that a misspelt one means; undefined if none is close to it. Case and underscores do not matter. */
export function meantName(misspelt: string, known: readonly string[]): string | undefined {
  const letters = lettersOf(misspelt);
  // No known name is longer than this, and the distance of long names costs the product of their lengths.
  if (letters.length > 100) return undefined;
  const [nearest] = known
    .map((name) => ({ name, distance: distanceOf(letters, lettersOf(name)) }))
    .sort((a, b) => a.distance - b.distance);
  if (nearest === undefined) return undefined;
  const shorter = Math.min(letters.length, lettersOf(nearest.name).length);
  const most = Math.max(1, Math.floor(shorter / LETTERS_PER_CHANGE));
  return nearest.distance <= most && shorter > 2 ? nearest.name : undefined;
}

/** Of flags the word alone, and trainers' two words for one bound as one. */
function lettersOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')
    .replace(/^is(?=[a-z]{4})/, '')
    .replace('cliprange', 'clipratio');
}

/** Letters to insert, remove, replace or swap with their neighbour until `a` is `b` (optimal string alignment). */
function distanceOf(a: string, b: string): number {
  let [before, last]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      row[j] = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + Number(!isSame));
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) row[j] = Math.min(row[j]!, before[j - 2]! + 1);
    }
    [before, last] = [last, row];
  }
  return last[b.length]!;
}
