/** A journal over several runs: what a resumed run supersedes is marked, and what reads it applies the marks. */
import { appendFile, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { ValueError } from '../../../../src/errors.js';
import { CaughtWarnings } from '../warnings.js';
import { JsonlWriter, LogReadError, StatsLogger, readJournal } from '../../../../src/tracker/index.js';

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'journal-'));
  path = join(folder, 'm.jsonl');
  return () => rm(folder, { recursive: true });
});

/** One run: opens the journal, commits steps, closes. */
async function run(...steps: number[]): Promise<void> {
  const writer = await JsonlWriter.open(path, { now: () => 7 });
  for (const step of steps) await writer.write(step, { x: step });
  await writer.close();
}

async function logged(from: number | undefined, ...steps: number[]): Promise<void> {
  const logger = await StatsLogger.create({
    experimentName: 'e',
    trialName: 't',
    fileroot: folder,
    console: false,
    jsonl: { path },
  });
  if (from !== undefined) logger.loadStateDict({ lastCommitStep: from });
  for (const step of steps) await logger.commit(0, step, step, { x: step });
  await logger.close();
}

async function kinds(): Promise<unknown[]> {
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
  return lines.map((line) => {
    const { kind, from, step } = JSON.parse(line) as { kind?: string; from?: number; step?: number };
    return kind === undefined ? step : `${kind} ${String(from)}`;
  });
}

describe('a run in a journal that has commits', () => {
  it('goes on without a mark where its steps are new', async () => {
    await run(0, 1);
    await run(2, 3);
    expect(await kinds()).toEqual([0, 1, 2, 3]);
  });

  it.each([
    ['from the beginning', [0, 1], 0],
    ['from a checkpoint', [2, 3], 2],
    ['with the last step again', [3], 3],
  ])('marks what it supersedes: %s', async (_, again, from) => {
    await run(0, 1, 2, 3);
    await run(...again);
    expect(await kinds()).toEqual([0, 1, 2, 3, `resume ${String(from)}`, ...again]);
    const { commits, superseded } = await readJournal(path);
    expect(commits.map(({ step }) => step)).toEqual([...[0, 1, 2, 3].slice(0, from), ...again]);
    expect(superseded.map(({ step }) => step)).toEqual([0, 1, 2, 3].slice(from));
  });

  it('marks where a loaded state goes on, also where the next commit is later', async () => {
    await logged(undefined, 0, 1, 2, 3);
    await logged(1, 4);
    expect(await kinds()).toEqual([0, 1, 2, 3, 'resume 2', 4]);
    expect((await readJournal(path)).commits.map(({ step }) => step)).toEqual([0, 1, 4]);
  });

  it('marks a state that is loaded in the middle of a run', async () => {
    const logger = await StatsLogger.create({
      experimentName: 'e',
      trialName: 't',
      fileroot: folder,
      console: false,
      jsonl: { path },
    });
    for (const step of [0, 1, 2]) await logger.commit(0, step, step, { x: step });
    logger.loadStateDict({ lastCommitStep: 0 });
    await logger.commit(0, 1, 1, { x: 10 });
    await logger.commit(0, 2, 2, { x: 20 });
    await logger.close();
    expect(await kinds()).toEqual([0, 1, 2, 'resume 1', 1, 2]);
  });

  it('marks the second run of a trial', async () => {
    await logged(undefined, 0, 1);
    await logged(undefined, 0);
    expect(await kinds()).toEqual([0, 1, 'resume 0', 0]);
  });

  it('finds the last step behind long lines, torn ones and ones of other kinds', async () => {
    const long = JSON.stringify({ step: 5, data: { ['k'.repeat(200_000)]: 1 } });
    const other = JSON.stringify({ kind: 'config', text: 'x'.repeat(100_000) });
    await writeFile(path, `{"step":0,"data":{}}\n${long}\n${other}\nnot json\n{"step":9,"ts":`);
    await run(5);
    expect((await readFile(path, 'utf8')).split('\n').slice(-3)).toEqual([
      '{"kind":"resume","from":5,"ts":7}',
      '{"step":5,"ts":7,"data":{"x":5}}',
      '',
    ]);
  });

  it.each([
    ['lacks its line break', '{"step":4,"ts":1,"data":{}}\n{"step":5,"ts":1,"data":{"a":1}}', 5, [4, 5], [5]],
    ['ends as on Windows', '{"step":4,"ts":1,"data":{}}\r\n{"step":7,"ts":1,"data":{}}\r\n', 2, [2], [4, 7]],
    ['has its time first', '{"ts":1,"step":7,"data":{}}\n', 2, [2], [7]],
    ['has all of these', '{"ts":1,"epoch":0,"epochStep":0,"step":7,"data":{"x":"NaN"}}\r', 7, [7], [7]],
    ['is cut short', '{"step":4,"ts":1,"data":{}}\n{"step":5,"ts":1,"data":{"a":1}', 5, [4, 5], []],
    ['is no commit', '{"step":4,"ts":1,"data":{}}\n{"step":9,"ts":1,"data":{"a":null}}\n', 5, [4, 5], []],
  ])('takes for its last line what readJournal does: one that %s', async (_, content, step, steps, void_) => {
    await writeFile(path, content);
    await run(step);
    const { commits, superseded } = await readJournal(path);
    expect(commits.map((commit) => commit.step)).toEqual(steps);
    expect(superseded.map((commit) => commit.step)).toEqual(void_);
    expect(commits.at(-1)!.data).toEqual({ x: step });
  });

  describe('and a state that is loaded', () => {
    async function warningsOf(...given: Parameters<typeof logged>): Promise<string[]> {
      const warnings = new CaughtWarnings();
      try {
        await logged(...given);
      } finally {
        warnings.stop();
      }
      return warnings.of('TENSORTALLY_JOURNAL');
    }

    it('is warned of once where the journal ends before it', async () => {
      await run(18, 19);
      expect(await warningsOf(30, 31, 32)).toEqual([
        expect.stringMatching(/m\.jsonl ends at step 19, and the run goes on after step 30/),
      ]);
      expect((await readJournal(path)).commits.map(({ step }) => step)).toEqual([18, 19, 31, 32]);
    });

    it('is warned of where the journal has nothing', async () => {
      expect(await warningsOf(30, 31)).toEqual([expect.stringContaining('has no commits')]);
    });

    it.each([
      ['ends there', 19],
      ['went on', 18],
      ['begins anew', -1],
    ])('is not warned of where the journal %s', async (__, from) => {
      await run(18, 19);
      expect(await warningsOf(from, 20)).toEqual([]);
    });
  });

  it('writes the mark that a failed commit could not write with the next one', async () => {
    await run(0, 1);
    const writer = await JsonlWriter.open(path, { now: () => 7 });
    writer.resume(1);
    await expect(writer.write(1, { x: 'no' as unknown as number })).rejects.toThrow(ValueError);
    await writer.write(1, { x: 1 });
    await writer.write(2, { x: 2 });
    await writer.close();
    expect(await kinds()).toEqual([0, 1, 'resume 1', 1, 2]);
  });
});

