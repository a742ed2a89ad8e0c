/** Public interface of the tracker and its loggers. */
export { StatsTracker } from './tracker.js';
export { DefinedMetrics, MetricSchema, defineMetrics } from './metric-schema.js';
export type {
  CounterKey,
  DefinedDenominator,
  DenominatorKey,
  ExportOf,
  ExportedName,
  MetricDefinition,
  MetricDefinitions,
  ScalarKey,
  StatDefinition,
  StatKey,
} from './metric-schema.js';
export { TrackerHandle } from './handle.js';
export { DenominatorHandle } from './denominator-handle.js';
export { derive, perplexity, ratio } from './derived.js';
export {
  TrackerRegistry,
  child,
  counter,
  denominator,
  disableScope,
  exportAll,
  getTracker,
  recordTiming,
  scalar,
  scope,
  stat,
  timing,
} from './registry.js';
export type { Derivation } from './derived.js';
export type { ExportOptions, RowsOptions } from './export.js';
export type { StatOptions, StatReduction } from './stat-call.js';
export type { TrackerMemory } from './memory.js';
export type { ScalarOptions } from './numbers.js';
export type { NonFiniteRule, ReduceType, ScalarReduceType, TensorReduceType } from './reduce-type.js';
export type { ExportAllOptions } from './registry.js';
export type { TrackerMode, TrackerOptions } from './settings.js';
export type { Clock } from './timing.js';

export { aggregateExports } from './aggregate-exports.js';
export { currentRollout, reportEpisode, rolloutKey, rolloutScope, withRollout } from './rollout-context.js';
export { decodeDelta } from './stream/delta-reader.js';
export { encodeDelta } from './stream/delta.js';
export { StreamEmitter } from './stream/emitter.js';
export { DeltaError, StreamError } from './stream/errors.js';
export { InProcessTransport } from './stream/in-process-transport.js';
export { StreamIngest } from './stream/ingest.js';
export type { AggregateOptions } from './aggregate-exports.js';
export type {
  Episode,
  EpisodeOutcome,
  EpisodeRecorder,
  RolloutContext,
  RolloutScope,
} from './rollout-context.js';
export type { EmitterStatus } from './stream/courier.js';
export type { Delta } from './stream/delta.js';
export type {
  EmitOptions,
  EmitScalarOptions,
  MergeOptions,
  MergeRefusal,
  StreamEmitterOptions,
} from './stream/emitter.js';
export type { StreamHealth } from './stream/health.js';
export type { ReceiveOptions, StreamExportOptions, StreamIngestOptions } from './stream/ingest.js';
export type { KeyDefinition, StreamReduction, StreamRow } from './stream/schema.js';
export type { DeltaAck, StreamTransport } from './stream/transport.js';

export { ConsoleWriter } from './loggers/console.js';
export { formatTable } from './loggers/table.js';
export { CommitError, JournalHeldError, LogReadError, LogWriteError } from './loggers/errors.js';
export { readJournal } from './loggers/journal/read-journal.js';
export { JsonlWriter } from './loggers/jsonl.js';
export { StatsLogger } from './loggers/stats-logger.js';
export type { ConsoleOptions } from './loggers/console.js';
export type { TextStream } from './loggers/guarded-stream.js';
export type { TableOptions } from './loggers/table.js';
export type { JournalCommit } from './loggers/journal/lines.js';
export type { Journal } from './loggers/journal/read-journal.js';
export type { JsonlOptions } from './loggers/jsonl.js';
export type { CommitPoint, StatsWriter } from './loggers/logger.js';
export type { JournalConfig, StatsLoggerConfig, StatsLoggerState } from './loggers/stats-logger.js';
