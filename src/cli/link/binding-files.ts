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
  readLinkRecord,
  type LinkRecord,
} from '../../kernels/tensorflow-binding.js';
import { removeAbandoned } from './abandoned.js';
import { fetchedMark } from './fetch-package.js';

/** Makes an empty folder in which a binding can be built and, where a killed run left one behind, clears that. */
export async function makeWorkshop(directory: string): Promise<string> {
  const folder = path.join(directory, linkFolder);
  await mkdir(folder, { recursive: true });
  await removeAbandoned(folder, 'building-');
  const workshop = path.join(folder, `building-${process.pid}`);
  await mkdir(workshop);
  return workshop;
}

/** Makes `built` the binding of the package; a binding that someone else made is kept for `removeLink`. */
export async function installBinding(directory: string, built: string, record: LinkRecord): Promise<void> {
  const binding = bindingPath(directory);
  if (existsSync(binding) && readLinkRecord(directory, binding) === undefined) {
    const copy = `${replacedBinding(directory)}.${process.pid}`;
    await copyFile(binding, copy);
    await rename(copy, replacedBinding(directory));
  }
  await writeFile(linkRecordPath(directory, built), `${JSON.stringify(record, null, 2)}\n`);
  await mkdir(path.dirname(binding), { recursive: true });
  await rename(built, binding);
}

/** What `removeLink` did. */
export type Removal = 'nothing' | 'restored' | 'removed-binding' | 'removed-package';

/** Undoes `installBinding` and `fetchNodePackage`: the package is as it was before the first of them. */
export async function removeLink(directory: string): Promise<Removal> {
  const folder = path.join(directory, linkFolder);
  if (!existsSync(folder)) return 'nothing';
  const binding = bindingPath(directory);
  const isOurs = existsSync(binding) && readLinkRecord(directory, binding) !== undefined;
  let removal: Removal = 'nothing';
  if (isOurs && existsSync(replacedBinding(directory))) {
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

/** Runs `change`, turning a refusal of the file system into an error that says which and what to do. */
export async function withWriteAccess<T>(directory: string, change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'ENOTDIR', 'EEXIST'].includes(code)) throw error;
    throw new BackendError(
      {
        where: 'link-tensorflow',
        input: 'files',
        expected: `to write in ${directory}`,
        received: (error as Error).message,
        remedy: 'run it as the owner of that folder, on a writable disk with some space left',
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
