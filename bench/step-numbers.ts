/** The metrics of a step beyond its data metrics in plain float64 loops: what every way is checked against. */
import type { Numbers } from './agreement.js';
import { lengthsOf } from './data-numbers.js';
import { type Statistics, statisticsOf } from './float64.js';
import type { OffPolicy } from './off-policy.js';
import type { Rollout, RolloutShape } from './rollout.js';

/** How a rollout correction is asked for. */
export interface Correction {
  /** Token weights are truncated to this. */
  readonly upper: number;
  /** Tokens are kept whose π_rollout / π_train is between these. */
  readonly kept: readonly [low: number, high: number];
}

/** Where this package and verl define a number differently. */
export interface Definition {
  /** Whether rows without a token count, as 0. */
  readonly countsEmptyRows: boolean;
  /** Whether weights are measured before they are truncated, held between the bound and its inverse for their spread. */
  readonly measuresRaw: boolean;
}

export const RECOMMENDED: Definition = { countsEmptyRows: false, measuresRaw: false };
export const VERL: Definition = { countsEmptyRows: true, measuresRaw: true };

/** Seconds, milliseconds per token and throughput. */
export function timeNumbers(
  host: Rollout,
  shape: RolloutShape,
  timings: Readonly<Record<string, number>> & { readonly step: number },
  gpus: number,
): Numbers {
  const { prompt, response } = lengthsOf(host, shape);
  const total = (lengths: Float64Array): number => lengths.reduce((sum, n) => sum + n, 0);
  const tokens = total(prompt) + total(response);
  const perToken: Record<string, number> = { gen: total(response) };
  for (const stage of ['ref', 'values', 'adv', 'update_critic', 'update_actor']) perToken[stage] = tokens;
  const numbers: Record<string, number> = {
    'perf/total_num_tokens': tokens,
    'perf/time_per_step': timings.step,
    'perf/throughput': tokens / timings.step / gpus,
  };
  for (const [stage, seconds] of Object.entries(timings)) {
    numbers[`timing_s/${stage}`] = seconds;
    if (stage in perToken) numbers[`timing_per_token_ms/${stage}`] = (1000 * seconds) / perToken[stage]!;
  }
  return numbers;
}

/** verl's proxies of the variance of the gradient, without importance weights. */
export function varianceProxyNumbers(
  host: Rollout & OffPolicy,
  shape: RolloutShape,
  gradientNorm: number,
  definition: Definition,
): Numbers {
  const rows = new Rows(host.response_mask, shape, definition);
  const advantages = rows.statistics((i) => host.advantages[i]!).map(meanOf);
  const power = rows.statistics((i) => 1 - 2 * Math.exp(host.old_log_probs[i]!) + host.sum_pi_squared[i]!);
  const total = average(power.map(({ sum }, row) => advantages[row]! ** 2 * sum));
  return {
    'variance_proxy/proxy1_signal_strength': gradientNorm ** 2,
    'variance_proxy/proxy2_total_power': total,
    'variance_proxy/proxy3_pure_noise': Math.max(0, (total - gradientNorm ** 2) / (power.length - 1)),
    'variance_proxy/expected_a_squared': average(advantages.map((a) => a ** 2)),
    'variance_proxy/expected_w': average(power.map(({ sum }) => sum)),
  };
}

/** verl's rollout correction with token weights that are truncated, and rejection of tokens by k1. */
export function correctionNumbers(
  host: Rollout & OffPolicy,
  shape: RolloutShape,
  correction: Correction,
  definition: Definition,
): Numbers {
  const rows = new Rows(host.response_mask, shape, definition);
  const ratio = (i: number): number => host.old_log_probs[i]! - host.rollout_log_probs[i]!;
  const numbers = {
    ...weightNumbers(rows, ratio, correction, definition),
    ...rejectionNumbers(rows, ratio, correction),
    ...divergenceNumbers(rows, host, ratio),
  };
  return Object.fromEntries(Object.entries(numbers).map(([key, value]) => [`rollout_corr/${key}`, value]));
}

function weightNumbers(
  rows: Rows,
  ratio: (i: number) => number,
  { upper }: Correction,
  { measuresRaw }: Definition,
): Numbers {
  const raw = (i: number): number => Math.exp(ratio(i));
  const applied = (i: number): number => Math.min(raw(i), upper);
  const measured = measuresRaw ? raw : applied;
  const all = rows.total(measured);
  const bounded = rows.total(measuresRaw ? (i) => Math.min(Math.max(raw(i), 1 / upper), upper) : applied);
  const means = rows.statistics(measured).map(meanOf);
  const rawMeans = rows.statistics(raw).map(meanOf);
  const share = (holds: (i: number) => boolean): number => rows.total((i) => Number(holds(i))).mean;
  const ofRows = statisticsOf(means);
  return {
    rollout_is_mean: all.mean,
    rollout_is_max: all.max,
    rollout_is_min: all.min,
    rollout_is_ratio_fraction_high: share((i) => raw(i) > upper),
    rollout_is_ratio_fraction_low: share((i) => raw(i) < 1 / upper),
    rollout_is_std: Math.sqrt(bounded.m2 / bounded.count),
    rollout_is_eff_sample_size: bounded.mean ** 2 / (bounded.mean ** 2 + bounded.m2 / bounded.count),
    rollout_is_seq_mean: ofRows.mean,
    rollout_is_seq_std: Math.sqrt(ofRows.m2 / (ofRows.count - 1)),
    rollout_is_seq_max: ofRows.max,
    rollout_is_seq_min: ofRows.min,
    rollout_is_seq_max_deviation: Math.max(...means.map((mean) => Math.abs(mean - 1))),
    rollout_is_seq_fraction_high: average(rawMeans.map((mean) => Number(mean > upper))),
    rollout_is_seq_fraction_low: average(rawMeans.map((mean) => Number(mean < 1 / upper))),
  };
}

