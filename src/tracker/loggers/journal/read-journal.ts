/** A journal read back: the commits that count, and those that a resumed run has made void. */
import { createReadStream } from 'node:fs';
import { assertPath, logReadError } from '../errors.js';
import { type JournalCommit, parseLine } from './lines.js';

/** What a journal says. */
export interface Journal {
  /** The commits that count, in the order of the file. */
  readonly commits: readonly JournalCommit[];
  /** Commits that a later resumption, or a later run in the same file, has superseded; in the order of the file. */
  readonly superseded: readonly JournalCommit[];
  /** Lines that are neither a commit nor of a kind: cut short by a full disk or a crash, or not ours. */
  readonly unreadable: number;
}

/**
 * Reads the journal of a `JsonlWriter`, while it is written too, and applies its marks.
 *
 * Lines of an unknown `kind` are skipped, and an unreadable line costs nothing but itself.
 *
 * @param path of the file
 * @throws LogReadError naming the file; ValueError for a path that is not a string
 */
export async function readJournal(path: string): Promise<Journal> {
  assertPath('readJournal', path);
  const lines: (JournalCommit | number)[] = []; // a number: the step that a mark goes back to
  let unreadable = 0;
  try {
    for await (const line of linesOf(path)) {
      if (line === '') continue;
      const found = parseLine(line);
      if (found === undefined) unreadable++;
      else if (found !== 'other') lines.push('kind' in found ? found.from : found);
    }
  } catch (error) {
    throw logReadError('readJournal', path, error);
  }
  return { ...sorted(lines), unreadable };
}

/** From the end: a commit counts if no mark behind it goes back to its step or further. */
function sorted(lines: readonly (JournalCommit | number)[]): Pick<Journal, 'commits' | 'superseded'> {
  const commits: JournalCommit[] = [];
  const superseded: JournalCommit[] = [];
  let limit = Infinity;
  for (let at = lines.length - 1; at >= 0; at--) {
    const line = lines[at]!;
    if (typeof line === 'number') limit = Math.min(limit, line);
    else (line.step < limit ? commits : superseded).push(line);
  }
  return { commits: commits.reverse(), superseded: superseded.reverse() };
}

/** A long line is put together once: node:readline would also break lines at other characters than a newline. */
async function* linesOf(path: string): AsyncGenerator<string> {
  let begun: string[] = [];
  for await (const chunk of createReadStream(path, 'utf8') as AsyncIterable<string>) {
    const [first = '', ...rest] = chunk.split('\n');
    begun.push(first);
    const next = rest.pop();
    if (next === undefined) continue;
    yield begun.join('');
    yield* rest;
    begun = [next];
  }
  yield begun.join('');
}
