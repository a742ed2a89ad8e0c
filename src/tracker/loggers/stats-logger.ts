/**
 * One commit to all destinations: the step rules, the order and the isolation of failures.
 */
import { join } from 'node:path';
import { ValueError } from '../../errors.js';
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
    ({ jsonl: options = true }, folder) =>
      options === false
        ? undefined
        : JsonlWriter.open((options === true ? undefined : options.path) ?? join(folder, 'metrics.jsonl')),
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
   * @throws ValueError for a missing or unusable name; LogWriteError if a file cannot be written
   */
  static async create(config: StatsLoggerConfig): Promise<StatsLogger> {
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
    return new StatsLogger(folder, [...opened, ...(config.writers ?? [])]);
  }

  /**
   * Writes one export to all destinations, after the commits before it.
   *
   * All destinations are tried. The step counts as committed even if some fail: writing it again would repeat it in
   * the others.
   *
   * @param step within the epoch
   * @param globalStep grows from commit to commit; the first may be 0
   * @throws ValueError for a step that does not grow, for data that is not numbers, and after `close`
   * @throws CommitError with what each failing destination threw
   */
  async commit(
    epoch: number,
    step: number,
    globalStep: number,
    data: Readonly<Record<string, number>>,
  ): Promise<void> {
    const point: CommitPoint = { epoch: whole('epoch', epoch), step: whole('step', step) };
    if (this.#closed !== undefined) {
      throw invalid('commit', 'logger', 'an open logger', 'a closed one', 'commit before close()');
    }
    if (whole('globalStep', globalStep) <= this.#lastCommitStep) {
      throw invalid(
        'commit',
        'globalStep',
        `more than ${String(this.#lastCommitStep)}, the step of the last commit`,
        String(globalStep),
        'put all statistics of a step into one commit',
      );
    }
    // A copy: the write may come later, when the caller has changed its record.
    const record = { ...data };
    for (const [key, value] of Object.entries<unknown>(record)) {
      if (typeof value === 'number') continue;
      throw invalid('commit', key, 'a number', value === null ? 'null' : typeof value, 'leave the key out');
    }
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
   * @throws ValueError for anything that `stateDict` does not return
   */
  loadStateDict(state: StatsLoggerState): void {
    const { lastCommitStep } = state;
    if (!Number.isSafeInteger(lastCommitStep) || lastCommitStep < -1) {
      throw invalid(
        'loadStateDict',
        'lastCommitStep',
        'a step, or -1',
        String(lastCommitStep),
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

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
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

function whole(input: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw invalid('commit', input, 'a whole number from 0', String(value), 'count epochs and steps from 0');
}

function text(input: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') return value;
  throw invalid('create', input, 'a text', value === '' ? "''" : typeof value, 'set it in the config');
}

/** One level of a path, so that no name can lead out of the folder of the logs. */
function folderName(input: string, value: unknown): string {
  const name = text(input, value);
  if (!/[/\\\0]/.test(name) && name !== '.' && name !== '..') return name;
  throw invalid('create', input, 'a name without slashes', `'${name}'`, 'use one folder name');
}
