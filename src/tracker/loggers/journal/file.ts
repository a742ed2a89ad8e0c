/**
 * The file of a journal, open for appending by this writer alone.
 *
 * Every append checks that the file is still the one at its path, starts a line of its own, and is whole or not there:
 * what a full disk leaves of a line is taken back.
 */
import { close, closeSync, constants, fstatSync, ftruncateSync, open, openSync } from 'node:fs';
import { realpathSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { makeFolder } from '../../../make-folder.js';
import { assertNotPlanted, flagsAgainstPlanting } from '../planted-path.js';
import { JournalLock } from './lock.js';
import { isTorn, lastStep } from './tail.js';

const APPEND = constants.O_APPEND | constants.O_CREAT | constants.O_RDWR;
const MODE = 0o666;

interface OpenFile {
  readonly fd: number;
  readonly ino: bigint;
  readonly dev: bigint;
  /** Pipes and devices have no end to look at, nothing to take back, and no lock. */
  readonly isRegular: boolean;
}

export class JournalFile {
  readonly #where: string;
  readonly #path: string;
  #lock: JournalLock | undefined;
  #file!: OpenFile;
  /** Size after our last line; where it is another one now, somebody else has written. */
  #end = -1n;
  #lastBefore: number | undefined;
  #isEmpty = true;

  private constructor(where: string, path: string) {
    this.#where = where;
    this.#path = path;
  }

  /**
   * Opens the file, and makes it and its folder if need be.
   *
   * @param path absolute
   * @throws JournalHeldError, LogWriteError for a planted path, and errors of the file system as they are
   */
  static async open(where: string, path: string): Promise<JournalFile> {
    const journal = new JournalFile(where, path);
    journal.#prepare();
    try {
      // Not synchronously: the other end of a pipe may be in this process.
      journal.#use(await promisify(open)(path, APPEND | flagsAgainstPlanting(path), MODE));
      return journal;
    } catch (error) {
      journal.#lock?.release();
      throw error;
    }
  }

  /** Whether nothing was there when it was opened. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Step of the last commit that was there before our first line; undefined once that is written. */
  get lastBefore(): number | undefined {
    return this.#lastBefore;
  }

  /** Whether what was written before is there to be looked at; a pipe keeps nothing. */
  get isRegular(): boolean {
    return this.#file.isRegular;
  }

  /**
   * Appends lines, which are in the file when this returns.
   *
   * @param compose makes them, given `lastBefore`; again if the file was deleted meanwhile
   * @throws as `open`; nothing is appended then
   */
  append(compose: (lastBefore: number | undefined) => string): void {
    for (let attempt = 1; ; attempt++) {
      const size = this.#inPlace();
      const { fd, isRegular } = this.#file;
      const isCut = isRegular && size !== this.#end && isTorn(fd, Number(size));
      // A line break may be all that the last line lacks: then ours makes it count.
      if (isCut) this.#lastBefore = lastStep(fd, Number(size));
      const lines = compose(this.#lastBefore);
      this.#end = size + BigInt(this.#write(isCut ? `\n${lines}` : lines, size));
      // Deleted while the line was on its way? A file that was only moved has the line.
      if (!isRegular || attempt > 1 || fstatSync(fd).nlink > 0) break;
    }
    this.#lastBefore = undefined;
  }

  /** @throws the error of the file system, if it could not write everything out */
  async close(): Promise<void> {
    try {
      await promisify(close)(this.#file.fd);
    } finally {
      this.#lock?.release();
    }
  }

  /** The size of the file at the path; it is opened anew if it is no longer ours. */
  #inPlace(): bigint {
    const { ino, dev, isRegular } = this.#file;
    if (!isRegular) return 0n;
    const found = statSync(this.#path, { bigint: true, throwIfNoEntry: false });
    if (found?.ino === ino && found.dev === dev && found.nlink > 0n) return found.size;
    const before = this.#file.fd;
    this.#prepare();
    this.#use(openSync(this.#path, APPEND | flagsAgainstPlanting(this.#path), MODE));
    closeSync(before);
    return fstatSync(this.#file.fd, { bigint: true }).size;
  }

  /** Checks the way to the file, makes its folder, and takes the lock. */
  #prepare(): void {
    assertNotPlanted(this.#where, this.#path);
    makeFolder(dirname(this.#path));
    const found = statSync(this.#path, { throwIfNoEntry: false });
    if (found !== undefined && !found.isFile()) return;
    // Of a link to a journal, the lock is beside the journal: all ways to one file have one lock.
    const real = found === undefined ? this.#path : realpathSync(this.#path);
    this.#lock = this.#lock?.renewed(this.#path) ?? JournalLock.take(`${real}.lock`, this.#path);
  }

  #use(fd: number): void {
    const stats = fstatSync(fd, { bigint: true });
    this.#file = { fd, ino: stats.ino, dev: stats.dev, isRegular: stats.isFile() };
    this.#end = -1n;
    this.#isEmpty = stats.size === 0n;
    this.#lastBefore = stats.isFile() ? lastStep(fd, Number(stats.size)) : undefined;
  }

  /** @returns how many bytes were written: all of `text` */
  #write(text: string, size: bigint): number {
    const length = Buffer.byteLength(text);
    let written = 0;
    try {
      // As text, at first: nearly always that is all, and a copy in a buffer would cost as much as the write of it.
      written += writeSync(this.#file.fd, text);
      if (written < length) {
        const bytes = Buffer.from(text);
        while (written < length) written += writeSync(this.#file.fd, bytes, written);
      }
      return length;
    } catch (error) {
      this.#end = -1n; // the next append looks at the end
      if (this.#file.isRegular && written > 0) this.#takeBack(size, written);
      throw error;
    }
  }

  /** Takes a part of a line back, so that it swallows no line of whoever writes next. */
  #takeBack(size: bigint, written: number): void {
    try {
      const isLast = fstatSync(this.#file.fd).size === Number(size) + written;
      if (isLast) ftruncateSync(this.#file.fd, Number(size));
    } catch {
      // The part stays as one unreadable line.
    }
  }
}
