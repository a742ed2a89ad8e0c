/** Public operations on tensors, and the backends that run them. */
export { backendNames, type BackendName } from './backends/names.js';
export {
  backendReport,
  initBackend,
  probeBackends,
  type BackendChoice,
  type BackendReport,
  type KernelKind,
} from './backends/start.js';
export { Pending, collect } from './collect.js';
export * as expression from './expression.js';
export type { Expression, Operand } from './expression.js';
export { Histogram, type QuantileOptions } from '../rows/index.js';
export { maskedHistograms } from './histogram/index.js';
export { logitsStatistics, type LogitsStatistics, type LogitsStatisticsOptions } from './logits/index.js';
export { CompactMask, compactMask, type MaskTensor } from './masks/index.js';
export { channelMoments, channelTables, type Channel, type ChannelMasks } from './moments/channels.js';
export type { MomentsOptions } from './moments/checks.js';
export { maskedMoments, momentsTables } from './moments/index.js';
export { Moments, type NonFinitePolicy } from '../rows/index.js';
export { emptyRow, finiteCount, finiteMean, liftRow, mergeRows, type MomentsRow } from '../rows/index.js';
export { MomentsTable } from '../rows/index.js';
export { RowMoments } from './moments/row-moments.js';
export { retainTensor, type RetainedTensor } from './residency.js';
