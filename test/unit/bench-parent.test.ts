/** A measurement does not outlive the program that asked for it. */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { temporaryFolder } from './cli/fake-installation.js';

const isAlive = (pid: number): boolean => {
  try {
    // A zombie counts as gone: its parent, which may be no init, has yet to ask for its status.
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
};

test.skipIf(process.platform !== 'linux').each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'] as const)(
  'a process that computes without a pause ends after its parent got %s',
  async (signal) => {
    const folder = temporaryFolder();
    const source = readFileSync(path.resolve('bench/end-with-parent.ts'), 'utf8');
    const { outputText } = ts.transpileModule(source, {
      compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
    });
    writeFileSync(path.join(folder, 'end-with-parent.mjs'), outputText);
    writeFileSync(
      path.join(folder, 'child.mjs'),
      `import { endWithParent } from './end-with-parent.mjs';
       endWithParent();
       process.send('started', () => { for (;;); });`,
    );
    writeFileSync(
      path.join(folder, 'parent.mjs'),
      `import { fork } from 'node:child_process';
       const child = fork('${folder}/child.mjs');
       child.on('message', () => console.log(child.pid));`,
    );
    const parent = spawn(process.execPath, [path.join(folder, 'parent.mjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pid = await new Promise<number>((resolve) => {
      createInterface({ input: parent.stdout }).once('line', (line) => {
        resolve(Number(line));
      });
    });
    expect(isAlive(pid)).toBe(true);
    parent.kill(signal);
    await expect.poll(() => isAlive(pid), { timeout: 120_000, interval: 50 }).toBe(false);
  },
  300_000,
);
