/**
 * A folder with its parents. `mkdir` with `recursive` of Node never returns where the file system says of every new
 * folder that its parent is missing, as /proc does.
 */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes the folder `path` and those above it that are missing; one that is there stays as it is.
 *
 * @throws the error of the file system, also where something else than a folder is in the way
 */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if (isFolder(path)) return;
    const parent = dirname(path);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === path) throw error;
    makeFolder(parent);
    try {
      mkdirSync(path);
    } catch (again) {
      if (!isFolder(path)) throw again; // else somebody else has made it meanwhile
    }
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
