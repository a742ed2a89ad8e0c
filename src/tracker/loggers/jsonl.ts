/**
 * A journal of commits: one JSON line each, `{"step":n,"ts":ms,"data":{…}}`, appended with one write.
 *
 * Numbers that JSON does not have are the texts "NaN", "Infinity" and "-Infinity". Nothing is dropped, also not the
 * `__count` keys, so a run can be read back in full or replayed to another destination.
 *
 * A file that is moved away or deleted while it is open (a rotation, somebody's clean-up) is made anew at its path, so
 * that no line goes where nobody can read it.
 */
import type { CommitPoint } from './logger.js';
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ValueError } from '../../errors.js';
import { assertOptions, kindOf } from '../../kernels/arguments.js';
import { assertCommit } from './commit.js';
import { logWriteError } from './errors.js';
import type { StatsWriter } from './logger.js';

export interface JsonlOptions {
  /** Milliseconds since the epoch; default `Date.now`. */
  readonly now?: () => number;
}

const WHERE = 'jsonl logger';

export class JsonlWriter implements StatsWriter {
  readonly name = 'jsonl';
  readonly path: string;
  #file: FileHandle;
  readonly #now: () => number;
  /** Whether the file ends in the middle of a line: a write was cut short, by a full disk or a crash. */
  #isTorn: boolean;

  private constructor(path: string, file: FileHandle, isTorn: boolean, now: () => number) {
    this.path = path;
    this.#file = file;
    this.#isTorn = isTorn;
    this.#now = now;
  }

  /**
   * Opens `path` for appending, with its folder if there is none.
   *
   * @throws LogWriteError naming the file and what to do; ValueError for a path that is no text, or for options that
   *   are none
   */
  static async open(path: string, options: JsonlOptions = {}): Promise<JsonlWriter> {
    assertPath(path);
    assertOptions('JsonlWriter.open', options, { now: 'function' });
    const { now = Date.now } = options;
    try {
      const file = await openForAppending(path);
      return new JsonlWriter(path, file, await isTorn(file), now);
    } catch (error) {
      throw logWriteError(WHERE, path, error);
    }
  }

  /**
   * @throws LogWriteError, e.g. for a full disk; the lines before stay readable. MissingInputError or ValueError for a
   *   step, data or point that is none
   */
  async write(step: number, data: Readonly<Record<string, number>>, point?: CommitPoint): Promise<void> {
    assertCommit('JsonlWriter.write', step, data, point);
    const position = point && { epoch: point.epoch, epochStep: point.step };
    const line = `${JSON.stringify({ step, ts: this.#now(), ...position, data }, jsonNumber)}\n`;
    try {
      if (!(await this.#isInPlace())) await this.#reopen();
      await this.#append(line);
      if ((await this.#isInPlace()) || (await this.#file.stat()).nlink > 0) return;
      // Deleted while the line was on its way. A file that was only moved has the line.
      await this.#reopen();
      await this.#append(line);
    } catch (error) {
      throw logWriteError(WHERE, this.path, error);
    }
  }

  /** Whether the open file is still the one that its path leads to. */
  async #isInPlace(): Promise<boolean> {
    const open = await this.#file.stat({ bigint: true });
    try {
      const found = await stat(this.path, { bigint: true });
      return found.ino === open.ino && found.dev === open.dev;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }

  /** Opens what the path leads to now, or makes it; if that fails, the next write tries again. */
  async #reopen(): Promise<void> {
    const file = await openForAppending(this.path);
    const before = this.#file;
    this.#file = file;
    this.#isTorn = await isTorn(file);
    await before.close();
  }

  async #append(line: string): Promise<void> {
    // A line that was cut short stays as one unreadable line and takes no other with it.
    const bytes = Buffer.from(this.#isTorn ? `\n${line}` : line);
    let written = 0;
    while (written < bytes.length) {
      written += (await this.#file.write(bytes, written)).bytesWritten;
      this.#isTorn = written < bytes.length;
    }
  }

  /** @throws LogWriteError if the system could not write everything out */
  async close(): Promise<void> {
    try {
      await this.#file.close();
    } catch (error) {
      throw logWriteError(WHERE, this.path, error);
    }
  }
}

function assertPath(path: string): void {
  if (typeof path === 'string' && path !== '') return;
  throw new ValueError({
    where: 'JsonlWriter.open',
    input: 'path',
    expected: 'the path of a file',
    received: kindOf(path),
    remedy: "name one, e.g. 'logs/metrics.jsonl'",
  });
}

/** JSON.stringify would turn these into null. */
function jsonNumber(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

async function openForAppending(path: string): Promise<FileHandle> {
  await mkdir(dirname(path), { recursive: true });
  return open(path, 'a+');
}

/** Whether the file ends in the middle of a line. */
async function isTorn(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat();
  if (size === 0) return false;
  const last = Buffer.alloc(1);
  await file.read(last, 0, 1, size - 1);
  return last[0] !== '\n'.charCodeAt(0);
}
