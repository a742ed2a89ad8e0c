/**
 * The mergeable state of a step: one row of moments per row of the batch for every channel, before anything is finished.
 *
 * All metrics of a step are functions of these rows. So the states of micro-batches or ranks, one after the other, are
 * the state of the whole, and what is finished from it is what the whole batch would have given.
 */
import { assertOptions, kindOf, markCopy } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import type { Metrics } from '../numbers/statistics.js';
import { stepSeconds, throughputOf } from '../time/throughput.js';
import { type TimingRaw, assertTimings, timingsOf } from '../time/timing.js';
import { assertVarianceProxyOptions } from '../variance-proxy.js';
import { type StateContents, differenceOf, knownLengths, mergedContents } from './contents.js';
import { decodeState, encodeState } from './encoding.js';
import { type Skipped, type StepFamily, type TensorFamily, finishFamily } from './families.js';

/** What is known of a step as a whole, and of none of its rows. */
export interface StepFacts {
  /** Seconds by stage; without them there are no timing and throughput metrics. */
  readonly timing?: TimingRaw | undefined;
  /** GPUs that worked on the step; without them there is no throughput. */
  readonly nGpus?: number | undefined;
  /** Norm of the gradient of the step, before clipping; without it signal and noise of the proxies are NaN. */
  readonly gradientNorm?: number | undefined;
}

/** The kinds of `StepFacts`, for `assertOptions`. */
export const factKinds = { timing: 'any', nGpus: 'any', gradientNorm: 'any' } as const;

const METRICS = 'StepState.metrics';
const MERGE = 'StepState.merge';

/**
 * What all metrics of a step are computed from, made by `computeStepState`: of a micro-batch, of a rank's part, or of
 * many of them merged. Immutable.
 *
 * @example
 *   const parts = await Promise.all(microBatches.map((part) => computeStepState(part)));
 *   StepState.merge(parts).metrics({ gradientNorm }); // as of the whole batch
 */
export class StepState {
  static {
    markCopy(this);
  }

  readonly #contents: StateContents;

  /** @param contents of `computeStepState`, checked there */
  constructor(contents: StateContents) {
    this.#contents = contents;
  }

  /** Rows of the batches that it is made of. */
  get rows(): number {
    return this.#contents.rows;
  }

  /** Why a family that looks at tensors is missing, or some of its keys are. */
  get skipped(): Skipped {
    return this.#contents.skipped;
  }

  /**
   * The metrics of all rows, under the keys of `computeStepMetrics`.
   *
   * @param facts of the whole step: seconds, GPUs and the gradient are those of all parts together
   * @throws ValueError for invalid facts
   */
  metrics(facts: StepFacts = {}): Metrics {
    assertFacts(METRICS, facts, 'facts');
    const { lengths, tables, options, groups = [], globalTokenNum } = this.#contents;
    const { responseWidth, promptWidth, isFullSequence, numTurns, toolCallCounts } = this.#contents;
    const known = knownLengths(lengths);
    const widths = { responseWidth, promptWidth, isFullSequence };
    const rows = { lengths: known, ...widths, numTurns, toolCallCounts };
    const { gradientNorm, timing, nGpus } = facts;
    const metrics: Metrics = {};
    for (const [family, own] of Object.entries(tables)) {
      const finishing = { rows, groups, options, gradientNorm };
      Object.assign(metrics, finishFamily(METRICS, family as TensorFamily, own, finishing));
    }
    const isWanted = (family: StepFamily): boolean => this.#contents.families?.includes(family) !== false;
    if (timing !== undefined && isWanted('timing')) {
      Object.assign(metrics, timingsOf(timing, known, options.semantics ?? 'recommended'));
    }
    if (timing !== undefined && isWanted('throughput')) {
      Object.assign(metrics, throughputOf({ globalTokenNum }, known, timing.step, nGpus));
    }
    return metrics;
  }

  /**
   * The state of all rows, in this order.
   *
   * Widths are those of the widest part, as if the rows had been padded to it.
   *
   * @param states one or more, of options to the same effect and of batches with the same inputs
   * @throws ValueError for none, for what is no state, and for states that do not fit each other, naming the option or
   *   the family in which they differ
   */
  static merge(states: readonly StepState[]): StepState {
    const refuse = (input: string, expected: string, received: string): never => {
      const remedy = 'compute the states of all parts with the same options, from the same kinds of inputs';
      throw new ValueError({ where: MERGE, input, expected, received, remedy });
    };
    if (!Array.isArray(states) || states.length === 0) {
      const received = Array.isArray(states) ? 'none' : kindOf(states);
      return refuse('states', 'a list of one state or more', received);
    }
    for (const [i, state] of (states as readonly unknown[]).entries()) {
      if (!(state instanceof StepState)) refuse(`states[${i}]`, 'a StepState', kindOf(state));
    }
    const list = states as readonly StepState[];
    const all = list.map((state) => state.#contents) as [StateContents, ...StateContents[]];
    const [first, ...others] = all;
    for (const [i, other] of others.entries()) {
      const difference = differenceOf(MERGE, first, other);
      if (difference !== undefined) {
        const { part, expected, received } = difference;
        refuse(`states[${i + 1}]: ${part}`, `that of states[0], ${expected}`, received);
      }
    }
    return new StepState(mergedContents(all));
  }

  /** The state as bytes for another process of the same version; its size is a few kB per row. */
  toBytes(): Uint8Array {
    return encodeState(this.#contents);
  }

  /**
   * The state of which `toBytes` made the bytes. What reading takes is a small multiple of them: a header may have 64 KiB
   * beside the groups of the rows, and a state that holds nothing but totals at most 2^30 rows.
   *
   * @throws ValueError for what `toBytes` did not make
   */
  static fromBytes(bytes: Uint8Array): StepState {
    return new StepState(decodeState('StepState.fromBytes', bytes));
  }
}

/**
 * @param as what the caller knows the facts as
 * @throws ValueError for invalid facts
 */
export function assertFacts(where: string, facts: StepFacts, as: 'facts' | 'options'): void {
  assertOptions(where, facts, factKinds, as);
  const { timing, nGpus, gradientNorm } = facts;
  assertVarianceProxyOptions(where, { gradientNorm }, as);
  if (timing !== undefined) assertTimings(where, timing, `${as}.timing`);
  if (nGpus !== undefined) stepSeconds(where, { step: 1 }, nGpus, `${as}.nGpus`);
}

/** Why metrics of time are missing. */
export function skippedOfHost(
  { lengths, globalTokenNum, families }: Pick<StateContents, 'lengths' | 'globalTokenNum' | 'families'>,
  { timing, nGpus }: StepFacts,
): Skipped {
  const skipped: Partial<Record<StepFamily, string>> = {};
  const skip = (family: StepFamily, reasons: readonly (string | undefined)[]): void => {
    const given = reasons.filter((reason) => reason !== undefined);
    if (given.length > 0 && families?.includes(family) !== false) skipped[family] = given.join('; ');
  };
  if (timing === undefined) {
    skip('timing', ['options.timing is missing']);
    skip('throughput', ['options.timing is missing']);
    return skipped;
  }
  const unknown = [lengths.response, lengths.prompt].find((list) => typeof list === 'string');
  skip('timing', [unknown && `${unknown}, for timing_per_token_ms/*`]);
  skip('throughput', [
    nGpus === undefined ? 'options.nGpus is missing' : undefined,
    globalTokenNum === undefined ? unknown : undefined,
    timing.step === undefined
      ? 'timingRaw.step is missing: expected the seconds of the whole step'
      : undefined,
  ]);
  return skipped;
}
