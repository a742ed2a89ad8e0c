/** What the demo refuses before it starts anything. */
import { chmod, mkdir, mkdtemp, readdir, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runDemo } from '../../../examples/ppo/run.js';
import { ValueError } from '../../../src/errors.js';
import { LogWriteError } from '../../../src/tracker/index.js';

const options = { steps: 1, backend: 'cpu', seed: 1, out: undefined } as const;

describe('runDemo', () => {
  it.each([{ steps: 0 }, { steps: 1.5 }, { steps: NaN }, { seed: -1 }, { seed: 0.5 }, { seed: 2 ** 32 }])(
    'refuses %o',
    async (wrong) => {
      const [input] = Object.keys(wrong);
      await expect(runDemo({ ...options, ...wrong })).rejects.toMatchObject({
        code: 'value',
        input,
        where: 'runDemo',
      });
    },
  );

  it.each(['metrics.jsonl', 'config.json'])(
    'refuses a folder that holds %s, and leaves it as it was',
    async (file) => {
      const folder = await mkdtemp(join(tmpdir(), 'ppo-run-'));
      try {
        await writeFile(join(folder, file), 'mine');
        await expect(runDemo({ ...options, out: folder })).rejects.toBeInstanceOf(ValueError);
        expect(await readdir(folder)).toEqual([file]);
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  );

  it('does not follow a link that others may have put where its folder goes', async () => {
    const shared = await realpath(await mkdtemp(join(tmpdir(), 'ppo-run-')));
    try {
      await chmod(shared, 0o1777);
      await mkdir(join(shared, 'victim'));
      const out = join(shared, 'run');
      await symlink(join(shared, 'victim'), out);
      await expect(runDemo({ ...options, out })).rejects.toMatchObject({ code: 'log_write', path: out });
      expect(await readdir(join(shared, 'victim'))).toEqual([]);
    } finally {
      await rm(shared, { recursive: true });
    }
  });

  it.each(['metrics.jsonl', 'config.json'])(
    'refuses a folder whose %s is a link to nowhere',
    async (file) => {
      const folder = await mkdtemp(join(tmpdir(), 'ppo-run-'));
      try {
        await symlink(join(folder, 'victim'), join(folder, file));
        await expect(runDemo({ ...options, out: folder })).rejects.toBeInstanceOf(ValueError);
        expect(await readdir(folder)).toEqual([file]);
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  );

  it('refuses a file and an empty name as its folder', async () => {
    await expect(runDemo({ ...options, out: 'package.json' })).rejects.toThrow(
      /package\.json, which is a file/,
    );
    await expect(runDemo({ ...options, out: '' })).rejects.toThrow(/got no name; name a folder/);
  });

  it.each([
    ['a file', 'package.json/run', 'ENOTDIR'],
    ['a device', '/dev/null/run', 'ENOTDIR'],
    ['a name too long', 'a'.repeat(5000), 'ENAMETOOLONG'],
    ['a name with a zero byte', 'a\0b', 'ERR_INVALID_ARG_VALUE'],
  ])('a folder that cannot be, for %s, is a typed refusal', async (_, out, reason) => {
    const error = await runDemo({ ...options, out }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LogWriteError);
    const { message } = error as Error;
    expect(message).toContain(reason);
    expect(message.length).toBeLessThan(1500); // of a name of 5000
  });
});
