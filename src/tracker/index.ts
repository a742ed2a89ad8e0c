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
export { DenominatorHandle } from './masks/denominator-handle.js';
export { derive, perplexity, ratio } from './export/derived.js';
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
export type { Derivation } from './export/derived.js';
export type { ExportOptions, RowsOptions } from './export/export.js';
export type { StatOptions, StatReduction } from './records/stat-call.js';
export type { TrackerMemory } from './memory.js';
export type { ScalarOptions } from './records/numbers.js';
export type { NonFiniteRule, ReduceType, ScalarReduceType, TensorReduceType } from './records/reduce-type.js';
export type { ExportAllOptions } from './registry.js';
export type { TrackerMode, TrackerOptions } from './settings.js';
export type { Clock } from './timing.js';

export * from './stream/index.js';
export * from './loggers/index.js';
