/**
 * Loggers: where exported numbers go.
 *
 * Also an entry of the package, `tensortally/loggers`, which loads neither tfjs nor kernels.
 */
export { ConsoleWriter } from './console.js';
export { CommitError, JournalHeldError, LogReadError, LogWriteError } from './errors.js';
export { readJournal } from './journal/read-journal.js';
export { JsonlWriter } from './jsonl.js';
export { StatsLogger } from './stats-logger.js';
export { formatTable } from './table.js';
export type { ConsoleOptions } from './console.js';
export type { TextStream } from './guarded-stream.js';
export type { JournalCommit } from './journal/lines.js';
export type { Journal } from './journal/read-journal.js';
export type { JsonlOptions } from './jsonl.js';
export type { CommitPoint, StatsWriter } from './logger.js';
export type { JournalConfig, StatsLoggerConfig, StatsLoggerState } from './stats-logger.js';
export type { TableOptions } from './table.js';
