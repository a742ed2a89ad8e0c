/**
 * One writer per journal: a file `<journal>.lock` beside it that says which process writes.
 *
 * The file appears with its content, by `link`, which fails if there is one: that is atomic, on NFS too. The lock of a
 * dead process, or of a thread that was terminated, is taken over. Two processes that find it at once settle it by a second lock, whose name is made from
 * the dead holder's; under it the file is read again before it is replaced, so none takes what another has just taken.
 */
import { createHash, randomUUID } from 'node:crypto';
import {
  closeSync,
  constants,
  copyFileSync,
  linkSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { threadId } from 'node:worker_threads';
import { JournalHeldError } from '../errors.js';
import { type ProcessIdentity, fateOf, isSame, ownIdentity } from './process-identity.js';

interface Holder extends ProcessIdentity {
  /** Thread of the process; 0 is the main one. */
  readonly thread?: number | undefined;
}

/** A lock is far shorter; more is not read. */
const MOST_BYTES = 4096;

/** Locks of this thread, given back when it ends: only a killed process leaves one behind. */
const held = new Set<JournalLock>();

export class JournalLock {
  readonly #path: string;
  /** What is in the file. It has a random part: no other lock is like it. */
  readonly #content: string;

  private constructor(path: string, content: string) {
    this.#path = path;
    this.#content = content;
  }

  /**
   * Takes the lock of a journal.
   *
   * @param path of the lock file
   * @param journal for messages
   * @throws JournalHeldError if a process holds it that runs, or may run; an error of the file system as it is
   */
  static take(path: string, journal: string): JournalLock {
    const id = randomUUID();
    const content = JSON.stringify({ ...ownIdentity(), thread: threadId, since: Date.now(), id });
    const draft = `${path}.${id.slice(0, 8)}`;
    try {
      writeFileSync(draft, content, { flag: 'wx' });
      while (!publish(draft, path)) {
        const found = contentOf(path);
        if (found === undefined) continue; // given back meanwhile
        const holder = parsed(found);
        if (holder === undefined || fateOf(holder) !== 'dead') throw refusal(journal, path, holder);
        if (replace(path, found, draft, journal)) break;
      }
    } finally {
      rmSync(draft, { force: true });
    }
    const lock = new JournalLock(path, content);
    if (held.size === 0) process.once('exit', giveAllBack);
    held.add(lock);
    return lock;
  }

  /** This lock, or a new one if its file is gone, e.g. with the folder. @throws as `take`, if somebody else has it now */
  renewed(journal: string): JournalLock {
    if (contentOf(this.#path) === this.#content) return this;
    this.#forget();
    return JournalLock.take(this.#path, journal);
  }

  /** Gives it back. A lock that somebody else has taken since stays. */
  release(): void {
    this.#forget();
    if (contentOf(this.#path) === this.#content) rmSync(this.#path, { force: true });
  }

  #forget(): void {
    held.delete(this);
    if (held.size === 0) process.off('exit', giveAllBack);
  }
}

function giveAllBack(): void {
  for (const lock of held) lock.release();
}

/** Puts `draft` at `path`, if nothing is there. */
function publish(draft: string, path: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    // No hard links here, as on FAT.
    if (!['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK'].includes(code)) throw error;
  }
  try {
    copyFileSync(draft, path, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Replaces the lock of a dead holder; false if it is no longer there. */
function replace(path: string, dead: string, draft: string, journal: string): boolean {
  const name = createHash('sha256').update(dead).digest('hex').slice(0, 8);
  const claim = JournalLock.take(`${path}.${name}`, journal);
  try {
    if (contentOf(path) !== dead) return false;
    renameSync(draft, path);
    return true;
  } finally {
    claim.release();
  }
}

/** What is in the file, undefined if there is none. Follows no link and waits for no pipe. */
function contentOf(path: string): string | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    return ''; // something that is no lock: its holder is unknown
  }
  try {
    const bytes = Buffer.alloc(MOST_BYTES);
    return bytes.toString('utf8', 0, readSync(file, bytes, 0, MOST_BYTES, 0));
  } catch {
    return '';
  } finally {
    closeSync(file);
  }
}

function parsed(content: string): Holder | undefined {
  let holder: Partial<Holder> | null;
  try {
    holder = JSON.parse(content) as Partial<Holder> | null;
  } catch {
    return undefined;
  }
  const { pid = 0, host, boot, namespace, started } = holder ?? {};
  if (!Number.isSafeInteger(pid) || pid < 1 || typeof host !== 'string') return undefined;
  const areTexts = [boot, namespace, started].every((part) => part === undefined || typeof part === 'string');
  return areTexts && isTask(holder?.task) ? (holder as Holder) : undefined;
}

function isTask(task: unknown): boolean {
  if (task === undefined) return true;
  const { id, started } = (task ?? {}) as Readonly<Record<string, unknown>>;
  return Number.isSafeInteger(id) && typeof started === 'string';
}

function refusal(journal: string, path: string, holder: Holder | undefined): JournalHeldError {
  const own = ownIdentity();
  const isOwn = holder !== undefined && isSame(holder, own);
  const isThisThread = isOwn && holder.thread === threadId;
  const who =
    holder === undefined
      ? 'one whose lock says nothing'
      : isOwn
        ? `one that this process writes${isThisThread ? '' : `, in thread ${String(holder.thread)}`}`
        : `one that process ${String(holder.pid)} on ${holder.host} writes`;
  return new JournalHeldError(
    journal,
    {
      where: 'jsonl logger',
      input: journal,
      expected: 'a journal that nobody else writes',
      received: who,
      remedy: isOwn
        ? isThisThread
          ? 'close() the other logger first, or choose another path'
          : `close() the other logger first, choose another path, or, if that thread has ended, delete ${path}`
        : `choose another path or trialName, or, if that process has ended, delete ${path}`,
    },
    holder && { pid: holder.pid, host: holder.host },
  );
}
