/** Public interface of the tracker and its loggers. */
export { StatsTracker } from './tracker.js';
export { TrackerHandle } from './handle.js';
export {
  TrackerRegistry,
  denominator,
  exportAll,
  getTracker,
  recordTiming,
  scalar,
  scope,
  stat,
  timing,
} from './registry.js';
export type { ExportOptions } from './export.js';
export type { StatOptions } from './ledger.js';
export type { ReduceType, TensorReduceType } from './reduce-type.js';
export type { Clock } from './timing.js';
export type { TrackerOptions } from './tracker.js';

export { ConsoleWriter, formatTable } from './loggers/console.js';
export { CommitError, LogWriteError } from './loggers/errors.js';
export { JsonlWriter } from './loggers/jsonl.js';
export { StatsLogger } from './loggers/stats-logger.js';
export type { ConsoleOptions, TableOptions, TextStream } from './loggers/console.js';
export type { JsonlOptions } from './loggers/jsonl.js';
export type { CommitPoint, StatsWriter } from './loggers/logger.js';
export type { StatsLoggerConfig, StatsLoggerState } from './loggers/stats-logger.js';
