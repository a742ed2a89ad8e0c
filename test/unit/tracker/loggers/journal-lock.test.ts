/** One writer per journal: refused while another one lives, taken over from a dead one, in and between processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Worker, threadId } from 'node:worker_threads';
import { beforeEach, describe, expect, it } from 'vitest';
import { JournalHeldError, JsonlWriter, StatsLogger } from '../../../../src/tracker/index.js';

let folder: string;
let path: string;
let lock: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lock-'));
  path = join(folder, 'm.jsonl');
  lock = `${path}.lock`;
  return () => rm(folder, { recursive: true });
});

const holder = (): Record<string, unknown> =>
  JSON.parse(readFileSync(lock, 'utf8')) as Record<string, unknown>;

/** The content of a lock of this process, with some of it changed. */
async function lockOf(changes: Readonly<Record<string, unknown>>): Promise<string> {
  const writer = await JsonlWriter.open(path);
  const content = JSON.stringify({ ...holder(), ...changes });
  await writer.close();
  writeFileSync(lock, content);
  return content;
}

async function refusalOf(open: Promise<unknown>): Promise<JournalHeldError> {
  const error: unknown = await open.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(JournalHeldError);
  return error as JournalHeldError;
}

/** A process whose id was used and is free again. */
async function deadProcess(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  return child.pid!;
}

describe('a journal', () => {
  it('says who writes it, and no longer after close()', async () => {
    const writer = await JsonlWriter.open(path);
    expect(holder()).toMatchObject({ pid: process.pid, host: hostname() });
    expect(readdirSync(folder)).toEqual(['m.jsonl', 'm.jsonl.lock']);
    await writer.close();
    expect(readdirSync(folder)).toEqual(['m.jsonl']);
  });

  it('refuses a second writer in the process until the first is closed', async () => {
    const first = await JsonlWriter.open(path);
    const error = await refusalOf(JsonlWriter.open(path));
    expect(error).toMatchObject({ code: 'journal_held', path, holder: { pid: process.pid } });
    expect(error.message).toContain('close() the other logger first');
    expect(readdirSync(folder)).toEqual(['m.jsonl', 'm.jsonl.lock']);
    await first.close();
    await (await JsonlWriter.open(path)).close();
  });

  it('refuses a second logger of the trial', async () => {
    const config = { experimentName: 'e', trialName: 't', fileroot: folder, console: false } as const;
    const first = await StatsLogger.create(config);
    await refusalOf(StatsLogger.create(config));
    await first.commit(0, 0, 0, { x: 1 });
    await first.close();
    await (await StatsLogger.create(config)).close();
  });

  it('has one lock for all links to it', async () => {
    const link = join(folder, 'link.jsonl');
    const first = await JsonlWriter.open(path);
    symlinkSync(path, link);
    await refusalOf(JsonlWriter.open(link));
    await first.close();
  });

  it('is free again when it cannot be opened', async () => {
    mkdirSync(path);
    await expect(JsonlWriter.open(path)).rejects.toThrow(/EISDIR/);
    expect(readdirSync(folder)).toEqual(['m.jsonl']);
  });

  it('takes its lock again with its folder', async () => {
    const deep = join(folder, 'logs', 'm.jsonl');
    const writer = await JsonlWriter.open(deep);
    rmSync(dirname(deep), { recursive: true });
    await writer.write(0, { x: 1 });
    await refusalOf(JsonlWriter.open(deep));
    rmSync(dirname(deep), { recursive: true });
    const other = await JsonlWriter.open(deep);
    await refusalOf(writer.write(1, { x: 1 })); // what is there now is the other's
    await other.close();
    await writer.write(2, { x: 1 });
    await writer.close();
  });
});

