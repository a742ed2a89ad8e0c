/** What killed runs leave behind goes; what a living process works in stays. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { removeAbandoned } from '../../../src/cli/link/abandoned.js';
import { temporaryFolder } from './fake-installation.js';

/** Above every process number that Linux gives out. */
const GONE = 2 ** 22 + 1;

test('folders of processes that are gone are removed, and nothing else', async () => {
  const folder = temporaryFolder();
  for (const name of [`work-${GONE}`, `work-${process.ppid}`, 'other']) mkdirSync(path.join(folder, name));
  writeFileSync(path.join(folder, `work-${GONE}`, 'big'), 'data');
  await removeAbandoned(folder, 'work-');
  expect(readdirSync(folder).sort()).toEqual(['other', `work-${process.ppid}`].sort());
});
