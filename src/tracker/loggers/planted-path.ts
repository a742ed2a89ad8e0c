/**
 * Paths that somebody else may have prepared: in `/tmp` or a shared folder, a symbolic link at the name that we are
 * about to write sends our lines to a file of somebody else's choice, with our rights.
 *
 * A folder is ours if it belongs to this user or to root and nobody else can write into it. Anywhere else, what is at
 * the path has to be a plain file or folder of this user or of the folder's owner. A link further up is followed if
 * this user, root or the owner of its folder made it, as Linux does it with `fs.protected_symlinks`.
 */
import { type Stats, constants, lstatSync } from 'node:fs';
import { dirname } from 'node:path';
import { LogWriteError, logWriteError } from './errors.js';

const ROOT = 0;
const WRITABLE_BY_OTHERS = 0o022;

/**
 * Refuses a path that leads to where others want it. What does not exist yet is nobody's.
 *
 * @param path absolute
 * @throws LogWriteError naming the link or the file, with the remedy; and for what cannot be at that path
 */
export function assertNotPlanted(where: string, path: string): void {
  const user = process.getuid?.();
  if (user === undefined) return; // no owners on this system
  for (const step of stepsTo(path)) {
    const found = whatIsAt(where, step);
    if (found === undefined) return;
    const folder = lstatSync(dirname(step));
    if (isOurs(folder, user)) continue;
    const owners = [user, folder.uid, ...(step === path ? [] : [ROOT])];
    const isLink = found.isSymbolicLink();
    if (step === path ? isLink || !owners.includes(found.uid) : isLink && !owners.includes(found.uid))
      throw planted(where, step, isLink ? 'a symbolic link' : `what user ${String(found.uid)} made`);
  }
}

/** What is there; undefined for nothing. */
function whatIsAt(where: string, path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw logWriteError(where, path, error); // below a file, with a name too long, where we may not look
  }
}

/** Flags that keep `open` from following a link at the last step of `path`, where its folder is not ours. */
export function flagsAgainstPlanting(path: string): number {
  const user = process.getuid?.();
  if (user === undefined) return 0;
  const folder = lstatSync(dirname(path), { throwIfNoEntry: false });
  return folder === undefined || isOurs(folder, user) ? 0 : constants.O_NOFOLLOW;
}

function isOurs({ uid, mode }: Stats, user: number): boolean {
  return (uid === user || uid === ROOT) && (mode & WRITABLE_BY_OTHERS) === 0;
}

/** All paths on the way from the root: `/a`, `/a/b`, `/a/b/c`. */
function stepsTo(path: string): string[] {
  const steps: string[] = [];
  for (let step = path; dirname(step) !== step; step = dirname(step)) steps.unshift(step);
  return steps;
}

function planted(where: string, path: string, what: string): LogWriteError {
  return new LogWriteError(path, {
    where,
    input: path,
    expected: 'a path that nobody else can redirect',
    received: `${what} in ${dirname(path)}, where others can write`,
    remedy: 'remove it, or choose a folder that only you can write to',
  });
}