describe("existing: 'refuse'", () => {
  it('refuses a trial that has a journal, and leaves it as it was', async () => {
    const config = { experimentName: 'e', trialName: 't', fileroot: folder, console: false } as const;
    const first = await StatsLogger.create({ ...config, jsonl: { existing: 'refuse' } });
    await first.commit(0, 12, 12, { x: 1 });
    await first.close();
    const again = StatsLogger.create({ ...config, jsonl: { existing: 'refuse' } });
    await expect(again).rejects.toThrow(ValueError);
    await expect(again).rejects.toThrow(/ends at step 12; choose another path or trialName/);
    expect(await readdir(first.folder)).toEqual(['metrics.jsonl']);
    expect((await readFile(join(first.folder, 'metrics.jsonl'), 'utf8')).split('\n')).toHaveLength(2);
  });

  it('takes a file that is empty', async () => {
    await writeFile(path, '');
    const writer = await JsonlWriter.open(path, { existing: 'refuse' });
    await writer.close();
  });
});

describe('readJournal', () => {
  it('gives back what was committed', async () => {
    const data = { a: 0.1, n: NaN, p: Infinity, m: -Infinity, ['__proto__']: 3, a__count: 2 ** 53 - 1 };
    const writer = await JsonlWriter.open(path, { now: () => 7 });
    await writer.write(3, data, { epoch: 1, step: 2 });
    await writer.close();
    const { commits, superseded, unreadable } = await readJournal(path);
    expect(commits).toEqual([{ step: 3, ts: 7, epoch: 1, epochStep: 2, data }]);
    expect(Object.keys(commits[0]!.data)).toEqual(Object.keys(data));
    expect(superseded).toEqual([]);
    expect(unreadable).toBe(0);
  });

  it('skips kinds that it does not know and counts what it cannot read', async () => {
    const lines = [
      '{"step":0,"data":{"x":1}}',
      '{"kind":"config","data":{"x":"y"}}',
      '{"step":1,"ts":17',
      'null',
      '[]',
      '{"kind":7}',
      '{"step":-1,"data":{}}',
      '{"step":2,"data":{"x":"text"}}',
      '{"step":2,"data":null}',
      '{"kind":"resume","from":"0"}',
      '',
      '{"step":3,"data":{"x":2}}\r',
      '{"step":4,"data":{"\u2028":2}}',
      '{"step":5,"da',
    ];
    await writeFile(path, lines.join('\n'));
    const { commits, unreadable } = await readJournal(path);
    expect(commits.map(({ step }) => step)).toEqual([0, 3, 4]);
    expect(unreadable).toBe(9);
  });

  it('applies nested resumptions, and reads lines longer than a chunk', async () => {
    const commit = (step: number, x: number): string =>
      JSON.stringify({ step, data: { x, ['k'.repeat(150_000)]: 1 } });
    const mark = (from: number): string => JSON.stringify({ kind: 'resume', from });
    const lines = [
      commit(0, 0),
      commit(1, 0),
      commit(2, 0),
      mark(2),
      commit(2, 1),
      mark(1),
      commit(1, 2),
      mark(5),
    ];
    await writeFile(path, lines.map((line) => `${line}\n`).join(''));
    const { commits, superseded } = await readJournal(path);
    expect(commits.map(({ step, data }) => [step, data.x])).toEqual([
      [0, 0],
      [1, 2],
    ]);
    expect(superseded.map(({ step, data }) => [step, data.x])).toEqual([
      [1, 0],
      [2, 0],
      [2, 1],
    ]);
  });

  it('reads while it is written', async () => {
    const writer = await JsonlWriter.open(path);
    await writer.write(0, { x: 1 });
    await appendFile(path, '{"step":1,"da');
    expect(await readJournal(path)).toMatchObject({ commits: [{ step: 0 }], unreadable: 1 });
    await writer.close();
  });

  it('names a file that it cannot read', async () => {
    await expect(readJournal(path)).rejects.toThrow(LogReadError);
    await expect(readJournal(folder)).rejects.toThrow(/EISDIR/);
    await expect(readJournal('')).rejects.toThrow(ValueError);
  });
});
