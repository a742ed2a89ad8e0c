/** Metrics of a training step: batch in, plain numbers out. */
export { aggLoss, lossAggModes, type AggLossOptions, type LossAggMode } from './aggregation.js';
export type { RolloutBatch, RowColumn } from './batch.js';
export {
  batchFromAreal,
  type ArealBatchOptions,
  type ArealTensors,
  type OwningBatch,
} from './batch/areal.js';
export { batchFromVerl, type BatchOptions, type VerlLists, type VerlTensors } from './batch/verl.js';
export { explainMetric, isInRange, metricCatalog, type MetricExplanation } from './catalog.js';
export { semanticDifferences, type SemanticDifference } from './catalog/differences.js';
export { peerDepartures, type PeerDeparture } from './catalog/peer-departures.js';
export type { CatalogEntry, CatalogFamily, MetricRange, MetricReduction } from './catalog/entry.js';
export { computeDataMetrics, type DataMetricsOptions, type LengthCaps } from './data.js';
export { computeDebugMetrics } from './debug.js';
export { ExplainedVariance } from './explained-variance.js';
export { computeGroupMetrics, groupMoments, type GroupId, type GroupMetricsOptions } from './groups.js';
export {
  computeKlMetrics,
  klEstimatorNames,
  klPenalty,
  type KlEstimatorName,
  type KlMetricsOptions,
  type KlPenalty,
} from './kl.js';
export { calcMajVal } from './validation/votes.js';
export { computeMoeMetrics, type MoeMetricsOptions } from './moe.js';
export { passAtK, passHatK } from './pass-at-k.js';
export { computePolicyMetrics, type PolicyMetricsOptions } from './policy.js';
export { aggregationNames, type Aggregation, type MetricState } from './metric-state.js';
export { Metric, reduceMetrics, type MetricValue, type ReduceOptions } from './reduce.js';
export { responseMaskFromEos } from './response-mask.js';
export { bootstrapMetric, type BootstrapOptions } from './validation/resampling.js';
export { computeRolloutCorrection, type RolloutCorrection } from './rollout-correction.js';
export {
  rejectionNames,
  weightLevels,
  type RejectionName,
  type RolloutCorrectionOptions,
  type Threshold,
  type WeightLevel,
} from './rollout-correction/options.js';
export { semanticsNames, type Semantics } from './semantics.js';
export { computeSequenceBalanceMetrics } from './sequence-balance.js';
export type { Metrics } from './statistics.js';
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
export { computeThroughputMetrics, type ThroughputMetricsOptions } from './throughput.js';
export { computeTimingMetrics, type TimingMetricsOptions, type TimingRaw } from './timing.js';
export {
  estimatorNames,
  processValidationMetrics,
  type EstimatorName,
  type ValidationOptions,
  type ValidationReport,
} from './validation.js';
export type { InfoColumn, SampleCounts } from './validation/samples.js';
export {
  computeVarianceProxyMetrics,
  varianceProxies,
  type VarianceProxies,
  type VarianceProxyOptions,
} from './variance-proxy.js';
export { maskedWhiten, type WhitenOptions } from './whitening.js';
