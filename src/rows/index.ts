/**
 * The ground: mergeable rows of numbers, and what finishes them. Arithmetic on the host, which knows no tensor, device,
 * key or file.
 */
export { RowAccumulator } from './accumulator.js';
export * as buckets from './buckets.js';
export { Histogram, histogramOfSlots, type QuantileOptions } from './histogram.js';
export {
  emptyKeyRow,
  keyRowOf,
  mergeKeyRows,
  momentsRowOf,
  nonFiniteCount,
  weightOf,
  weightedNumber,
  withNonFiniteOf,
  type KeyRow,
} from './key-row.js';
export { Moments, assertNonFinitePolicy, type NonFinitePolicy } from './moments.js';
export { rowFault } from './row-fault.js';
export {
  emptyRow,
  finiteCount,
  finiteMean,
  liftRow,
  m2Between,
  meanOf,
  mergeRows,
  repeatRow,
  type MomentsRow,
} from './row.js';
export { NumbersReader, packTable, packedLength, seal, unsealed } from './sealed.js';
export { MomentsTable } from './table.js';
