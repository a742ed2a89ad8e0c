/**
 * A journal of commits: one JSON line each, appended with one write that is done when `write` returns.
 *
 * So lines are in the order of the calls, a loop that never lets the event loop run leaves nothing unwritten, and a
 * killed process loses nothing that it has committed. Such an append costs less than a turn of the thread pool.
 *
 * Numbers that JSON does not have are the strings "NaN", "Infinity" and "-Infinity". Nothing is dropped, also not the
 * `__count` keys, so a run can be read back in full (`readJournal`) or replayed to another destination. The lines are
 * described in `journal/lines.ts`.
 *
 * A file that is moved away or deleted while it is open (a rotation, somebody's clean-up) is made anew at its path, so
 * that no line goes where nobody can read it.
 */
import { resolve } from 'node:path';
import { assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { warn } from '../../warning.js';
import { assertCommit, assertWhole } from './commit.js';
import { assertPath, logWriteError } from './errors.js';
import { JournalFile } from './journal/file.js';
import { commitLine, resumeLine } from './journal/lines.js';
import type { CommitPoint, StatsWriter } from './logger.js';

export interface JsonlOptions {
  /** Milliseconds since the epoch; default `Date.now`. */
  readonly now?: () => number;
  /**
   * What becomes of a file that is not empty. `continue`, the default, appends; a first commit whose step is there
   * already is preceded by a mark that what was there from that step on no longer counts. `refuse` throws.
   */
  readonly existing?: 'continue' | 'refuse';
}

const WHERE = 'jsonl logger';

export class JsonlWriter implements StatsWriter {
  readonly name = 'jsonl';
  readonly keepsOrder = true;
  /** Absolute: where the process goes later changes nothing. */
  readonly path: string;
  readonly #now: () => number;
  #file: JournalFile | undefined;
  /** The step that a mark before the next commit goes back to. */
  #resumesFrom: number | undefined;
  /** The step of the last commit in the file, whoever wrote it. */
  #lastStep: number | undefined;

  private constructor(path: string, file: JournalFile, now: () => number) {
    this.path = path;
    this.#file = file;
    this.#lastStep = file.lastBefore;
    this.#now = now;
  }

  /**
   * Opens `path` for appending, with its folder if there is none. `<path>.lock` says which process writes until `close`
   * or the end of the process; the lock of a dead process is taken over. Symbolic links to one journal have one lock; a
   * second hard link to it has a lock of its own, so that two writers are not kept apart there.
   *
   * @param path resolved at once
   * @throws LogWriteError naming the file and what to do, also for a symbolic link in a folder where others can write;
   *   JournalHeldError if another writer has the file; ValueError for a path that is not a string, for invalid options,
   *   and with `existing: 'refuse'` for a file that is not empty
   */
  static async open(path: string, options: JsonlOptions = {}): Promise<JsonlWriter> {
    assertPath('JsonlWriter.open', path);
    assertOptions('JsonlWriter.open', options, { now: 'function', existing: 'any' });
    const { now = Date.now, existing = 'continue' } = options;
    assertExisting(existing);
    const absolute = resolve(path);
    let file: JournalFile;
    try {
      file = await JournalFile.open(WHERE, absolute);
    } catch (error) {
      throw logWriteError(WHERE, absolute, error);
    }
    if (existing === 'refuse' && !file.isEmpty) {
      const { lastBefore } = file;
      await file.close();
      throw used(absolute, lastBefore);
    }
    return new JsonlWriter(absolute, file, now);
  }

  /**
   * Appends one line. It is in the file when the call returns; the promise only says whether that went well.
   *
   * @throws LogWriteError, e.g. for a full disk; the lines before stay readable, and nothing of this one stays.
   *   MissingInputError or ValueError for an invalid step, data or point
   */
  async write(step: number, data: Readonly<Record<string, number>>, point?: CommitPoint): Promise<void> {
    const arePlain = assertCommit('JsonlWriter.write', step, data, point);
    if (this.#file === undefined) throw closed(this.path);
    const ts = this.#now();
    const line = commitLine(step, ts, point, data, arePlain);
    try {
      this.#file.append((lastBefore) => {
        const isRepeated = lastBefore !== undefined && step <= lastBefore;
        const from = this.#resumesFrom ?? (isRepeated ? step : undefined);
        return from === undefined ? line : resumeLine(from, ts) + line;
      });
    } catch (error) {
      throw logWriteError(WHERE, this.path, error);
    }
    this.#resumesFrom = undefined;
    this.#lastStep = step;
    return Promise.resolve();
  }

  /**
   * The run goes on at step `from`: the next commit is preceded by a mark that commits that are there from that step on
   * no longer count. A journal that ends before the step ahead of it lacks commits, of which the process is warned.
   *
   * @throws ValueError for anything but a whole number from 0
   */
  resume(from: number): void {
    assertWhole('JsonlWriter.resume', 'from', from);
    this.#resumesFrom = Math.min(from, this.#resumesFrom ?? from);
    const last = this.#lastStep ?? -1;
    if (this.#file?.isRegular === true && last < from - 1) this.#warn(last, from - 1);
  }

  #warn(last: number, saved: number): void {
    const end = last < 0 ? 'has no commits' : `ends at step ${String(last)}`;
    warn(
      'TENSORTALLY_JOURNAL',
      `JsonlWriter.resume: ${this.path} ${end}, and the run goes on after step ${String(saved)}; the commits between are missing from it`,
    );
  }

  /** @throws LogWriteError if the system could not write everything out */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    try {
      await file?.close();
    } catch (error) {
      throw logWriteError(WHERE, this.path, error);
    }
  }
}

function assertExisting(existing: unknown): void {
  if (existing === 'continue' || existing === 'refuse') return;
  throw new ValueError({
    where: 'JsonlWriter.open',
    input: 'options.existing',
    expected: "'continue' or 'refuse'",
    received: kindOf(existing),
    remedy: "leave it out for 'continue'",
  });
}

function used(path: string, lastStep: number | undefined): ValueError {
  return new ValueError({
    where: 'JsonlWriter.open',
    input: 'path',
    expected: 'a journal without commits',
    received: `${path}, which ${lastStep === undefined ? 'is not empty' : `ends at step ${String(lastStep)}`}`,
    remedy: 'choose another path or trialName, move the file away, or go on in it with existing: continue',
  });
}

function closed(path: string): Error {
  return logWriteError(WHERE, path, new Error('a writer that is closed'));
}