describe('the lock', () => {
  it('of a process that has ended is taken over', async () => {
    await lockOf({ pid: await deadProcess() });
    const writer = await JsonlWriter.open(path);
    expect(holder().pid).toBe(process.pid);
    await writer.close();
    expect(readdirSync(folder)).toEqual(['m.jsonl']);
  });

  it.skipIf(!existsSync('/proc/self/stat'))(
    'of a process whose id another one has now is taken over',
    async () => {
      await lockOf({ started: '1' });
      await (await JsonlWriter.open(path)).close();
    },
  );

  it.skipIf(!existsSync('/proc/self/stat'))('from before the machine booted is taken over', async () => {
    await lockOf({ boot: 'another', pid: process.ppid });
    await (await JsonlWriter.open(path)).close();
  });

  it.each([
    ['of another host', { host: 'trainer-7' }, /process \d+ on trainer-7 writes.*delete .*m\.jsonl\.lock/],
    ['of another container', { namespace: 'pid:[1]' }, /if that process has ended, delete/],
    ['of a process that runs', { pid: process.ppid, started: undefined }, /process \d+ on/],
    ['with control characters', { host: '\u001b[2Jx' }, /on \\u001b\[2Jx/],
  ])('%s is refused with the remedy', async (_, changes, message) => {
    const content = await lockOf(changes);
    expect((await refusalOf(JsonlWriter.open(path))).message).toMatch(message);
    expect(readFileSync(lock, 'utf8')).toBe(content);
    rmSync(lock);
    await (await JsonlWriter.open(path)).close();
  });

  it.each([
    '',
    'text',
    'null',
    '{"pid":0,"host":"h"}',
    '{"pid":"1","host":"h"}',
    '{"pid":1,"host":"h","boot":7}',
    '{"pid":1,"host":"h","task":{"id":"1"}}',
    '{"pid":1,"host":"h","task":null}',
  ])('that says nothing is refused with the remedy: %j', async (content) => {
    writeFileSync(lock, content);
    expect((await refusalOf(JsonlWriter.open(path))).message).toMatch(/says nothing.*delete/);
  });

  it('that is a link or a folder is not followed', async () => {
    writeFileSync(join(folder, 'target'), JSON.stringify({ pid: await deadProcess(), host: hostname() }));
    symlinkSync(join(folder, 'target'), lock);
    await refusalOf(JsonlWriter.open(path));
    rmSync(lock);
    mkdirSync(lock);
    await refusalOf(JsonlWriter.open(path));
  });

  it('whose taker died in the middle is taken over', async () => {
    const pid = await deadProcess();
    const content = await lockOf({ pid });
    // The claim of another dead process on the dead process's lock.
    const { createHash } = await import('node:crypto');
    const name = createHash('sha256').update(content).digest('hex').slice(0, 8);
    writeFileSync(`${lock}.${name}`, JSON.stringify({ ...(JSON.parse(content) as object), id: 'claim' }));
    const writer = await JsonlWriter.open(path);
    await writer.close();
    expect(readdirSync(folder)).toEqual(['m.jsonl']);
  });

  it('that somebody else has taken since stays on close()', async () => {
    const writer = await JsonlWriter.open(path);
    writeFileSync(lock, 'theirs');
    await writer.close();
    expect(readFileSync(lock, 'utf8')).toBe('theirs');
  });
});

describe('between processes and threads', () => {
  /** The lock alone, as plain JavaScript: a child needs no build of the package. */
  async function compiled(): Promise<string> {
    const ts = (await import('typescript')).default;
    const root = join(import.meta.dirname, '../../../../src/tracker/loggers/journal');
    const to = join(folder, 'js');
    mkdirSync(to);
    writeFileSync(join(to, 'package.json'), '{"type":"module"}');
    for (const name of ['lock', 'process-identity']) {
      const { outputText } = ts.transpileModule(readFileSync(join(root, `${name}.ts`), 'utf8'), {
        compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
      });
      writeFileSync(join(to, `${name}.js`), outputText.replace('../errors.js', './errors.js'));
    }
    writeFileSync(join(to, 'errors.js'), 'export class JournalHeldError extends Error {}');
    return to;
  }

  const script = (to: string): string =>
    `import { JournalLock } from ${JSON.stringify(join(to, 'lock.js'))};
     try { JournalLock.take(${JSON.stringify(lock)}, 'm'); process.stdout.write('taken'); } catch { process.stdout.write('refused'); }
     if (process.argv[2] !== 'end') setInterval(() => {}, 1000);`;

  async function child(to: string, ...words: string[]): Promise<{ process: ChildProcess; said: string }> {
    writeFileSync(join(to, 'main.js'), script(to));
    const started = spawn(process.execPath, [join(to, 'main.js'), ...words], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [said] = (await once(started.stdout, 'data')) as [Buffer];
    return { process: started, said: said.toString() };
  }

  it('is held while a process lives, and taken over after SIGKILL', async () => {
    const { process: first, said } = await child(await compiled());
    expect(said).toBe('taken');
    expect((await refusalOf(JsonlWriter.open(path))).holder?.pid).toBe(first.pid);
    first.kill('SIGKILL');
    await once(first, 'exit');
    const writer = await JsonlWriter.open(path);
    expect(holder().pid).toBe(process.pid);
    await writer.close();
  });

  it('is given back by a process that ends without close()', async () => {
    const { process: first } = await child(await compiled(), 'end');
    if (first.exitCode === null) await once(first, 'exit');
    expect(existsSync(lock)).toBe(false);
  });

  it('goes to one of eight processes that find a dead holder at once', async () => {
    const to = await compiled();
    await lockOf({ pid: await deadProcess() });
    const children = await Promise.all(Array.from({ length: 8 }, () => child(to)));
    const taken = children.filter(({ said }) => said === 'taken');
    for (const { process: one } of children) one.kill('SIGKILL');
    await Promise.all(children.map(async ({ process: one }) => one.exitCode ?? once(one, 'exit')));
    expect(taken).toHaveLength(1);
    expect(holder().pid).toBe(taken[0]!.process.pid);
    expect(readdirSync(folder).sort()).toEqual(['js', 'm.jsonl', 'm.jsonl.lock']);
  });

  it('is held against another thread, which gives it back when it ends', async () => {
    const to = await compiled();
    const source = `const { parentPort } = require('node:worker_threads');
      import(${JSON.stringify(`file://${join(to, 'lock.js')}`)}).then(({ JournalLock }) => {
        JournalLock.take(${JSON.stringify(lock)}, 'm');
        parentPort.once('message', () => {});
        parentPort.postMessage('taken');
      });`;
    const worker = new Worker(source, { eval: true });
    await once(worker, 'message');
    expect((await refusalOf(JsonlWriter.open(path))).message).toMatch(/this process writes, in thread \d+/);
    worker.postMessage('end');
    await once(worker, 'exit');
    await (await JsonlWriter.open(path)).close();
  });

  it.skipIf(!existsSync('/proc/thread-self'))(
    'is taken over from a thread that was terminated, and not from one that lives',
    async () => {
      const source = `import(${JSON.stringify(`file://${join(await compiled(), 'lock.js')}`)}).then(({ JournalLock }) => {
          const { parentPort } = require('node:worker_threads');
          JournalLock.take(${JSON.stringify(lock)}, 'm');
          parentPort.once('message', () => {});
          parentPort.postMessage('taken');
        });`;
      const worker = new Worker(source, { eval: true });
      await once(worker, 'message');
      const { message } = await refusalOf(JsonlWriter.open(path));
      expect(message).toContain(`if that thread has ended, delete ${lock}`);
      await worker.terminate();
      const writer = await JsonlWriter.open(path);
      expect(holder()).toMatchObject({ thread: threadId });
      await refusalOf(JsonlWriter.open(path));
      await writer.close();
    },
  );

  it('names the file to delete where the thread of a lock cannot be looked up', async () => {
    await lockOf({ thread: 77, task: undefined });
    expect((await refusalOf(JsonlWriter.open(path))).message).toContain(`delete ${lock}`);
    rmSync(lock);
    await (await JsonlWriter.open(path)).close();
  });
});
