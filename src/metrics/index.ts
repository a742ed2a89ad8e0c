/** Metrics of a training step: batch in, plain numbers out. */
export { aggLoss, lossAggModes, type AggLossOptions, type LossAggMode } from './policy/aggregation.js';
export type { RolloutBatch, RowColumn } from './batch/batch.js';
export {
  batchFromAreal,
  type ArealBatchOptions,
  type ArealTensors,
  type OwningBatch,
} from './batch/areal.js';
export { batchFromVerl, type BatchOptions, type VerlLists, type VerlTensors } from './batch/verl.js';
export { explainMetric, isInRange, metricCatalog, type MetricExplanation } from './catalog/catalog.js';
export { semanticDifferences, type SemanticDifference } from './catalog/differences.js';
export { peerDepartures, type PeerDeparture } from './catalog/peer-departures.js';
export type { CatalogEntry, CatalogFamily, MetricRange, MetricReduction } from './catalog/entry.js';
export { computeDataMetrics, type DataMetricsOptions, type LengthCaps } from './data.js';
export { computeDebugMetrics } from './rollout-correction/debug.js';
export { ExplainedVariance } from './numbers/explained-variance.js';
export { computeGroupMetrics, groupMoments, type GroupId, type GroupMetricsOptions } from './groups.js';
export {
  computeKlMetrics,
  klEstimatorNames,
  klPenalty,
  type KlEstimatorName,
  type KlMetricsOptions,
  type KlPenalty,
} from './policy/kl.js';
export { calcMajVal } from './validation/votes.js';
export { computeMoeMetrics, type MoeMetricsOptions } from './moe.js';
export { passAtK, passHatK } from './validation/pass-at-k.js';
export { computePolicyMetrics, type PolicyMetricsOptions } from './policy/policy.js';
export { aggregationNames, type Aggregation, type MetricState } from './reduce/metric-state.js';
export { Metric, reduceMetrics, type MetricValue, type ReduceOptions } from './reduce/reduce.js';
export { responseMaskFromEos } from './batch/response-mask.js';
export { bootstrapMetric, type BootstrapOptions } from './validation/resampling.js';
export { computeRolloutCorrection, type RolloutCorrection } from './rollout-correction/correction.js';
export {
  rejectionNames,
  weightLevels,
  type RejectionName,
  type RolloutCorrectionOptions,
  type Threshold,
  type WeightLevel,
} from './rollout-correction/options.js';
export { semanticsNames, type Semantics } from './semantics.js';
export { computeSequenceBalanceMetrics } from './time/sequence-balance.js';
export type { Metrics } from './numbers/statistics.js';
export {
  populations,
  stepFamilies,
  type Population,
  type StepFamily,
  type StepStateOptions,
} from './step/families.js';
export { StepState, type StepFacts } from './step/state.js';
export {
  computeStepMetrics,
  computeStepState,
  correctedStep,
  type CorrectedStep,
  type CorrectedStepOptions,
  type StepMetricsOptions,
} from './step/step.js';
export { computeThroughputMetrics, type ThroughputMetricsOptions } from './time/throughput.js';
export { computeTimingMetrics, type TimingMetricsOptions, type TimingRaw } from './time/timing.js';
export {
  estimatorNames,
  processValidationMetrics,
  type EstimatorName,
  type ValidationOptions,
  type ValidationReport,
} from './validation/validation.js';
export type { InfoColumn, SampleCounts } from './validation/samples.js';
export {
  computeVarianceProxyMetrics,
  varianceProxies,
  type VarianceProxies,
  type VarianceProxyOptions,
} from './variance-proxy.js';
export { maskedWhiten, type WhitenOptions } from './policy/whitening.js';
