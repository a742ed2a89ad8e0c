/**
 * Brings the node package in where npm left it out, without its install script (whose download is what failed).
 *
 * `npm install --no-save` in the project would do it, but it also removes every package that package.json does not
 * name. So npm installs into a folder of its own, and the package then moves into place by one rename. What it needs
 * moves along, except packages that are there in the same version: a second copy of tfjs would only cost memory.
 */
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { BackendError } from '../../errors.js';
import { linkFolder, nodePackages, nodePackageVersion } from '../../kernels/tensorflow/binding.js';
import { makeFolder } from '../../make-folder.js';
import { ownPackage } from '../../own-package.js';
import { removeAbandoned } from './abandoned.js';
import { isNotFound, lastWords, type RunCommand } from './run-command.js';

const name = nodePackages[0];

/** The `node_modules` folder from which this package resolves its own dependencies. */
export function ownNodeModules(): string {
  const { directory } = ownPackage();
  const parent = path.dirname(directory);
  return path.basename(parent) === 'node_modules' ? parent : path.join(directory, 'node_modules');
}

/** The file in a package's link folder that says that this function put the package there. */
export function fetchedMark(directory: string): string {
  return path.join(directory, linkFolder, 'fetched');
}

/** Name of the folder that npm installs into, before the process that owns it. */
const WORKSHOP = '.tensortally-fetch-';

/**
 * Fetches the node package into `nodeModules`. Changes no package.json and no lock file.
 *
 * @returns its directory, and whether this call put it there: another run may have been faster
 * @throws BackendError if npm is missing or cannot fetch it
 */
export async function fetchNodePackage(
  run: RunCommand,
  nodeModules: string,
): Promise<{ readonly directory: string; readonly isOurs: boolean }> {
  const target = path.join(nodeModules, name);
  const workshop = path.join(nodeModules, `${WORKSHOP}${process.pid}`);
  makeFolder(nodeModules);
  await removeAbandoned(nodeModules, WORKSHOP); // a few hundred megabytes each
  await mkdir(workshop, { mode: 0o700 });
  try {
    await copyFile(lockFile(), path.join(workshop, 'package-lock.json'));
    const manifest = { private: true, dependencies: { [name]: nodePackageVersion } };
    await writeFile(path.join(workshop, 'package.json'), `${JSON.stringify(manifest)}\n`);
    const settings = path.join(path.dirname(nodeModules), '.npmrc');
    if (existsSync(settings)) {
      // It may hold a token.
      await writeFile(path.join(workshop, '.npmrc'), await readFile(settings), { mode: 0o600 });
    }
    await install(run, workshop);
    await gatherDependencies(workshop, nodeModules);
    const fetched = path.join(workshop, 'node_modules', name);
    await mkdir(path.dirname(fetchedMark(fetched)));
    await writeFile(fetchedMark(fetched), `fetched by tensortally link-tensorflow\n`);
    makeFolder(path.dirname(target));
    return { directory: target, isOurs: await moveIfAbsent(fetched, target) };
  } finally {
    await rm(workshop, { recursive: true, force: true });
  }
}

/**
 * The lock file with the digest of the node package and of all that it needs, part of this package: whatever registry,
 * mirror or cache the files come from, npm refuses them unless they are those that were released.
 */
export function lockFile(): string {
  return path.join(ownPackage().directory, 'src', 'cli', 'link', 'node-package-lock.json');
}

/**
 * What npm is told. The last three keep settings of the project from choosing other files than those of the lock file.
 */
const FLAGS = [
  '--ignore-scripts',
  '--no-audit',
  '--no-fund',
  '--package-lock=true',
  '--install-strategy=hoisted',
  '--legacy-peer-deps=false',
];

/** Moves a folder to where there is none; false if there is one by now. */
async function moveIfAbsent(folder: string, target: string): Promise<boolean> {
  try {
    await rename(folder, target);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return false;
    throw error;
  }
}

async function install(run: RunCommand, workshop: string): Promise<void> {
  const remedy = `check npm's access to its registry, or install ${name}@${nodePackageVersion} without scripts yourself`;
  try {
    const outcome = await run('npm', ['ci', ...FLAGS, '--prefix', workshop], { cwd: workshop });
    if (outcome.status === 0) return;
    if (/\bEINTEGRITY\b/.test(outcome.stderr)) {
      throw refusal(
        `files of ${name} and its dependencies with the digests that this package ships`,
        'others from the registry',
        "do not use that registry or mirror; clear npm's cache (`npm cache clean --force`) if it is the right one",
        new Error(outcome.stderr),
      );
    }
    const reason =
      /^npm (?:error|ERR!) (?!code)(.+)$/m.exec(outcome.stderr)?.[1] ?? lastWords(outcome.stderr);
    throw refusal(`npm to fetch ${name}`, `its failure: ${reason}`, remedy, new Error(outcome.stderr));
  } catch (error) {
    if (!isNotFound(error)) throw error;
    throw refusal('the program npm', 'none in PATH', remedy);
  }
}

/** Moves the packages of `workshop` that `nodeModules` lacks into the node package's own node_modules. */
async function gatherDependencies(workshop: string, nodeModules: string): Promise<void> {
  const source = path.join(workshop, 'node_modules');
  const target = path.join(source, name, 'node_modules');
  for (const dependency of await packagesIn(source)) {
    if (dependency === name) continue;
    const version = await versionOf(path.join(source, dependency));
    if (version === (await versionOf(path.join(nodeModules, dependency)))) continue;
    const place = path.join(target, dependency);
    if (existsSync(place)) continue; // npm nested another version here, which is the one that the package uses
    makeFolder(path.dirname(place));
    await rename(path.join(source, dependency), place);
  }
}

async function packagesIn(folder: string): Promise<string[]> {
  const entries = (await readdir(folder)).filter((entry) => !entry.startsWith('.'));
  const scopes = entries.filter((entry) => entry.startsWith('@'));
  const scoped = await Promise.all(
    scopes.map(async (scope) =>
      (await readdir(path.join(folder, scope))).map((entry) => `${scope}/${entry}`),
    ),
  );
  return [...entries.filter((entry) => !entry.startsWith('@')), ...scoped.flat()];
}

async function versionOf(directory: string): Promise<string | undefined> {
  const file = path.join(directory, 'package.json');
  if (!existsSync(file)) return undefined;
  return (JSON.parse(await readFile(file, 'utf8')) as { readonly version?: string }).version;
}

function refusal(expected: string, received: string, remedy: string, cause?: unknown): BackendError {
  return new BackendError({ where: 'link-tensorflow', input: 'npm', expected, received, remedy }, { cause });
}
