/**
 * Streams from rollout workers to a controller: records that merge on the way.
 *
 * Also an entry of the package, `tensortally/stream`: a worker that only reports numbers loads neither tfjs nor kernels.
 */
export { aggregateExports, type AggregateOptions } from '../export/aggregate-exports.js';
export { currentRollout, reportEpisode, rolloutKey, rolloutScope, withRollout } from '../rollout-context.js';
export type {
  Episode,
  EpisodeOutcome,
  EpisodeRecorder,
  RolloutContext,
  RolloutScope,
} from '../rollout-context.js';
export { decodeDelta } from './wire/delta-reader.js';
export { encodeDelta } from './wire/delta.js';
export { StreamEmitter } from './emitter.js';
export { DeltaError, StreamError } from './errors.js';
export { InProcessTransport } from './in-process-transport.js';
export { StreamIngest } from './ingest.js';
export type { EmitterStatus } from './courier.js';
export type { Delta } from './wire/delta.js';
export type {
  EmitOptions,
  EmitScalarOptions,
  MergeOptions,
  MergeRefusal,
  StreamEmitterOptions,
} from './emitter.js';
export type { StreamHealth } from './workers/health.js';
export type { ReceiveOptions, StreamExportOptions, StreamIngestOptions } from './ingest.js';
export type { KeyDefinition, StreamReduction, StreamRow } from './wire/schema.js';
export type { DeltaAck, StreamTransport } from './transport.js';
