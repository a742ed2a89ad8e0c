/** Metrics of a training step: batch in, plain numbers out. */
export { batchFromVerl, type BatchOptions, type RolloutBatch, type RowColumn } from './batch.js';
export { computeDataMetrics, type DataMetricsOptions } from './data.js';
export { semanticsNames, type Semantics } from './semantics.js';
export type { Metrics } from './statistics.js';
export { computeThroughputMetrics } from './throughput.js';
export { computeTimingMetrics, type TimingMetricsOptions, type TimingRaw } from './timing.js';
