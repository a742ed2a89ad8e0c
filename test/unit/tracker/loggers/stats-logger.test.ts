/** Commits: growing steps, all destinations tried, state that survives a restart. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { ValueError } from '../../../../src/errors.js';
import {
  CommitError,
  LogWriteError,
  StatsLogger,
  type StatsLoggerConfig,
  type StatsWriter,
} from '../../../../src/tracker/index.js';

let fileroot: string;

beforeEach(async () => {
  fileroot = await mkdtemp(join(tmpdir(), 'stats-logger-'));
  return () => rm(fileroot, { recursive: true });
});

/** Keeps what it is given; fails on demand. */
class Memory implements StatsWriter {
  readonly written: unknown[] = [];
  closed = 0;
  failure: Error | undefined;

  constructor(readonly name: string) {}

  write(...commit: Parameters<StatsWriter['write']>): void {
    if (this.failure !== undefined) throw this.failure;
    this.written.push(commit);
  }

  close(): Promise<void> {
    this.closed++;
    return this.failure === undefined ? Promise.resolve() : Promise.reject(this.failure);
  }
}

function create(config: Partial<StatsLoggerConfig> = {}): Promise<StatsLogger> {
  return StatsLogger.create({
    experimentName: 'exp',
    trialName: 'trial',
    fileroot,
    console: false,
    jsonl: false,
    ...config,
  });
}

describe('create', () => {
  it('puts the journal into the folder of the trial', async () => {
    const logger = await create({ jsonl: true });
    expect(logger.folder).toBe(join(fileroot, 'logs', 'exp', 'trial'));
    await logger.commit(0, 0, 0, { x: NaN });
    await logger.close();
    const text = await readFile(join(logger.folder, 'metrics.jsonl'), 'utf8');
    expect(JSON.parse(text)).toMatchObject({ step: 0, data: { x: 'NaN' } });
  });

  it('takes another path, and prints to a given stream', async () => {
    const path = join(fileroot, 'elsewhere.jsonl');
    let printed = '';
    const logger = await create({
      jsonl: { path },
      console: { stream: { write: (text: string) => (printed += text) } },
    });
    await logger.commit(2, 3, 4, { x: 1 });
    await logger.close();
    expect(printed).toContain('step 4 (epoch 2, step 3)');
    expect(await readFile(path, 'utf8')).toContain('"step":4');
  });

  it.each([
    { experimentName: '' },
    { trialName: undefined as unknown as string },
    { trialName: '../up' },
    { experimentName: '..' },
    { fileroot: '' },
  ])('refuses %o', async (config) => {
    await expect(create(config)).rejects.toThrow(ValueError);
  });

  it.skipIf(!existsSync('/proc/self/stat'))('refuses a folder that cannot be made', async () => {
    await expect(create({ fileroot: '/proc/x', jsonl: true })).rejects.toThrow(LogWriteError);
  });

  it.each([
    ['Console', 'console'],
    ['csv', 'experimentName, trialName, fileroot, console, jsonl, writers'],
    ['experiment_name', 'experimentName'],
    ['trial_name', 'trialName'],
    ['file_root', 'fileroot'],
    ['writer', 'writers'],
  ])('refuses the option %s, and names %s', async (name, meant) => {
    const refusal: unknown = await create({ [name]: true }).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ValueError);
    expect((refusal as ValueError).message).toContain(`config.${name}`);
    expect((refusal as ValueError).message).toContain(name === 'csv' ? meant : `did you mean ${meant}?`);
  });

  it('tells which file it cannot open', async () => {
    await expect(create({ jsonl: { path: fileroot } })).rejects.toThrow(LogWriteError);
  });
});

