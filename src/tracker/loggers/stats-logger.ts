/**
 * One commit to all destinations: the step rules, the order and the isolation of failures.
 */
import { join, resolve } from 'node:path';
import { assertNamed, assertOptions, kindOf, messageOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { warn } from '../../warning.js';
import { assertNumbers, assertWhole } from './commit.js';
import { type ConsoleOptions, ConsoleWriter } from './console.js';
import { Destination } from './destination.js';
import { CommitError } from './errors.js';
import { type JsonlOptions, JsonlWriter } from './jsonl.js';
import type { CommitPoint, StatsWriter } from './logger.js';

export interface StatsLoggerConfig {
  readonly experimentName: string;
  readonly trialName: string;
  /** Folder of all experiments; files go to `{fileroot}/logs/{experimentName}/{trialName}`. */
  readonly fileroot: string;
  /** Tables on the terminal; default true. */
  readonly console?: boolean | ConsoleOptions;
  /**
   * A journal of all commits, `metrics.jsonl` in the folder of the trial unless `path` is given; default true.
   * `existing: 'refuse'` refuses a trial that has a journal; otherwise a second run goes on in it, with a mark.
   */
  readonly jsonl?: boolean | JournalConfig;
  /** Further destinations, closed with the logger. */
  readonly writers?: readonly StatsWriter[];
}

export type JournalConfig = { readonly path?: string } & Pick<JsonlOptions, 'existing'>;

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
      const { path, existing } = options === true ? ({} as JournalConfig) : journalConfig(options);
      return JsonlWriter.open(path ?? join(folder, 'metrics.jsonl'), {
        ...(existing !== undefined && { existing }),
      });
    },
  ];

const SIGNATURE = 'commit(epoch, step, globalStep, data)';

export class StatsLogger {
  /** Folder of the trial, absolute. */
  readonly folder: string;
  readonly #destinations: readonly Destination[];
  #lastCommitStep = -1;
  /** Where a loaded state lets the run go on, until the destinations are told. */
  #resumesFrom: number | undefined;
  #closed: Promise<void> | undefined;
  #hasToldEmpty = false;

  private constructor(folder: string, writers: readonly StatsWriter[]) {
    this.folder = folder;
    this.#destinations = writers.map((writer) => new Destination(writer));
  }

  /**
   * Opens all destinations. Relative paths are resolved at once.
   *
   * @throws MissingInputError without a config, ValueError for what it cannot use of it, names that it does not know
   *   included, and for a trial that has a journal if that is to be refused; LogWriteError if a file cannot be written, JournalHeldError if another logger
   *   writes it
   */
  static async create(config: StatsLoggerConfig): Promise<StatsLogger> {
    assertNamed('StatsLogger.create', 'config', config, {
      expected: 'an object with experimentName, trialName and fileroot',
      remedy: 'call it as StatsLogger.create({ experimentName, trialName, fileroot })',
    });
    assertOptions(
      'StatsLogger.create',
      config,
      {
        experimentName: 'any',
        trialName: 'any',
        fileroot: 'any',
        console: 'any',
        jsonl: 'any',
        writers: 'any',
      },
      'config',
    );
    const { writers = [] } = config;
    assertWriters(writers);
    const experiment = folderName('experimentName', config.experimentName);
    const trial = folderName('trialName', config.trialName);
    const folder = resolve(text('fileroot', config.fileroot), 'logs', experiment, trial);
    const outcomes = await Promise.allSettled(BUILT_IN.map(async (make) => make(config, folder)));
    const opened = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    const made = opened.filter((writer) => writer !== undefined);
    const failure = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failure === undefined) return new StatsLogger(folder, [...made, ...writers]);
    await Promise.allSettled(made.map(async (writer) => writer.close()));
    throw failure.reason;
  }

  /**
   * Writes one export to all destinations, to each after the commits before it.
   *
   * The journal and the console have it when this returns, also where nobody awaits; other destinations get it later.
   * All destinations are tried. The step counts as committed even if some fail: writing it again would repeat it in
   * the others. A warning tells once of a commit without a number (`TENSORTALLY_EMPTY_COMMIT`).
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
    assertWhole(where, 'epoch', epoch, SIGNATURE);
    assertWhole(where, 'step', step, SIGNATURE);
    assertWhole(where, 'globalStep', globalStep, SIGNATURE);
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
    this.#tellEmpty(data);
    // A copy where the write may come later, when the caller has changed its record.
    const record = this.#destinations.every(({ keepsOrder }) => keepsOrder) ? data : { ...data };
    this.#lastCommitStep = globalStep;
    const from = this.#resumesFrom;
    this.#resumesFrom = undefined;
    return this.#each('commit', (destination) => destination.write(globalStep, record, point, from));
  }

  #tellEmpty(data: Readonly<Record<string, number>>): void {
    if (this.#hasToldEmpty || Object.keys(data).length > 0) return;
    this.#hasToldEmpty = true;
    warn(
      'TENSORTALLY_EMPTY_COMMIT',
      'StatsLogger.commit: a commit holds no number; a promise that is spread is such a record, so write ' +
        '{ ...(await computeStepMetrics(batch)) }',
    );
  }

  /** What to save with a checkpoint. */
  stateDict(): StatsLoggerState {
    return { lastCommitStep: this.#lastCommitStep };
  }

  /**
   * Continues where a saved state ended. Destinations that can tell mark with the next commit that what they have after
   * that step, from a run that went further than the state, no longer counts. A journal that ends before that step warns
   * of the commits that it lacks (`TENSORTALLY_JOURNAL`).
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
    this.#resumesFrom = lastCommitStep + 1;
  }

  /**
   * Waits for all commits and closes all destinations; again, it does nothing.
   *
   * @throws CommitError with what each failing destination threw
   */
  close(): Promise<void> {
    this.#closed ??= this.#each('close', (destination) => destination.close());
    return this.#closed;
  }

  async #each(where: string, act: (destination: Destination) => void | Promise<void>): Promise<void> {
    const outcomes = await Promise.allSettled(
      this.#destinations.map(async (destination) => act(destination)),
    );
    const failures = outcomes.flatMap((outcome, i) =>
      outcome.status === 'rejected'
        ? [{ name: this.#destinations[i]!.name, error: asError(outcome.reason) }]
        : [],
    );
    if (failures.length === 0) return;
    throw new CommitError(
      {
        where: `StatsLogger.${where}`,
        expected: `all ${String(this.#destinations.length)} destinations to succeed`,
        received: failures.map(({ name, error }) => `a failure of ${name} (${error.message})`).join(' and '),
        remedy: 'see errors for each of them; the others have everything',
      },
      failures.map(({ error }) => error),
    );
  }
}

function journalConfig(options: JournalConfig): JournalConfig {
  assertOptions('StatsLogger.create', options, { path: 'string', existing: 'any' }, 'jsonl');
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
