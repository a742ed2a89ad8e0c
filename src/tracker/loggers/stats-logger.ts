/**
 * One commit to all destinations: the step rules, the order and the isolation of failures.
 */
import { join } from 'node:path';
import { ValueError } from '../../errors.js';
import { assertNamed, assertOptions, kindOf, messageOf } from '../../kernels/arguments.js';
import { assertNumbers, assertWhole } from './commit.js';
import { type ConsoleOptions, ConsoleWriter } from './console.js';
import { CommitError } from './errors.js';
import { JsonlWriter } from './jsonl.js';
import type { CommitPoint, StatsWriter } from './logger.js';

export interface StatsLoggerConfig {
  readonly experimentName: string;
  readonly trialName: string;
  /** Folder of all experiments; files go to `{fileroot}/logs/{experimentName}/{trialName}`. */
  readonly fileroot: string;
  /** Tables on the terminal; default true. */
  readonly console?: boolean | ConsoleOptions;
  /** A journal of all commits, `metrics.jsonl` in the folder of the trial unless `path` is given; default true. */
  readonly jsonl?: boolean | { readonly path?: string };
  /** Further destinations, closed with the logger. */
  readonly writers?: readonly StatsWriter[];
}

/** What survives a restart. */
export interface StatsLoggerState {
  /** Global step of the last commit; −1 before the first. */
  readonly lastCommitStep: number;
}

/** The built-in destinations: how each is made from its part of the config. Adding one is adding a row. */
const BUILT_IN: readonly ((config: StatsLoggerConfig, folder: string) => Promise<StatsWriter> | undefined)[] =
  [
    ({ console: options = true }) =>
      options === false ? undefined : Promise.resolve(new ConsoleWriter(options === true ? {} : options)),
    ({ jsonl: options = true }, folder) => {
      if (options === false) return undefined;
      const { path } = options === true ? {} : jsonlOptions(options);
      return JsonlWriter.open(path ?? join(folder, 'metrics.jsonl'));
    },
  ];

export class StatsLogger {
  /** Folder of the trial. */
  readonly folder: string;
  readonly #writers: readonly StatsWriter[];
  #lastCommitStep = -1;
  /** Settles when all commits so far have been tried. */
  #tail: Promise<unknown> = Promise.resolve();
  #closed: Promise<void> | undefined;

  private constructor(folder: string, writers: readonly StatsWriter[]) {
    this.folder = folder;
    this.#writers = writers;
  }

  /**
   * Opens all destinations.
   *
   * @throws MissingInputError without a config, ValueError for what it cannot use of it; LogWriteError if a file
   *   cannot be written
   */
  static async create(config: StatsLoggerConfig): Promise<StatsLogger> {
    assertNamed('StatsLogger.create', 'config', config, {
      expected: 'an object with experimentName, trialName and fileroot',
      remedy: 'call it as StatsLogger.create({ experimentName, trialName, fileroot })',
    });
    const { writers = [] } = config;
    assertWriters(writers);
    const experiment = folderName('experimentName', config.experimentName);
    const trial = folderName('trialName', config.trialName);
    const folder = join(text('fileroot', config.fileroot), 'logs', experiment, trial);
    const opened: StatsWriter[] = [];
    try {
      for (const make of BUILT_IN) {
        const writer = await make(config, folder);
        if (writer !== undefined) opened.push(writer);
      }
    } catch (error) {
      await Promise.allSettled(opened.map(async (writer) => writer.close()));
      throw error;
    }
    return new StatsLogger(folder, [...opened, ...writers]);
  }

