/** Throughput of a step: tokens, seconds, tokens per second and GPU. */
import { assertOptions, kindOf } from '../../arguments.js';
import { MissingInputError, ValueError } from '../../errors.js';
import { Pending } from '../../kernels/index.js';
import { type RolloutBatch, assertBatch, isOneStep } from '../batch/batch.js';
import { type KnownLengths, rowLengths } from '../batch/lengths.js';
import { type Metrics, total } from '../numbers/statistics.js';
import { type Semantics, assertSemantics, usesLengthColumns } from '../semantics.js';
import { type TimingRaw, allTokens, assertTimings } from './timing.js';

/** Options of `computeThroughputMetrics`. */
export interface ThroughputMetricsOptions {
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

const WHERE = 'computeThroughputMetrics';

/**
 * `perf/total_num_tokens`, `perf/time_per_step` [s] and `perf/throughput` [tokens / s / GPU].
 *
 * Tokens are the sum of `global_token_num` where the batch has it (all ranks), else the tokens of this batch. A step
 * of zero seconds or zero GPUs has throughput NaN.
 *
 * @param batch needs global_token_num, or what tells the lengths (see `computeTimingMetrics`); rows of one step have no
 *   lengths
 * @param timingRaw must have `step`, seconds
 * @param nGpus GPUs that worked on these tokens
 * @throws MissingInputError without `step` or token counts; ValueError for an invalid count or time
 * @source verl, trainer/ppo/metric_utils.py, compute_throughout_metrics
 * @example  await computeThroughputMetrics(batch, { step: 24 }, 8);
 */
export async function computeThroughputMetrics(
  batch: RolloutBatch,
  timingRaw: TimingRaw,
  nGpus: number,
  options: ThroughputMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => throughputMetrics(batch, timingRaw, nGpus, options));
}

/** The `Pending` behind `computeThroughputMetrics`. */
export function throughputMetrics(
  batch: RolloutBatch,
  timingRaw: TimingRaw,
  nGpus: number,
  options: ThroughputMetricsOptions = {},
): Pending<Metrics> {
  assertOptions(WHERE, options, { semantics: 'any' });
  const { semantics = 'recommended' } = options;
  assertSemantics(WHERE, semantics);
  assertTimings(WHERE, timingRaw);
  assertBatch(WHERE, batch);
  const seconds = stepSeconds(WHERE, timingRaw, nGpus);
  if (batch.globalTokenNum === undefined && isOneStep(batch)) throw missingTokens();
  const lengths =
    batch.globalTokenNum === undefined
      ? rowLengths(WHERE, batch, usesLengthColumns(semantics))
      : Pending.of(undefined);
  return lengths.map((found) => throughputOf(batch, found, seconds, nGpus));
}

/** Steps of an environment are no tokens unless the caller says so. */
function missingTokens(): MissingInputError {
  return new MissingInputError({
    where: WHERE,
    input: 'global_token_num',
    expected: 'what counts as tokens, since rows of one step have no lengths',
    received: 'nothing',
    remedy: 'put global_token_num into the batch, e.g. [N] to count its N steps',
  });
}

/**
 * Seconds of the step.
 *
 * @param as what the caller knows the number of GPUs as
 * @throws MissingInputError without them, ValueError for an invalid number of GPUs
 */
export function stepSeconds(where: string, { step }: TimingRaw, nGpus: number, as = 'nGpus'): number {
  if (step === undefined) {
    throw new MissingInputError({
      where,
      input: 'timingRaw.step',
      expected: 'the seconds of the whole step',
      received: 'nothing',
      remedy: 'time the step and pass it as timingRaw.step',
    });
  }
  if (typeof nGpus !== 'number' || !(nGpus >= 0 && nGpus < Infinity)) {
    throw new ValueError({
      where,
      input: as,
      expected: 'a number of GPUs',
      received: kindOf(nGpus),
      remedy: 'pass the number of devices that the tokens were processed on, 1 on a CPU',
    });
  }
  return step;
}

/**
 * The throughput of a batch, as far as what it is made of is known.
 *
 * @param lengths needed where the batch does not tell the tokens of all ranks
 */
export function throughputOf(
  { globalTokenNum }: Pick<RolloutBatch, 'globalTokenNum'>,
  lengths: KnownLengths | undefined,
  seconds: number | undefined,
  nGpus: number | undefined,
): Metrics {
  const tokens = globalTokenNum === undefined ? lengths && allTokens(lengths) : total(globalTokenNum);
  const isComplete = tokens !== undefined && seconds !== undefined && nGpus !== undefined;
  return {
    ...(tokens !== undefined && { 'perf/total_num_tokens': tokens }),
    ...(seconds !== undefined && { 'perf/time_per_step': seconds }),
    ...(isComplete && { 'perf/throughput': seconds * nGpus === 0 ? NaN : tokens / (seconds * nGpus) }),
  };
}
