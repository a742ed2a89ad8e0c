/** Timing metrics of a step: seconds per stage, and milliseconds per token where a stage works on tokens. */
import { assertNamed, assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { Pending } from '../../kernels/index.js';
import { type RolloutBatch, assertBatch } from '../batch/batch.js';
import { type KnownLengths, rowLengths } from '../batch/lengths.js';
import { type Metrics, total } from '../numbers/statistics.js';
import { type Semantics, assertSemantics, usesLengthColumns } from '../semantics.js';

/** Seconds per stage, as a trainer's timers have them. */
export type TimingRaw = Readonly<Record<string, number>>;

/** Options of `computeTimingMetrics`. */
export interface TimingMetricsOptions {
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

/** The tokens that a stage works on, if their number is known; stages that are not listed have no time per token. */
const TOKENS_OF_STAGE: Readonly<Record<string, (lengths: KnownLengths) => number | undefined>> = {
  gen: ({ response }) => response && total(response),
  ref: allTokens,
  values: allTokens,
  adv: allTokens,
  update_critic: allTokens,
  update_actor: allTokens,
};

/** Prompt and response tokens together; undefined if one of the two is unknown. */
export function allTokens({ prompt, response }: KnownLengths): number | undefined {
  return prompt && response && total(prompt) + total(response);
}

const WHERE = 'computeTimingMetrics';

/**
 * `timing_s/{stage}` for every stage, and `timing_per_token_ms/{stage}` for `gen` (response tokens) and `ref`,
 * `values`, `adv`, `update_critic`, `update_actor` (prompt and response tokens). Zero tokens give NaN.
 *
 * @param batch needs attention_mask and the response width, or prompt_length and response_length
 * @param timingRaw seconds by stage
 * @throws MissingInputError, ValueError for a time that is no number or negative, ShapeError, DtypeError, DisposedTensorError
 * @source verl, trainer/ppo/metric_utils.py, compute_timing_metrics
 * @example  await computeTimingMetrics(batch, { gen: 12.5, update_actor: 8.1, step: 24 });
 */
export async function computeTimingMetrics(
  batch: RolloutBatch,
  timingRaw: TimingRaw,
  options: TimingMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => timingMetrics(batch, timingRaw, options));
}

/** The `Pending` behind `computeTimingMetrics`. */
export function timingMetrics(
  batch: RolloutBatch,
  timingRaw: TimingRaw,
  options: TimingMetricsOptions = {},
): Pending<Metrics> {
  assertOptions(WHERE, options, { semantics: 'any' });
  const { semantics = 'recommended' } = options;
  assertSemantics(WHERE, semantics);
  assertTimings(WHERE, timingRaw);
  assertBatch(WHERE, batch);
  // The caller may go on timing while the lengths are on their way.
  const seconds = { ...timingRaw };
  return rowLengths(WHERE, batch, usesLengthColumns(semantics)).map((lengths) =>
    timingsOf(seconds, lengths, semantics),
  );
}

/** The timing metrics of rows of these lengths; without a length there is no time per token. */
export function timingsOf(timingRaw: TimingRaw, lengths: KnownLengths, semantics: Semantics): Metrics {
  const ofNoTokens = semantics === 'verl-2026-08' ? 0 : NaN;
  const metrics: Metrics = {};
  for (const [stage, seconds] of Object.entries(timingRaw)) metrics[`timing_s/${stage}`] = seconds;
  for (const [stage, tokensOf] of Object.entries(TOKENS_OF_STAGE)) {
    const seconds = Object.hasOwn(timingRaw, stage) ? timingRaw[stage] : undefined;
    if (seconds === undefined) continue;
    const tokens = tokensOf(lengths);
    if (tokens === undefined) continue;
    metrics[`timing_per_token_ms/${stage}`] = tokens === 0 ? ofNoTokens : (seconds * 1000) / tokens;
  }
  return metrics;
}

/**
 * NaN passes: it is what a timer says that never started, and shows in the result.
 *
 * @param as what the caller knows the timings as
 * @throws MissingInputError for no timings at all, ValueError for what is no record or one that is no number of seconds
 */
export function assertTimings(where: string, timingRaw: TimingRaw, as = 'timingRaw'): void {
  assertNamed(where, as, timingRaw, {
    expected: 'a record of seconds by stage',
    remedy: 'pass {} if nothing was timed',
  });
  for (const [stage, seconds] of Object.entries<unknown>(timingRaw)) {
    if (typeof seconds === 'number' && !(seconds < 0)) continue;
    throw new ValueError({
      where,
      input: `${as}.${stage}`,
      expected: 'a number of seconds, 0 or more',
      received: kindOf(seconds),
      remedy:
        typeof seconds === 'number'
          ? 'take the times from one clock that never goes back, e.g. performance.now()'
          : 'convert it to a number first',
    });
  }
}