describe('commit', () => {
  it('takes growing steps only, from 0', async () => {
    const memory = new Memory('memory');
    const logger = await create({ writers: [memory] });
    await logger.commit(0, 0, 0, { x: 1 });
    await expect(logger.commit(0, 0, 0, { x: 2 })).rejects.toThrow(
      /more than 0, the step of the last commit, got 0;/,
    );
    await expect(logger.commit(0, 0, 1.5, {})).rejects.toThrow(ValueError);
    await expect(logger.commit(-1, 0, 2, {})).rejects.toThrow(ValueError);
    await expect(logger.commit(0, NaN, 2, {})).rejects.toThrow(ValueError);
    await expect(logger.commit(0, 1, 2, { x: null as unknown as number })).rejects.toThrow(ValueError);
    await logger.commit(0, 1, 7, { x: 3 });
    expect(memory.written).toEqual([
      [0, { x: 1 }, { epoch: 0, step: 0 }],
      [7, { x: 3 }, { epoch: 0, step: 1 }],
    ]);
  });

  it('reaches the other destinations when some fail, and tells what each one threw', async () => {
    const [first, second, third] = [new Memory('first'), new Memory('second'), new Memory('third')];
    first.failure = new Error('no network');
    third.failure = new Error('no space');
    const logger = await create({ writers: [first, second, third] });
    const refusal = await logger.commit(0, 0, 0, { x: 1 }).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(CommitError);
    expect(refusal).toMatchObject({ code: 'commit', errors: [first.failure, third.failure] });
    expect((refusal as Error).message).toMatch(/first \(no network\) and a failure of third \(no space\)/);
    expect(second.written).toHaveLength(1);
    await expect(logger.close()).rejects.toThrow(CommitError);
    expect([first, second, third].map(({ closed }) => closed)).toEqual([1, 1, 1]);
  });

  it('goes on after a failed one, in order, without waiting to be awaited', async () => {
    const memory = new Memory('memory');
    const logger = await create({ writers: [memory] });
    memory.failure = new Error('once');
    const failing = logger.commit(0, 0, 0, { x: 1 });
    await expect(failing).rejects.toThrow(CommitError);
    memory.failure = undefined;
    const data = { x: 2 };
    const commits = [logger.commit(0, 1, 1, data), logger.commit(0, 2, 2, { x: 3 })];
    data.x = 99;
    await logger.close();
    await Promise.all(commits);
    expect(memory.written).toEqual([
      [1, { x: 2 }, { epoch: 0, step: 1 }],
      [2, { x: 3 }, { epoch: 0, step: 2 }],
    ]);
  });

  it('is in the journal and on the console when the call returns, in a loop that never yields', async () => {
    let printed = 0;
    const logger = await create({
      jsonl: true,
      console: { stream: { write: () => ++printed } },
      writers: [new Memory('memory')],
    });
    const commits = [];
    for (let step = 0; step < 250; step++) {
      commits.push(logger.commit(0, step, step, { x: step }));
      const text = readFileSync(join(logger.folder, 'metrics.jsonl'), 'utf8');
      expect(text.split('\n')).toHaveLength(step + 2);
      expect(printed).toBe(step + 1);
    }
    await logger.close();
    await Promise.all(commits);
  });

  it('does not wait for a destination that is slow before it reaches the journal', async () => {
    let proceed = (): void => undefined;
    const seen: number[] = [];
    const slow: StatsWriter = {
      name: 'slow',
      write: (step) => {
        seen.push(step);
        return new Promise((resolve) => (proceed = resolve));
      },
      close: () => void seen.push(-1),
    };
    const logger = await create({ jsonl: true, writers: [slow] });
    const commits = [logger.commit(0, 0, 0, { x: 1 }), logger.commit(0, 1, 1, { x: 1 })];
    const closed = logger.close();
    await vi.waitFor(() => {
      expect(seen).toEqual([0]); // one at a time
    });
    expect(readFileSync(join(logger.folder, 'metrics.jsonl'), 'utf8').split('\n')).toHaveLength(3);
    proceed();
    await vi.waitFor(() => {
      expect(seen).toEqual([0, 1]);
    });
    proceed();
    await closed;
    await Promise.all(commits);
    expect(seen).toEqual([0, 1, -1]);
  });

  it('goes to the folder that a relative fileroot was when the logger was made', async () => {
    const home = process.cwd();
    try {
      process.chdir(fileroot);
      const opening = create({ fileroot: 'runs', jsonl: true });
      process.chdir('/');
      const logger = await opening;
      await logger.commit(0, 0, 0, { x: 1 });
      await logger.close();
      expect(logger.folder).toBe(join(realpathSync(fileroot), 'runs', 'logs', 'exp', 'trial'));
      expect(existsSync(join(logger.folder, 'metrics.jsonl'))).toBe(true);
    } finally {
      process.chdir(home);
    }
  });

  it('is refused after close, which can be called again', async () => {
    const memory = new Memory('memory');
    const logger = await create({ writers: [memory] });
    await logger.close();
    await logger.close();
    expect(memory.closed).toBe(1);
    await expect(logger.commit(0, 0, 0, {})).rejects.toThrow(ValueError);
  });
});

describe('stateDict', () => {
  it('tells destinations where the run goes on, before the next commit and once', async () => {
    const calls: unknown[] = [];
    const writer: StatsWriter = {
      name: 'calls',
      write: (step) => void calls.push(step),
      resume: (from) => void calls.push(`from ${String(from)}`),
      close: () => undefined,
    };
    const logger = await create({ writers: [writer, new Memory('cannot tell')] });
    logger.loadStateDict({ lastCommitStep: 7 });
    await expect(logger.commit(0, 7, 7, {})).rejects.toThrow(ValueError);
    await logger.commit(0, 9, 9, {});
    await logger.commit(0, 10, 10, {});
    expect(calls).toEqual(['from 8', 9, 10]);
    await logger.close();
  });

  it('carries the step over a restart', async () => {
    const before = await create();
    expect(before.stateDict()).toEqual({ lastCommitStep: -1 });
    await before.commit(0, 0, 41, {});
    const after = await create();
    after.loadStateDict(JSON.parse(JSON.stringify(before.stateDict())) as { lastCommitStep: number });
    await expect(after.commit(0, 0, 41, {})).rejects.toThrow(ValueError);
    await after.commit(0, 0, 42, {});
    expect(after.stateDict()).toEqual({ lastCommitStep: 42 });
    expect(() => {
      after.loadStateDict({ lastCommitStep: -2 });
    }).toThrow(ValueError);
    expect(() => {
      after.loadStateDict({} as { lastCommitStep: number });
    }).toThrow(ValueError);
  });
});
