/** The public functions and methods of loggers. Not a test. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConsoleWriter, JsonlWriter, StatsLogger, formatTable, readJournal } from '../../../src/index.js';
import { clock, count, flag, name, number, options, record, type Rows } from './row.js';

/** @param folder for files */
export function loggerCalls(folder: string): Rows {
  const silent = { write: () => true };
  const quiet = (): ConsoleWriter => new ConsoleWriter({ stream: silent });

  async function journal(use: (writer: JsonlWriter) => Promise<void>): Promise<void> {
    const writer = await JsonlWriter.open(join(folder, 'journal.jsonl'));
    try {
      await use(writer);
    } finally {
      await writer.close();
    }
  }

  async function logger(config: object = {}): Promise<StatsLogger> {
    const names = { experimentName: 'e', trialName: 't', fileroot: folder };
    const made = await StatsLogger.create({ ...names, console: false, jsonl: false, ...config });
    await made.close();
    return made;
  }

  async function openLogger(): Promise<StatsLogger> {
    const names = { experimentName: 'e', trialName: 't', fileroot: folder };
    return StatsLogger.create({ ...names, console: false, jsonl: false });
  }

  return {
    formatTable: () => ({ parameters: [record({ x: 1 }), options()], call: formatTable }),
    'formatTable{option}': () => ({
      parameters: [number(1), count, count, flag, count],
      call: (x: number, width: number, most: number, color: boolean, numberWidth: number) =>
        formatTable({ x }, { width, columns: most, color, numberWidth }),
    }),
    ConsoleWriter: () => ({
      parameters: [options()],
      call: (given: object) => new ConsoleWriter(given),
    }),
    'ConsoleWriter{option}': () => ({
      parameters: [{ fits: silent, takes: ['undefined'] }, count, flag, count],
      call: (stream: typeof silent, most: number, color: boolean, width: number) =>
        new ConsoleWriter({ stream, columns: most, color, width }),
    }),
    'ConsoleWriter#write': () => ({
      parameters: [number(1), record({ x: 1 }), options({ epoch: 1, step: 1 })],
      isAsync: true,
      call: (...commit: Parameters<ConsoleWriter['write']>) => quiet().write(...commit),
    }),
    'JsonlWriter.open': () => ({
      parameters: [{ fits: join(folder, 'opened.jsonl'), takes: [], spares: ['text'] }, options()],
      isAsync: true,
      call: (path: string, given: object) => JsonlWriter.open(path, given).then((writer) => writer.close()),
    }),
    'JsonlWriter.open{now}': () => ({
      parameters: [clock],
      isAsync: true,
      call: (now: () => number) =>
        JsonlWriter.open(join(folder, 'opened.jsonl'), { now }).then((writer) => writer.close()),
    }),
    'JsonlWriter.open{existing}': () => ({
      parameters: [{ fits: 'continue', takes: ['undefined'] }],
      isAsync: true,
      call: (existing: 'continue') =>
        JsonlWriter.open(join(folder, 'opened.jsonl'), { existing }).then((writer) => writer.close()),
    }),
    readJournal: () => ({
      parameters: [{ fits: join(folder, 'read.jsonl'), takes: [], spares: ['text'] }],
      isAsync: true,
      call: async (path: string) => {
        writeFileSync(join(folder, 'read.jsonl'), '');
        return readJournal(path);
      },
    }),
    'JsonlWriter#resume': () => ({
      parameters: [number(1)],
      isAsync: true,
      call: (from: number) =>
        journal((writer) => {
          writer.resume(from);
          return Promise.resolve();
        }),
    }),
    'JsonlWriter#write': () => ({
      parameters: [number(1), record({ x: 1 }), options({ epoch: 1, step: 1 })],
      isAsync: true,
      call: (...commit: Parameters<JsonlWriter['write']>) => journal((writer) => writer.write(...commit)),
    }),
    'StatsLogger.create': () => ({
      parameters: [
        { fits: { experimentName: 'e', trialName: 't', fileroot: folder, jsonl: false }, takes: [] },
      ],
      isAsync: true,
      call: (config: Parameters<typeof StatsLogger.create>[0]) => StatsLogger.create(config),
    }),
    'StatsLogger.create{option}': () => ({
      parameters: [
        name('e'),
        name('t'),
        { fits: false, takes: ['undefined', 'boolean', 'object'] },
        { fits: false, takes: ['undefined', 'boolean', 'object'] },
        { fits: [], takes: ['undefined', 'array'] },
      ],
      isAsync: true,
      call: (experimentName: string, trialName: string, console: boolean, jsonl: boolean, writers: []) =>
        logger({ experimentName, trialName, console, jsonl, writers }),
    }),
    'StatsLogger.create{writer}': () => ({
      parameters: [{ fits: { write: () => undefined, close: () => undefined }, takes: [] }],
      isAsync: true,
      call: (writer: never) => logger({ writers: [writer] }),
    }),
    'StatsLogger.create{jsonl.path}': () => ({
      parameters: [{ fits: join(folder, 'elsewhere.jsonl'), takes: ['undefined'], spares: ['text'] }],
      isAsync: true,
      call: (path: string) => logger({ jsonl: { path } }),
    }),
    'StatsLogger#commit': () => ({
      parameters: [number(0), number(0), number(0), record({ x: 1 })],
      isAsync: true,
      call: async (...commit: Parameters<StatsLogger['commit']>) => (await openLogger()).commit(...commit),
    }),
    'StatsLogger#loadStateDict': () => ({
      parameters: [{ fits: { lastCommitStep: 3 }, takes: [] }],
      isAsync: true,
      call: async (state: { lastCommitStep: number }) => {
        (await openLogger()).loadStateDict(state);
      },
    }),
  };
}
