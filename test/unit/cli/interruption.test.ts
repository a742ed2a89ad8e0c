/** A signal while other programs are at work: they end, whatever they have started, and what was begun is cleared. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

import { fetchNodePackage } from '../../../src/cli/link/fetch-package.js';
import {
  Interruption,
  type RunCommand,
  interruptible,
  runCommand,
} from '../../../src/cli/link/run-command.js';
import { temporaryFolder, textOf, writeFiles } from './fake-installation.js';

/** Waits until a file is there. */
async function appears(file: string): Promise<void> {
  while (!existsSync(file)) await new Promise(setImmediate);
}

/** Whether a process runs; one that has ended and whose parent has not looked is a zombie. */
function isRunning(pid: number): boolean {
  const status = existsSync(`/proc/${pid}/status`) ? readFileSync(`/proc/${pid}/status`, 'utf8') : '';
  return status !== '' && !/^State:\s+[ZX]/m.test(status);
}

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s while npm fetches ends npm and what npm has started, and leaves no folder and no settings',
  async (signal) => {
    const folder = temporaryFolder();
    writeFiles(folder, { '.npmrc': 'token=secret', 'node_modules/other/package.json': '{}' });
    const pids = path.join(folder, 'pids');
    const npm: RunCommand = (_command, _words, options) =>
      runCommand(
        '/bin/sh',
        ['-c', `sleep 600 & echo "$$ $!" > ${pids}.new; mv ${pids}.new ${pids}; wait`],
        options,
      );
    const fetching = interruptible(() => fetchNodePackage(npm, path.join(folder, 'node_modules')));
    const ended = fetching.catch((error: unknown) => error);
    await appears(pids);
    process.kill(process.pid, signal);
    const error = await ended;
    expect(error).toBeInstanceOf(Interruption);
    expect(error).toMatchObject({ signal });
    const started = textOf(pids)!.trim().split(' ').map(Number);
    expect(started).toHaveLength(2);
    while (started.some(isRunning)) await new Promise(setImmediate);
    expect(readdirSync(path.join(folder, 'node_modules'))).toEqual(['other']);
    expect(process.listenerCount(signal)).toBe(0);
  },
);

test('what comes after a signal is not started, and the next work is not disturbed', async () => {
  const first = interruptible(async () => {
    process.kill(process.pid, 'SIGTERM');
    for (let times = 0; times < 1000; times++) await runCommand('/bin/echo', ['again']);
  });
  await expect(first).rejects.toBeInstanceOf(Interruption);
  await expect(interruptible(() => runCommand('/bin/echo', ['yes']))).resolves.toMatchObject({
    stdout: 'yes\n',
  });
});
