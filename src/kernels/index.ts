/** Public operations on tensors, and the backends that run them. */
export { backendNames, type BackendName } from './backend-names.js';
export {
  backendReport,
  initBackend,
  probeBackends,
  type BackendChoice,
  type BackendReport,
} from './backends.js';
export { Pending, collect } from './collect.js';
export { maskedMoments, momentsTables, type MaskedMomentsOptions } from './moments/index.js';
export {
  Moments,
  MomentsTable,
  RowMoments,
  emptyRow,
  finiteCount,
  finiteMean,
  liftRow,
  mergeRows,
  type MomentsRow,
  type NonFinitePolicy,
} from './moments/record.js';
export { retainTensor, type RetainedTensor } from './residency.js';
