/** Estimators of the KL divergence between two policies, from the log-probabilities of the tokens that were sampled. */
import { Tensor } from '@tensorflow/tfjs-core';
import { assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import {
  type Expression,
  type Operand,
  abs,
  clamp,
  expm1,
  expressionOf,
  multiply,
  square,
  subtract,
} from '../../kernels/expression.js';
import { Pending } from '../../kernels/index.js';
import { type RolloutBatch, assertBatch, requireTensors } from '../batch/batch.js';
import { batchShape } from '../batch/response-windows.js';
import type { Metrics } from '../numbers/statistics.js';
import { type Plan, runPlans } from '../plan.js';
import { type Semantics, assertSemantics } from '../semantics.js';
import {
  type RecordTables,
  meanPlan,
  recordMetricsOf,
  recordPlan,
  responsePart,
  sequenceMeanPlan,
} from './plans.js';

export const klEstimatorNames = ['k1', 'abs', 'k2', 'k3'] as const;
export type KlEstimatorName = (typeof klEstimatorNames)[number];

/** verl's older names. */
const ALIASES = { kl: 'k1', mse: 'k2', low_var_kl: 'k3' } as const satisfies Record<string, KlEstimatorName>;

/** An estimator by any name that verl has for it. A trailing `+` is about its gradient and changes no number. */
export type KlPenalty =
  KlEstimatorName | keyof typeof ALIASES | `${KlEstimatorName}+` | `${keyof typeof ALIASES}+`;

/** Log-ratios beyond ±20 are held there before they are exponentiated, and k3 at 10, as verl does. */
const LOG_RATIO_LIMIT = 20;
const K3_LIMIT = 10;

/** By estimator, of d = log π − log π_ref. */
const ESTIMATORS: Readonly<Record<KlEstimatorName, (policy: Operand, reference: Operand) => Expression>> = {
  k1: subtract,
  abs: (policy, reference) => abs(subtract(policy, reference)),
  k2: (policy, reference) => multiply(0.5, square(subtract(policy, reference))),
  k3: (policy, reference) => {
    const x = clamp(subtract(reference, policy), -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
    return clamp(subtract(expm1(x), x), -K3_LIMIT, K3_LIMIT);
  },
};

/**
 * The KL divergence at one token, nats, as an expression for `channelMoments`.
 *
 * With d = logProbs − refLogProbs: `k1` (`kl`) d, unbiased, may be negative · `abs` |d| · `k2` (`mse`) d² / 2 · `k3`
 * (`low_var_kl`) e^x − x − 1 for x = −d clamped to ±20, at most 10; it keeps its digits near 0.
 *
 * @param logProbs log π of the policy that sampled the tokens: an input's name or an expression, nats
 * @param refLogProbs log π of the reference, likewise
 * @param kind default `'k1'`
 * @throws ValueError for an invalid kind, and for what is no expression, tensors among it
 * @source Schulman 2020, "Approximating KL divergence"; verl, trainer/ppo/core_algos.py, kl_penalty
 * @example  await channelMoments({ kl: klPenalty('new', 'ref', 'k3') }, { new: logProbs, ref: refLogProbs }, mask);
 */
export function klPenalty(logProbs: Operand, refLogProbs: Operand, kind: KlPenalty = 'k1'): Expression {
  const name = estimatorOf('klPenalty', 'kind', kind);
  assertNoTensors({ logProbs, refLogProbs });
  return ESTIMATORS[name](expressionOf(logProbs, 'klPenalty'), expressionOf(refLogProbs, 'klPenalty'));
}

/** @throws ValueError for tensors, which verl's function takes in these places */
function assertNoTensors(operands: Readonly<Record<string, unknown>>): void {
  for (const [name, operand] of Object.entries(operands)) {
    if (!(operand instanceof Tensor)) continue;
    throw new ValueError({
      where: 'klPenalty',
      input: name,
      expected: "an input's name or an expression",
      received: kindOf(operand),
      remedy:
        'for tensors call computeKlMetrics(batch), or ' +
        "channelMoments({ kl: klPenalty('new', 'ref') }, { new: logProbs, ref: refLogProbs }, mask)",
    });
  }
}

/**
 * The estimator of that name.
 *
 * @throws ValueError for an invalid kind
 */
export function estimatorOf(where: string, name: string, kind: KlPenalty): KlEstimatorName {
  const names = new Map<unknown, KlEstimatorName>([
    ...klEstimatorNames.map((one) => [one, one] as const),
    ...Object.entries(ALIASES),
  ]);
  const estimator = names.get(typeof kind === 'string' ? kind.replace(/\+$/, '') : kind);
  if (estimator !== undefined) return estimator;
  throw new ValueError({
    where,
    input: name,
    expected: `one of ${[...names.keys()].join(', ')}`,
    received: kindOf(kind),
    remedy: 'choose one of them; a distribution over the vocabulary ("full") is not in the batch',
  });
}

/** Options of `computeKlMetrics`. */
export interface KlMetricsOptions {
  /** Default `'recommended'`. */
  readonly semantics?: Semantics | undefined;
}

const WHERE = 'computeKlMetrics';

/**
 * The KL divergence of the policy from the reference by every estimator, nats: `{k1,abs,k2,k3}/mean` over all tokens of
 * `response_mask`, and `{…}/seq_mean`, the mean over rows of the mean over the tokens of the row. See `klPenalty`.
 *
 * Without a token both are NaN, and a row without one is left out of `seq_mean`; under the verl presets both are 0.
 * One read-back.
 *
 * @param batch needs log_probs, ref_log_prob and response_mask
 * @throws MissingInputError, ShapeError, DtypeError, DisposedTensorError, ValueError, BackendError
 * @source verl, trainer/ppo/core_algos.py, kl_penalty; trainer/ppo/ray_trainer.py, apply_kl_penalty
 * @example  const { 'k3/mean': kl } = await computeKlMetrics(batch);
 */
export async function computeKlMetrics(
  batch: RolloutBatch,
  options: KlMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => klMetrics(batch, options));
}

/** The `Pending` behind `computeKlMetrics`. */
export function klMetrics(batch: RolloutBatch, options: KlMetricsOptions = {}): Pending<Metrics> {
  assertBatch(WHERE, batch);
  const plan = klPlan(batch, options);
  return runPlans<[Metrics]>(WHERE, batchShape(batch), [plan]).map(([metrics]) => metrics);
}

/**
 * What the metrics ask of the response part of a checked batch, to share a pass with others.
 *
 * @throws as `computeKlMetrics`
 */
export function klPlan(batch: RolloutBatch, options: KlMetricsOptions = {}, where = WHERE): Plan<Metrics> {
  assertOptions(where, options, { semantics: 'any' });
  const { semantics = 'recommended' } = options;
  assertSemantics(where, semantics);
  const part = responsePart(where, batch, requireTensors(where, batch, ['logProbs', 'refLogProbs']));
  return recordPlan(
    Object.fromEntries(
      klEstimatorNames.flatMap((name) => {
        const of = klPenalty('logProbs', 'refLogProbs', name);
        return [
          [`${name}/mean`, meanPlan(part, of, semantics)],
          [`${name}/seq_mean`, sequenceMeanPlan(part, of, semantics)],
        ];
      }),
    ),
    (tables) => klMetricsOf(tables, semantics),
  );
}

/** The keys of `klPlan`. */
export const klKeys: readonly string[] = klEstimatorNames.flatMap((name) => [
  `${name}/mean`,
  `${name}/seq_mean`,
]);

/** The metrics of rows, from the channels of `klPlan`. */
export function klMetricsOf(tables: RecordTables, semantics: Semantics): Metrics {
  return recordMetricsOf(tables, semantics, () => NaN);
}
