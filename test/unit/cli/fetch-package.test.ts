/** Fetching the node package: what comes into node_modules, what stays untouched, and what npm's failures become. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  fetchedMark,
  fetchNodePackage,
  lockFile,
  ownNodeModules,
} from '../../../src/cli/link/fetch-package.js';
import { ownPackage } from '../../../src/own-package.js';
import type { RunCommand } from '../../../src/cli/link/run-command.js';
import { BackendError } from '../../../src/errors.js';
import {
  installNodePackage,
  notFound,
  outcome,
  temporaryFolder,
  textOf,
  writeFiles,
} from './fake-installation.js';

const version = (number: string): string => JSON.stringify({ version: number });

/** A project whose dependencies are partly those of the node package. */
function project(): string {
  const folder = temporaryFolder();
  writeFiles(folder, {
    'package.json': '{ "name": "mine" }',
    'package-lock.json': '{ "lockfileVersion": 3 }',
    '.npmrc': 'fund=false',
    'node_modules/@tensorflow/tfjs/package.json': version('4.22.0'),
    'node_modules/tar/package.json': version('7.0.0'),
    'node_modules/not-in-package-json/package.json': version('1.0.0'),
  });
  return folder;
}

/** What npm was told, and what it found in its folder. */
interface Call {
  readonly words: readonly string[];
  readonly settings: string | undefined;
  /** Permissions of the settings. */
  readonly mode: number;
  readonly lock: string | undefined;
  readonly manifest: unknown;
}

/** npm that installs the package with its dependencies side by side, as npm does in an empty folder. */
function npm(calls: Call[] = []): RunCommand {
  return (command, words) => {
    const workshop = words[words.indexOf('--prefix') + 1]!;
    const settings = path.join(workshop, '.npmrc');
    calls.push({
      words: [command, ...words],
      settings: textOf(settings),
      mode: existsSync(settings) ? statSync(settings).mode & 0o777 : 0,
      lock: textOf(path.join(workshop, 'package-lock.json')),
      manifest: JSON.parse(textOf(path.join(workshop, 'package.json'))!),
    });
    installNodePackage(workshop, { 'node_modules/nested/package.json': version('1.0.0') });
    writeFiles(path.join(workshop, 'node_modules'), {
      '@tensorflow/tfjs/package.json': version('4.22.0'),
      '@mapbox/node-pre-gyp/package.json': version('1.0.9'),
      'tar/package.json': version('6.2.1'),
      'nested/package.json': version('2.0.0'),
      '.package-lock.json': '{}',
    });
    return Promise.resolve(outcome({}));
  };
}

const fetchInto = async (folder: string, run: RunCommand): Promise<string> =>
  (await fetchNodePackage(run, path.join(folder, 'node_modules'))).directory;

describe('fetching the node package', () => {
  test('puts it where the project resolves it, marked as fetched', async () => {
    const folder = project();
    const directory = await fetchInto(folder, npm());
    expect(directory).toBe(path.join(folder, 'node_modules/@tensorflow/tfjs-node-gpu'));
    expect(textOf(path.join(directory, 'package.json'))).toContain('4.22.0');
    expect(existsSync(fetchedMark(directory))).toBe(true);
  });

  test('brings the dependencies that the project lacks, and no second copy of the others', async () => {
    const directory = await fetchInto(project(), npm());
    const own = (name: string): string | undefined =>
      textOf(path.join(directory, 'node_modules', name, 'package.json'));
    expect(own('@mapbox/node-pre-gyp')).toBe(version('1.0.9'));
    expect(own('tar')).toBe(version('6.2.1')); // the project has another version
    expect(own('nested')).toBe(version('1.0.0')); // the package's own choice wins
    expect(own('@tensorflow/tfjs')).toBeUndefined();
  });

  test('touches nothing else in the project', async () => {
    const folder = project();
    await fetchInto(folder, npm());
    expect(textOf(path.join(folder, 'package.json'))).toBe('{ "name": "mine" }');
    expect(textOf(path.join(folder, 'package-lock.json'))).toBe('{ "lockfileVersion": 3 }');
    expect(textOf(path.join(folder, 'node_modules/tar/package.json'))).toBe(version('7.0.0'));
    expect(readdirSync(path.join(folder, 'node_modules')).sort()).toEqual([
      '@tensorflow',
      'not-in-package-json',
      'tar',
    ]);
  });

  test('runs no install script and uses the settings of the project', async () => {
    const calls: Call[] = [];
    await fetchInto(project(), npm(calls));
    expect(calls[0]!.words.slice(0, 2)).toEqual(['npm', 'ci']);
    expect(calls[0]!.words).toContain('--ignore-scripts');
    expect(calls[0]!.settings).toBe('fund=false');
    expect(calls[0]!.mode).toBe(0o600);
  });

  test('lets npm take nothing but files whose digests this package ships, from whatever registry', async () => {
    const calls: Call[] = [];
    await fetchInto(project(), npm(calls));
    const lock = JSON.parse(calls[0]!.lock!) as {
      readonly packages: Readonly<
        Record<string, { version?: string; integrity?: string; resolved?: string }>
      >;
    };
    const { '': root, ...packages } = lock.packages;
    expect(root).toMatchObject({ dependencies: { '@tensorflow/tfjs-node-gpu': '4.22.0' } });
    expect(calls[0]!.manifest).toMatchObject({ dependencies: { '@tensorflow/tfjs-node-gpu': '4.22.0' } });
    expect(Object.keys(packages).length).toBeGreaterThan(100);
    for (const [name, { integrity, resolved }] of Object.entries(packages)) {
      expect(integrity, name).toMatch(/^sha512-[\w+/]{86}==$/);
      expect(resolved, name).toBeUndefined();
    }
    // A setting of the project could make npm look past the lock file.
    expect(calls[0]!.words).toContain('--package-lock=true');
    const { directory } = ownPackage();
    const manifest = JSON.parse(textOf(path.join(directory, 'package.json'))!) as { files: string[] };
    expect(manifest.files, 'published').toContain(path.relative(directory, lockFile()));
  });

  test('refuses other files than those that were released', async () => {
    const stderr = 'npm error code EINTEGRITY\nnpm error sha512-A… integrity checksum failed\n';
    const error = await fetchInto(project(), () => Promise.resolve(outcome({ status: 1, stderr }))).catch(
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(BackendError);
    expect((error as BackendError).message).toMatch(
      /digests that this package ships.*others from the registry/,
    );
  });

  test.each<[string, RunCommand, string]>([
    ['no npm', (command) => Promise.reject(notFound(command)), 'none in PATH'],
    [
      'an unreachable registry',
      () =>
        Promise.resolve(
          outcome({
            status: 1,
            stderr: 'npm error code ENOTFOUND\nnpm error network request failed\nnpm error',
          }),
        ),
      'network request failed',
    ],
  ])('refuses with %s and leaves no trace', async (_, run, received) => {
    const folder = project();
    const error = await fetchInto(folder, run).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackendError);
    expect((error as BackendError).received).toContain(received);
    expect((error as BackendError).remedy).toContain('npm');
    expect(readdirSync(path.join(folder, 'node_modules'))).not.toContainEqual(
      expect.stringContaining('fetch'),
    );
    expect(existsSync(path.join(folder, 'node_modules/@tensorflow/tfjs-node-gpu'))).toBe(false);
  });

  test('goes where this package itself resolves from', () => {
    expect(path.basename(ownNodeModules())).toBe('node_modules');
    expect(existsSync(path.join(ownNodeModules(), '@tensorflow/tfjs-core'))).toBe(true);
  });
});
