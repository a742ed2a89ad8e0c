/**
 * A journal of commits: one JSON line each, `{"step":n,"ts":ms,"data":{…}}`, appended with one write.
 *
 * Numbers that JSON does not have are the texts "NaN", "Infinity" and "-Infinity". Nothing is dropped, also not the
 * `__count` keys, so a run can be read back in full or replayed to another destination.
 */
import type { CommitPoint } from './logger.js';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
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
  readonly #file: FileHandle;
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
   * @throws LogWriteError naming the file and what to do
   */
  static async open(path: string, { now = Date.now }: JsonlOptions = {}): Promise<JsonlWriter> {
    try {
      await mkdir(dirname(path), { recursive: true });
      const file = await open(path, 'a+');
      return new JsonlWriter(path, file, await endsInLine(file), now);
    } catch (error) {
      throw logWriteError(WHERE, path, error);
    }
  }

  /** @throws LogWriteError, e.g. for a full disk; the lines before stay readable */
  async write(step: number, data: Readonly<Record<string, number>>, point?: CommitPoint): Promise<void> {
    const position = point && { epoch: point.epoch, epochStep: point.step };
    const line = `${JSON.stringify({ step, ts: this.#now(), ...position, data }, jsonNumber)}\n`;
    // A line that was cut short stays as one unreadable line and takes no other with it.
    const bytes = Buffer.from(this.#isTorn ? `\n${line}` : line);
    try {
      let written = 0;
      while (written < bytes.length) {
        written += (await this.#file.write(bytes, written)).bytesWritten;
        this.#isTorn = written < bytes.length;
      }
    } catch (error) {
      throw logWriteError(WHERE, this.path, error);
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

/** JSON.stringify would turn these into null. */
function jsonNumber(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}

async function endsInLine(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat();
  if (size === 0) return false;
  const last = Buffer.alloc(1);
  await file.read(last, 0, 1, size - 1);
  return last[0] !== '\n'.charCodeAt(0);
}
