/** The journal: lines that can be read back in full, and errors that say what to do. */
import { existsSync, rmSync } from 'node:fs';
import {
  appendFile,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  realpath,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { JsonlWriter, LogWriteError, readJournal } from '../../../../src/tracker/index.js';
import { JournalFile } from '../../../../src/tracker/loggers/journal/file.js';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jsonl-'));
  return () => rm(folder, { recursive: true });
});

async function write(path: string, ...steps: number[]): Promise<void> {
  const writer = await JsonlWriter.open(path, { now: () => 1700000000123 });
  for (const step of steps) await writer.write(step, { x: step });
  await writer.close();
}

async function lines(path: string): Promise<string[]> {
  return (await readFile(path, 'utf8')).split('\n');
}

async function steps(path: string): Promise<number[]> {
  return (await lines(path)).slice(0, -1).map((line) => (JSON.parse(line) as { step: number }).step);
}

describe('JsonlWriter', () => {
  it('writes one line per commit, counts and non-finite numbers included', async () => {
    const path = join(folder, 'deep', 'er', 'm.jsonl');
    const writer = await JsonlWriter.open(path, { now: () => 1700000000123 });
    const data = { 'a/avg': 0.1, a__count: 2 ** 53 - 1, n: NaN, p: Infinity, q: -Infinity };
    await writer.write(0, data);
    await writer.close();
    expect(await lines(path)).toEqual([
      '{"step":0,"ts":1700000000123,"data":{"a/avg":0.1,"a__count":9007199254740991,"n":"NaN","p":"Infinity","q":"-Infinity"}}',
      '',
    ]);
  });

  it('keeps the sign of a zero', async () => {
    const path = join(folder, 'm.jsonl');
    const writer = await JsonlWriter.open(path, { now: () => 5 });
    await writer.write(0, { x: -0, 'quote"': 0, n: NaN });
    await writer.write(1, { x: -0 });
    await writer.close();
    expect(await lines(path)).toEqual([
      '{"step":0,"ts":5,"data":{"x":-0,"quote\\"":0,"n":"NaN"}}',
      '{"step":1,"ts":5,"data":{"x":-0}}',
      '',
    ]);
    const { commits } = await readJournal(path);
    expect(commits.map(({ data }) => data.x)).toEqual([-0, -0]);
  });

  it.each([NaN, Infinity])('writes what can be read where a getter gives %s only later', async (later) => {
    const path = join(folder, 'm.jsonl');
    const writer = await JsonlWriter.open(path, { now: () => 5 });
    let reads = 0;
    const data = Object.defineProperty({ 'a:null': 2 } as { 'a:null': number; x: number }, 'x', {
      enumerable: true,
      get: () => (reads++ === 0 ? 1 : later),
    });
    await writer.write(0, data);
    await writer.write(1, { 'a:null': 2 });
    await writer.close();
    expect(await lines(path)).toEqual([
      `{"step":0,"ts":5,"data":{"a:null":2,"x":"${later}"}}`,
      '{"step":1,"ts":5,"data":{"a:null":2}}',
      '',
    ]);
  });

  it('says at which point of the training a commit was made', async () => {
    const path = join(folder, 'm.jsonl');
    const writer = await JsonlWriter.open(path, { now: () => 5 });
    await writer.write(12, { x: 1 }, { epoch: 2, step: 3 });
    await writer.close();
    expect(await lines(path)).toEqual(['{"step":12,"ts":5,"epoch":2,"epochStep":3,"data":{"x":1}}', '']);
  });

  it('can be read while it is open, and appends to what is there', async () => {
    const path = join(folder, 'm.jsonl');
    await write(path, 0);
    const writer = await JsonlWriter.open(path);
    await writer.write(1, { x: 1 });
    expect(await steps(path)).toEqual([0, 1]);
    await writer.close();
  });

  it('starts a line of its own after one that was cut short', async () => {
    const path = join(folder, 'm.jsonl');
    await write(path, 0);
    await appendFile(path, '{"step":1,"ts":17');
    await write(path, 2, 3);
    const [first, torn, ...rest] = await lines(path);
    expect(JSON.parse(first!)).toMatchObject({ step: 0 });
    expect(torn).toBe('{"step":1,"ts":17');
    expect(rest.map((line) => (line === '' ? '' : (JSON.parse(line) as { step: number }).step))).toEqual([
      2,
      3,
      '',
    ]);
  });

  it.each<[string, (path: string) => Promise<unknown>]>([
    ['deleted', (path) => rm(path)],
    ['deleted with its folder', (path) => rm(dirname(path), { recursive: true })],
    ['moved away', (path) => rename(path, `${path}.1`)],
    [
      'replaced by another file',
      (path) => writeFile(`${path}.new`, '').then(() => rename(`${path}.new`, path)),
    ],
  ])('goes on at its path when the file is %s', async (_, remove) => {
    const path = join(folder, 'logs', 'm.jsonl');
    const writer = await JsonlWriter.open(path);
    await writer.write(0, { x: 1 });
    await remove(path);
    await writer.write(1, { x: 1 });
    await writer.write(2, { x: 1 });
    expect(await steps(path)).toEqual([1, 2]);
    await writer.close();
  });

  it('starts a line of its own in a file that was put in place of its own', async () => {
    const path = join(folder, 'm.jsonl');
    const writer = await JsonlWriter.open(path);
    await writer.write(0, { x: 1 });
    await writeFile(join(folder, 'new'), '{"step":9,"ts":17');
    await rename(join(folder, 'new'), path);
    await writer.write(1, { x: 1 });
    await writer.close();
    const [torn, line] = await lines(path);
    expect(torn).toBe('{"step":9,"ts":17');
    expect(JSON.parse(line!)).toMatchObject({ step: 1 });
  });

  it('writes the line again when the file is deleted under it', async () => {
    const path = join(folder, 'm.jsonl');
    const file = await JournalFile.open('test', path);
    let times = 0;
    file.append(() => {
      times++;
      if (times === 1) rmSync(path);
      return '{"step":0,"data":{}}\n';
    });
    expect(times).toBe(2);
    expect(await steps(path)).toEqual([0]);
    await file.close();
  });

  it('refuses, and goes on later, where the file cannot be made anew', async () => {
    const path = join(folder, 'logs', 'm.jsonl');
    const writer = await JsonlWriter.open(path);
    await rm(dirname(path), { recursive: true });
    await writeFile(dirname(path), 'a file where the folder was');
    await expect(writer.write(0, { x: 1 })).rejects.toThrow(LogWriteError);
    await rm(dirname(path));
    await writer.write(1, { x: 1 });
    expect(await steps(path)).toEqual([1]);
    await writer.close();
  });

  it('names the file and the remedy where it cannot be opened', async () => {
    await writeFile(join(folder, 'file'), '');
    const under = join(folder, 'file', 'm.jsonl');
    const refusal = await JsonlWriter.open(under).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(LogWriteError);
    expect(refusal).toMatchObject({
      code: 'log_write',
      path: under,
      cause: { code: expect.any(String) as string },
    });
    expect((refusal as Error).message).toContain(under);

    await mkdir(join(folder, 'folder'));
    await expect(JsonlWriter.open(join(folder, 'folder'))).rejects.toThrow(
      /EISDIR; choose a path that is not a folder/,
    );
  });

  it.skipIf(!existsSync('/dev/full'))('says that the disk is full', async () => {
    const writer = await JsonlWriter.open('/dev/full');
    await expect(writer.write(0, { x: 1 })).rejects.toThrow(/\/dev\/full.*ENOSPC; free space/);
    await writer.close();
  });

  it
    .skipIf(!existsSync('/proc/self/stat'))
    .each(['/proc/nope/x.jsonl', '/proc/a/b/c/x.jsonl', '/proc/x.jsonl'])(
    'refuses a folder that cannot be made: %s',
    async (nowhere) => {
      await expect(JsonlWriter.open(nowhere)).rejects.toThrow(LogWriteError);
      await expect(JsonlWriter.open(nowhere)).rejects.toMatchObject({ code: 'log_write', path: nowhere });
    },
  );

  it('makes all folders of its path', async () => {
    const deep = join(folder, 'a/b/c/x.jsonl');
    await (await JsonlWriter.open(deep)).close();
    expect(existsSync(deep)).toBe(true);
  });

  it('keeps the order of 300 writes that nobody awaits, and close() loses none', async () => {
    const path = join(folder, 'm.jsonl');
    const writer = await JsonlWriter.open(path);
    for (let step = 0; step < 300; step++) void writer.write(step, { x: step });
    await writer.close();
    expect(await steps(path)).toEqual(Array.from({ length: 300 }, (_, step) => step));
  });

  it('stays where it was made when the process goes elsewhere', async () => {
    const home = process.cwd();
    try {
      process.chdir(folder);
      const opening = JsonlWriter.open('m.jsonl');
      await mkdir('elsewhere');
      process.chdir('elsewhere');
      const writer = await opening;
      expect(writer.path).toBe(join(await realpath(folder), 'm.jsonl'));
      await writer.write(0, { x: 1 });
      await rm(writer.path);
      await writer.write(1, { x: 1 });
      await writer.close();
    } finally {
      process.chdir(home);
    }
    expect(await steps(join(folder, 'm.jsonl'))).toEqual([1]);
    expect(await readdir(join(folder, 'elsewhere'))).toEqual([]);
  });

  it('starts a line of its own after what another program has left without an end', async () => {
    const path = join(folder, 'm.jsonl');
    const writer = await JsonlWriter.open(path);
    await writer.write(0, { x: 1 });
    await appendFile(path, 'note');
    await writer.write(1, { x: 1 });
    await appendFile(path, 'a line\n');
    await writer.write(2, { x: 1 });
    await writer.close();
    const found = await lines(path);
    expect(found.map((line) => line.slice(0, 9))).toEqual([
      '{"step":0',
      'note',
      '{"step":1',
      'a line',
      '{"step":2',
      '',
    ]);
  });

  it('spells out C1, bidirectional and separating characters, and can be read back', async () => {
    const path = join(folder, 'm.jsonl');
    const key = 'k\u0000\u001b\u007f\u0085\u009b\u2028\u2029\u202e\u200bé';
    const writer = await JsonlWriter.open(path);
    await writer.write(0, { [key]: 1 });
    await writer.close();
    const [line] = await lines(path);
    expect(line).toContain('"k\\u0000\\u001b\\u007f\\u0085\\u009b\\u2028\\u2029\\u202e\\u200bé"');
    expect((await readJournal(path)).commits[0]!.data).toEqual({ [key]: 1 });
  });

  it.each([null, 'append', 3])('refuses %j for what becomes of an existing file', async (existing) => {
    const options = { existing } as unknown as { existing: 'refuse' };
    await expect(JsonlWriter.open(join(folder, 'm.jsonl'), options)).rejects.toThrow(/options.existing/);
    expect(await readdir(folder)).toEqual([]);
  });

  it('refuses to write after it was closed', async () => {
    const writer = await JsonlWriter.open(join(folder, 'm.jsonl'));
    await writer.close();
    await expect(writer.write(0, {})).rejects.toThrow(LogWriteError);
  });
});