function rejectionNumbers(rows: Rows, ratio: (i: number) => number, { kept }: Correction): Numbers {
  const [low, high] = kept.map(Math.log) as [number, number];
  const k1 = (i: number): number => -ratio(i);
  const all = rows.total(k1);
  const held = rows.total((i) => Math.min(Math.max(k1(i), low), high));
  const share = (holds: (i: number) => boolean): number => rows.total((i) => Number(holds(i))).mean;
  const isLost = (i: number): boolean => k1(i) < low || k1(i) > high;
  const answered = rows.answered(k1).map(meanOf);
  const ofRows = statisticsOf(answered);
  const losing = (all: readonly Statistics[]): number => average(all.map(({ sum }) => Number(sum > 0)));
  const lost = (i: number): number => Number(isLost(i));
  const name = 'rollout_rs_token_k1';
  return {
    [`${name}_mean`]: all.mean,
    [`${name}_max`]: all.max,
    [`${name}_min`]: all.min,
    [`${name}_fraction_high`]: share((i) => k1(i) > high),
    [`${name}_fraction_low`]: share((i) => k1(i) < low),
    [`${name}_std`]: Math.sqrt(held.m2 / held.count),
    [`${name}_seq_mean`]: ofRows.mean,
    [`${name}_seq_std`]: Math.sqrt(ofRows.m2 / (ofRows.count - 1)),
    [`${name}_seq_max`]: ofRows.max,
    [`${name}_seq_min`]: ofRows.min,
    [`${name}_seq_max_deviation`]: Math.max(...answered.map(Math.abs)),
    [`${name}_seq_fraction_high`]: average(answered.map((mean) => Number(mean > high))),
    [`${name}_seq_fraction_low`]: average(answered.map((mean) => Number(mean < low))),
    [`${name}_masked_fraction`]: share(isLost),
    [`${name}_seq_masked_fraction`]: losing(rows.answered(lost)),
    rollout_rs_masked_fraction: share(isLost),
    rollout_rs_seq_masked_fraction: losing(rows.statistics(lost)),
  };
}

function divergenceNumbers(rows: Rows, host: OffPolicy, ratio: (i: number) => number): Numbers {
  const training = rows.statistics((i) => -host.old_log_probs[i]!).map(meanOf);
  const sampling = rows.statistics((i) => -host.rollout_log_probs[i]!).map(meanOf);
  const sums = rows.statistics(ratio);
  const difference = sums.map((row) => -meanOf(row));
  const held = (x: number): number => Math.min(Math.max(x, -20), 20);
  return {
    training_ppl: average(training.map(Math.exp)),
    training_log_ppl: average(training),
    kl: -rows.total(ratio).mean,
    k3_kl: rows.total((i) => Math.expm1(ratio(i)) - ratio(i)).mean,
    rollout_ppl: average(sampling.map(Math.exp)),
    rollout_log_ppl: average(sampling),
    log_ppl_diff: average(difference),
    log_ppl_abs_diff: average(difference.map(Math.abs)),
    log_ppl_diff_max: Math.max(...difference),
    log_ppl_diff_min: Math.min(...difference),
    ppl_ratio: average(difference.map(Math.exp)),
    chi2_token: rows.total((i) => Math.expm1(2 * ratio(i))).mean,
    chi2_seq: average(sums.map(({ sum }) => Math.exp(2 * held(sum)))) - 1,
  };
}

/** The rows of a batch, and statistics of what they say at their selected tokens. */
class Rows {
  readonly #mask: Uint8Array;
  readonly #definition: Definition;
  readonly #rows: number;
  readonly #cols: number;
  readonly #scratch: Float64Array;

  constructor(mask: Uint8Array, { rows, responseWidth }: RolloutShape, definition: Definition) {
    this.#mask = mask;
    this.#definition = definition;
    this.#rows = rows;
    this.#cols = responseWidth;
    this.#scratch = new Float64Array(mask.length);
  }

  /** Of all selected tokens. */
  total(of: (i: number) => number): Statistics {
    return statisticsOf(this.#values(of), this.#mask);
  }

  /** Of every row that counts. */
  statistics(of: (i: number) => number): Statistics[] {
    const all = this.#perRow(of);
    return this.#definition.countsEmptyRows ? all : all.filter(({ count }) => count > 0);
  }

  /** Of every row that has a token. */
  answered(of: (i: number) => number): Statistics[] {
    return this.#perRow(of).filter(({ count }) => count > 0);
  }

  #perRow(of: (i: number) => number): Statistics[] {
    const values = this.#values(of);
    return Array.from({ length: this.#rows }, (_, row) => {
      const [from, to] = [row * this.#cols, (row + 1) * this.#cols];
      return statisticsOf(values.subarray(from, to), this.#mask.subarray(from, to));
    });
  }

  #values(of: (i: number) => number): Float64Array {
    for (let i = 0; i < this.#mask.length; i++) if (this.#mask[i] !== 0) this.#scratch[i] = of(i);
    return this.#scratch;
  }
}

/** Of a row without a token 0, where such rows count. */
function meanOf({ count, mean }: Statistics): number {
  return count === 0 ? 0 : mean;
}

function average(values: readonly number[]): number {
  return values.reduce((sum, x) => sum + x, 0) / values.length;
}
