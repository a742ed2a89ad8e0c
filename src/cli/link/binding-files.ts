/**
 * The files that linking puts into the node package, and how they are taken out again.
 *
 * All of them but the binding itself lie in one folder of our own. The binding is swapped by a single rename after
 * everything else is in place, so whatever interrupts the command leaves either the old state or the new one.
 */
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { BackendError } from '../../errors.js';
import {
  bindingPath,
  linkFolder,
  linkRecordPath,
  type LinkRecord,
} from '../../kernels/tensorflow/binding.js';
import { makeFolder } from '../../make-folder.js';
import { removeAbandoned } from './abandoned.js';
import { fetchedMark } from './fetch-package.js';

/** Makes an empty folder in which a binding can be built and, where a killed run left one behind, clears that. */
export async function makeWorkshop(directory: string): Promise<string> {
  const folder = path.join(directory, linkFolder);
  makeFolder(folder);
  await removeAbandoned(folder, 'building-');
  const workshop = path.join(folder, `building-${process.pid}`);
  await mkdir(workshop);
  return workshop;
}

/** Whether `installBinding` was here before: the record of each of its bindings stays. */
export async function wasLinked(directory: string): Promise<boolean> {
  const folder = path.join(directory, linkFolder);
  return existsSync(folder) && (await readdir(folder)).some((name) => name.endsWith('.json'));
}

/**
 * Makes `built` the binding of the package.
 *
 * @param isOurs whether the binding that is there, if any, is ours; someone else's is kept for `removeLink`
 */
export async function installBinding(
  directory: string,
  built: string,
  record: LinkRecord,
  isOurs: boolean,
): Promise<void> {
  const binding = bindingPath(directory);
  if (existsSync(binding) && !isOurs) {
    const copy = `${replacedBinding(directory)}.${process.pid}`;
    await copyFile(binding, copy);
    await rename(copy, replacedBinding(directory));
  }
  await writeFile(linkRecordPath(directory, built), `${JSON.stringify(record, null, 2)}\n`);
  makeFolder(path.dirname(binding));
  await rename(built, binding);
}

/** What `removeLink` did. */
export type Removal = 'nothing' | 'restored' | 'removed-binding' | 'removed-package';

/**
 * Undoes `installBinding` and `fetchNodePackage`: the package is as it was before the first of them.
 *
 * @param isOurs whether the binding that is there, if any, is ours; someone else's stays
 */
export async function removeLink(directory: string, isOurs: boolean): Promise<Removal> {
  const folder = path.join(directory, linkFolder);
  if (!existsSync(folder)) return 'nothing';
  const binding = bindingPath(directory);
  let removal: Removal = 'nothing';
  if ((isOurs || !existsSync(binding)) && existsSync(replacedBinding(directory))) {
    makeFolder(path.dirname(binding));
    await rename(replacedBinding(directory), binding);
    removal = 'restored';
  } else if (isOurs) {
    await rm(binding);
    await removeIfEmpty(path.dirname(binding));
    await removeIfEmpty(path.join(directory, 'lib'));
    removal = 'removed-binding';
  }
  const isFetched = existsSync(fetchedMark(directory)) && !existsSync(binding);
  await rm(folder, { recursive: true });
  if (!isFetched) return removal;
  await rm(directory, { recursive: true });
  await removeIfEmpty(path.dirname(directory));
  return 'removed-package';
}

const ASK_OWNER = 'run it as the owner of that folder, on a writable disk with some space left';
const ANOTHER_RUN = 'if another link-tensorflow is at work there, let it finish; then run this again';

/** What can be done about what the file system refuses with. */
const REMEDIES: Readonly<Record<string, string>> = {
  EACCES: ASK_OWNER,
  EPERM: ASK_OWNER,
  EROFS: ASK_OWNER,
  ENOSPC: ASK_OWNER,
  ENOTDIR: ASK_OWNER,
  EEXIST: ASK_OWNER,
  ENOENT: ANOTHER_RUN,
  ENOTEMPTY: ANOTHER_RUN,
};

/** Runs `change`, turning a refusal of the file system into an error that says which and what to do. */
export async function withWriteAccess<T>(directory: string, change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const remedy = REMEDIES[code];
    if (remedy === undefined) throw error;
    throw new BackendError(
      {
        where: 'link-tensorflow',
        input: 'files',
        expected: `to write in ${directory}`,
        received: (error as Error).message,
        remedy,
      },
      { cause: error },
    );
  }
}

function replacedBinding(directory: string): string {
  return path.join(directory, linkFolder, 'replaced-binding.node');
}

async function removeIfEmpty(folder: string): Promise<void> {
  if (existsSync(folder) && (await readdir(folder)).length === 0) await rmdir(folder);
}
