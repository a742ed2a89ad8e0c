/** Links and files that others may have put where a journal goes, and disks that are full. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { JsonlWriter, LogWriteError, StatsLogger } from '../../../../src/tracker/index.js';

let folder: string;
const isRoot = process.getuid?.() === 0;
const SOMEBODY = 12345;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'planted-')));
  return () => {
    rmSync(folder, { recursive: true });
  };
});

/** A folder that others can write to, as /tmp. */
function shared(mode = 0o1777): string {
  const path = join(folder, 'shared');
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

async function refused(open: Promise<unknown>, path: string): Promise<void> {
  const error: unknown = await open.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LogWriteError);
  expect(error).toMatchObject({ code: 'log_write', path });
  expect((error as Error).message).toMatch(/where others can write; remove it, or choose a folder/);
}

describe('a journal in a folder where others can write', () => {
  it.each([0o1777, 0o777, 0o775])('does not follow a link (mode %o)', async (mode) => {
    const path = join(shared(mode), 'm.jsonl');
    const target = join(folder, 'victim');
    writeFileSync(target, 'mine');
    symlinkSync(target, path);
    await refused(JsonlWriter.open(path), path);
    expect(readFileSync(target, 'utf8')).toBe('mine');
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(existsSync(`${path}.lock`)).toBe(false);
  });

  it('makes no file through a link that leads nowhere', async () => {
    const path = join(shared(), 'm.jsonl');
    symlinkSync(join(folder, 'victim'), path);
    await refused(JsonlWriter.open(path), path);
    expect(existsSync(join(folder, 'victim'))).toBe(false);
  });

  it('does not follow a link that is put there while it is open', async () => {
    const path = join(shared(), 'm.jsonl');
    const writer = await JsonlWriter.open(path);
    rmSync(path);
    symlinkSync(join(folder, 'victim'), path);
    await refused(writer.write(0, { x: 1 }), path);
    expect(existsSync(join(folder, 'victim'))).toBe(false);
    rmSync(path);
    await writer.write(0, { x: 1 });
    await writer.close();
  });

  it('is made and opened again where nothing is planted', async () => {
    const path = join(shared(), 'deep', 'm.jsonl');
    for (const step of [0, 1]) {
      const writer = await JsonlWriter.open(path);
      await writer.write(step, { x: 1 });
      await writer.close();
    }
  });

  it.runIf(isRoot)('does not take a file of somebody else', async () => {
    const path = join(shared(), 'm.jsonl');
    writeFileSync(path, '');
    chownSync(path, SOMEBODY, SOMEBODY);
    await refused(JsonlWriter.open(path), path);
  });

  it.runIf(isRoot)('does not follow a link of somebody else further up', async () => {
    const link = join(shared(), 'logs');
    mkdirSync(join(folder, 'victim'));
    symlinkSync(join(folder, 'victim'), link);
    const own = await JsonlWriter.open(join(link, 'm.jsonl')); // a link of this user
    await own.close();
    execFileSync('chown', ['-h', `${SOMEBODY}`, link]);
    await refused(JsonlWriter.open(join(link, 'm.jsonl')), link);
    const logger = StatsLogger.create({
      experimentName: 'e',
      trialName: 't',
      fileroot: join(folder, 'shared'),
      console: false,
    });
    await refused(logger, link);
  });
});

describe('a journal in a folder of this user', () => {
  it('may be a link', async () => {
    symlinkSync(join(folder, 'real.jsonl'), join(folder, 'm.jsonl'));
    const writer = await JsonlWriter.open(join(folder, 'm.jsonl'));
    await writer.write(0, { x: 1 });
    await writer.close();
    expect(readFileSync(join(folder, 'real.jsonl'), 'utf8')).toContain('"step":0');
  });
});

/** A file system of 64 kB, or undefined where this user may not mount one. */
function smallDisk(): string | undefined {
  const disk = join(folder, 'disk');
  mkdirSync(disk);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', disk], { stdio: 'ignore' });
    return disk;
  } catch {
    return undefined;
  }
}

describe('a full disk', () => {
  it('tears no line: the next one of whoever writes stands by itself', async ({ skip }) => {
    const disk = smallDisk();
    if (disk === undefined) skip('mounting takes root');
    try {
      const path = join(disk!, 'm.jsonl');
      const writer = await JsonlWriter.open(path);
      const data = Object.fromEntries(
        Array.from({ length: 100 }, (_, i) => [`some/long/name/of/a/metric/${i}`, 1 / 3]),
      );
      await writer.write(0, data);
      const lineBytes = readFileSync(path).length;
      // All but a part of the next line.
      const { bavail, bsize } = statfsSync(disk!);
      writeFileSync(join(disk!, 'filler'), Buffer.alloc((bavail - 1) * bsize));
      expect(lineBytes).toBeGreaterThan(4096); // so that it cannot end where the block does
      const outcomes: string[] = [];
      for (let step = 1; step < 4; step++) {
        outcomes.push(
          await writer.write(step, data).then(
            () => 'written',
            (error: unknown) => (error as LogWriteError).received,
          ),
        );
      }
      expect(outcomes).toContain('ENOSPC');
      const text = readFileSync(path, 'utf8');
      expect(text.endsWith('\n')).toBe(true);
      rmSync(join(disk!, 'filler'));
      writeFileSync(path, '{"step":50,"data":{}}\n', { flag: 'a' }); // another writer
      await writer.write(60, data);
      await writer.close();
      const steps = readFileSync(path, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { step: number }).step);
      expect(steps.slice(-2)).toEqual([50, 60]);
    } finally {
      execFileSync('umount', [disk!]);
    }
  });
});