  /**
   * Writes one export to all destinations, after the commits before it.
   *
   * All destinations are tried. The step counts as committed even if some fail: writing it again would repeat it in
   * the others.
   *
   * @param step within the epoch
   * @param globalStep grows from commit to commit; the first may be 0
   * @throws MissingInputError without data; ValueError for a step that does not grow, for data that is not numbers, and
   *   after `close`
   * @throws CommitError with what each failing destination threw
   */
  async commit(
    epoch: number,
    step: number,
    globalStep: number,
    data: Readonly<Record<string, number>>,
  ): Promise<void> {
    const where = 'StatsLogger.commit';
    for (const [input, value] of Object.entries({ epoch, step, globalStep }))
      assertWhole(where, input, value);
    const point: CommitPoint = { epoch, step };
    if (this.#closed !== undefined) {
      throw invalid('commit', 'logger', 'an open logger', 'a closed one', 'commit before close()');
    }
    if (globalStep <= this.#lastCommitStep) {
      throw invalid(
        'commit',
        'globalStep',
        `more than ${String(this.#lastCommitStep)}, the step of the last commit`,
        String(globalStep),
        'put all statistics of a step into one commit',
      );
    }
    assertNumbers(where, data);
    // A copy: the write may come later, when the caller has changed its record.
    const record = { ...data };
    this.#lastCommitStep = globalStep;
    const attempt = this.#tail.then(() =>
      this.#each('commit', async (writer) => writer.write(globalStep, record, point)),
    );
    this.#tail = attempt.catch(() => undefined);
    return attempt;
  }

  /** What to save with a checkpoint. */
  stateDict(): StatsLoggerState {
    return { lastCommitStep: this.#lastCommitStep };
  }

  /**
   * Continues where a saved state ended.
   *
   * @throws MissingInputError or ValueError for anything that `stateDict` does not return
   */
  loadStateDict(state: StatsLoggerState): void {
    assertNamed('StatsLogger.loadStateDict', 'state', state, {
      expected: 'an object with lastCommitStep',
      remedy: 'pass what stateDict() returned',
    });
    const { lastCommitStep } = state;
    if (!Number.isSafeInteger(lastCommitStep) || lastCommitStep < -1) {
      throw invalid(
        'loadStateDict',
        'lastCommitStep',
        'a step, or -1',
        kindOf(lastCommitStep),
        'pass what stateDict() returned',
      );
    }
    this.#lastCommitStep = lastCommitStep;
  }

  /**
   * Waits for all commits and closes all destinations; again, it does nothing.
   *
   * @throws CommitError with what each failing destination threw
   */
  close(): Promise<void> {
    this.#closed ??= this.#tail.then(() => this.#each('close', async (writer) => writer.close()));
    return this.#closed;
  }

  async #each(where: string, act: (writer: StatsWriter) => Promise<void>): Promise<void> {
    const outcomes = await Promise.allSettled(this.#writers.map(act));
    const failures = outcomes.flatMap((outcome, i) =>
      outcome.status === 'rejected' ? [{ name: this.#writers[i]!.name, error: asError(outcome.reason) }] : [],
    );
    if (failures.length === 0) return;
    throw new CommitError(
      {
        where: `StatsLogger.${where}`,
        expected: `all ${String(this.#writers.length)} destinations to succeed`,
        received: failures.map(({ name, error }) => `a failure of ${name} (${error.message})`).join(' and '),
        remedy: 'see errors for each of them; the others have everything',
      },
      failures.map(({ error }) => error),
    );
  }
}

function jsonlOptions(options: { readonly path?: string }): { readonly path?: string } {
  assertOptions('StatsLogger.create', options, { path: 'string' }, 'jsonl');
  return options;
}

function assertWriters(writers: unknown): void {
  const remedy = 'pass an array of objects with name, write() and close()';
  if (!Array.isArray(writers)) throw invalid('create', 'writers', 'an array', kindOf(writers), remedy);
  writers.forEach((writer: Partial<StatsWriter> | null | undefined, i) => {
    if (typeof writer?.write === 'function' && typeof writer.close === 'function') return;
    throw invalid('create', `writers[${i}]`, 'a StatsWriter', kindOf(writer), remedy);
  });
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(messageOf(reason), { cause: reason });
}

function invalid(
  where: string,
  input: string,
  expected: string,
  received: string,
  remedy: string,
): ValueError {
  return new ValueError({ where: `StatsLogger.${where}`, input, expected, received, remedy });
}

function text(input: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw invalid('create', input, 'a text', kindOf(value), 'set it in the config');
}

/** One level of a path, so that no name can lead out of the folder of the logs. */
function folderName(input: string, value: unknown): string {
  const name = text(input, value);
  if (!/[/\\\0]/.test(name) && name !== '.' && name !== '..') return name;
  throw invalid('create', input, 'a name without slashes', `'${name}'`, 'use one folder name');
}
