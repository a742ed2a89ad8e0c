/** What killed runs leave behind: working folders named after a process that is gone. */
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';

/** Removes what runs that were killed have left: entries of `folder` named by `prefix` and a process that is gone. */
export async function removeAbandoned(folder: string, prefix: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith(prefix)) continue;
    const owner = Number(name.slice(prefix.length));
    if (owner === process.pid || !isRunning(owner))
      await rm(path.join(folder, name), { recursive: true, force: true }); // another run may clear it as well
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
