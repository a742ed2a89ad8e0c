/**
 * Statistics of groups: the rows that answer one prompt, as GRPO, RLOO and their relatives compare them.
 *
 * A group whose rewards are all equal gives no advantage and so no gradient; how many of them a batch has says more
 * about a run than its mean reward.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertOptions, isArrayLike, kindOf, strangerAt } from '../arguments.js';
import { DtypeError, ShapeError, ValueError } from '../errors.js';
import { abs, constant, input } from '../kernels/expression.js';
import { Pending, RowMoments } from '../kernels/index.js';
import { Moments, type MomentsRow, emptyRow, liftRow, mergeRows, type MomentsTable } from '../rows/index.js';
import { type RolloutBatch, assertBatch, isOneStep, missingTensor } from './batch/batch.js';
import { type NamedMask, withExistingTokens } from './batch/existing-tokens.js';
import { batchShape, requireResponseTokens } from './batch/response-windows.js';
import { isOneNumber } from './numbers/rounding.js';
import { type Metrics, meanMaxMin, momentsOf } from './numbers/statistics.js';
import { type MissingInput, type PartialPlan, type PlanChannel, plan, runPlans, wholePlan } from './plan.js';

/** What names a group: verl's `uid` of the prompt, or a number. */
export type GroupId = string | number;

/** Options of `computeGroupMetrics`. */
export interface GroupMetricsOptions {
  /**
   * A row is right if its score is above this by more than float32 rounding, wrong if not. Default 0.5, between the scores
   * 0 and 1 (or −1 and 1).
   */
  readonly rightAbove?: number | undefined;
}

const WHERE = 'computeGroupMetrics';

/**
 * Moments of the values of every group, in the order in which the groups first appear.
 *
 * A group of one has its value as mean and no standard deviation; the deviations of close values are computed from
 * their differences and no floor is put under them.
 *
 * @param values one number per row
 * @param groups the group of every row
 * @throws ShapeError for lists of different length, DtypeError for values that are not numbers, or invalid ids
 * @source verl, utils/torch_functional.py, group_mean_std, which gives a group of one mean 0 and std 1
 * @example  groupMoments([1, 3, 7], ['a', 'a', 'b']).get('a')?.mean   // 2
 */
export function groupMoments(values: ArrayLike<number>, groups: ArrayLike<GroupId>): Map<GroupId, Moments> {
  assertNumbers('groupMoments', values);
  assertGroups('groupMoments', groups, values.length);
  const rows = new Map<GroupId, MomentsRow>();
  for (const [i, group] of Array.from(groups).entries()) {
    rows.set(group, mergeRows(rows.get(group) ?? emptyRow, liftRow(values[i]!)));
  }
  return new Map(Array.from(rows, ([group, row]) => [group, new Moments(row)]));
}

/**
 * Rewards and scores of a batch by group.
 *
 * Rows are those with a token in the response, and of a row counts the sum over its tokens: those of attention_mask
 * (without one, of response_mask), and those before its response_length if the batch has that column.
 * - `group/count`, `group/size/{mean,max,min}`: groups, and rows per group
 * - `group/singleton_count`: groups of one row, which have nothing to be compared with
 * - `group/reward_mean/{mean,max,min}`: over groups, of the mean of token_level_rewards
 * - `group/reward_std/{mean,max,min}`: over groups of two rows or more, of their unbiased standard deviation
 * - `group/zero_std_ratio`: fraction of those groups in which all rewards are equal but for float32 rounding: they are
 *   apart by at most 2⁻²¹ of Σ|r|, over the tokens of a row: 4.8e-7 for a reward of 1, on one token or spread over many.
 *   So .1 + .9 and .3 + .7 are one reward, and so are 1000 · .001 and 200 · .005
 * - `group/all_right_ratio`, `group/all_wrong_ratio`: fraction of those groups whose rows all score (token_level_scores)
 *   above `rightAbove`, by more than such rounding, or all do not
 *
 * A share is NaN where a row of the groups that it is about has a NaN in what is compared.
 *
 * Pass all rows of a group: statistics of groups cut by a micro-batch or a rank are those of other groups.
 *
 * @param batch needs token_level_rewards, token_level_scores, and attention_mask or response_mask (not for one step a row)
 * @param groups one id per row, e.g. verl's `uid`
 * @returns plain numbers; undefined ones are NaN. One read-back
 * @throws MissingInputError, ShapeError, DtypeError, DisposedTensorError, ValueError, BackendError
 * @source none of verl's metrics; TRL reports `frac_reward_zero_std`
 * @example  await computeGroupMetrics(batch, ['a', 'a', 'b', 'b']);
 */
export async function computeGroupMetrics(
  batch: RolloutBatch,
  groups: ArrayLike<GroupId>,
  options: GroupMetricsOptions = {},
): Promise<Metrics> {
  return Pending.attempt(() => groupMetrics(batch, groups, options));
}

/** The `Pending` behind `computeGroupMetrics`. */
export function groupMetrics(
  batch: RolloutBatch,
  groups: ArrayLike<GroupId>,
  options: GroupMetricsOptions = {},
): Pending<Metrics> {
  assertBatch(WHERE, batch);
  return withExistingTokens(WHERE, batch, (existing) => {
    const asked = wholePlan(groupPlan(batch, existing, groups, options));
    return runPlans<[Metrics]>(WHERE, batchShape(batch), [asked]);
  }).map(([metrics]) => metrics);
}

/** What a group metric is made of, and the keys that are made of it. */
const SOURCES = {
  rewards: {
    field: 'tokenLevelRewards',
    sizes: 'rewardSizes',
    keys: 'group/reward_{mean,std}/*, group/zero_std_ratio',
  },
  scores: { field: 'tokenLevelScores', sizes: 'scoreSizes', keys: 'group/all_{right,wrong}_ratio' },
} as const;

/** The channels of the group metrics. */
export const groupChannels = [
  'rewards',
  'scores',
  /** Their absolute values; not for one step a row, whose sum is its one term. */
  'rewardSizes',
  'scoreSizes',
  /** 1 for every token that exists, where there are neither: groups can be counted all the same. */
  'produced',
] as const;

/**
 * What the metrics ask of the response part of a checked batch, to share a pass with others: all that its columns allow.
 *
 * @param existing see `withExistingTokens`
 * @throws MissingInputError if nothing tells which rows have a token
 */
export function groupPlan(
  batch: RolloutBatch,
  existing: NamedMask | undefined,
  groups: ArrayLike<GroupId>,
  options: GroupMetricsOptions = {},
  where = WHERE,
): PartialPlan<Metrics> {
  assertOptions(where, options, { rightAbove: 'number' });
  const { rightAbove = 0.5 } = options;
  assertThreshold(where, rightAbove);
  assertGroups(where, groups, batch.batchSize, where === WHERE ? 'groups' : 'options.groups');
  const found = existing ?? responseMaskOf(where, batch);
  const mask = found?.name;
  const inputs: Record<string, Tensor> = {};
  const channels: Record<string, PlanChannel> = {};
  const missing: MissingInput[] = [];
  for (const [channel, { field, sizes, keys }] of Object.entries(SOURCES)) {
    const [tensor, error] = [batch[field], missingTensor(where, batch, field)];
    if (error !== undefined) missing.push({ error, keys });
    if (tensor === undefined) continue;
    inputs[field] = tensor;
    channels[channel] = { of: input(field), mask };
    if (!isOneStep(batch)) channels[sizes] = { of: abs(input(field)), mask };
  }
  if (Object.keys(channels).length === 0) channels.produced = { of: constant(1), mask };
  // The caller may go on writing to his list while the numbers are on their way.
  const ids = Array.from(groups);
  return {
    missing,
    plan: plan<Metrics, string>({
      inputs,
      masks: found ? { [found.name]: found.window } : {},
      channels,
      finish: (tables) => groupMetricsOf(tables, ids, { rightAbove }),
    }),
  };
}

/** The last mask that tells which tokens exist; undefined for rows of one step, which all do. */
function responseMaskOf(where: string, batch: RolloutBatch): NamedMask | undefined {
  if (isOneStep(batch)) return undefined;
  return { name: 'response', window: requireResponseTokens(where, batch)! };
}

/** One row per row of the batch, for every channel that the batch allows. */
export type GroupTables = Readonly<Partial<Record<(typeof groupChannels)[number], MomentsTable>>>;

/** The metrics of rows of these groups, from the channels of `groupPlan`. */
export function groupMetricsOf(
  tables: GroupTables,
  ids: readonly GroupId[],
  { rightAbove = 0.5 }: GroupMetricsOptions,
): Metrics {
  const { rewards, scores, rewardSizes, scoreSizes, produced = rewards ?? scores! } = tables;
  const isProduced = Array.from(produced, ({ count }) => count > 0);
  const keptIds = ids.filter((_id, row) => isProduced[row]);
  const ofRows = (values: Float64Array): Moments[] => {
    const kept = values.filter((_value, row) => isProduced[row]);
    return [...groupMoments(kept, keptIds).values()];
  };
  const sizes = ofRows(new Float64Array(ids.length)).map(({ count }) => count);
  const isCompared = ({ count }: Moments): boolean => count > 1;
  return {
    'group/count': sizes.length,
    'group/singleton_count': sizes.filter((size) => size === 1).length,
    ...meanMaxMin('group/size', momentsOf(sizes)),
    ...(rewards && rewardMetrics({ rewards, sizes: rewardSizes ?? rewards }, ofRows, isCompared)),
    ...(scores && scoreShares({ scores, sizes: scoreSizes ?? scores }, ofRows, isCompared, rightAbove)),
  };
}

type OfRows = (values: Float64Array) => Moments[];
type IsCompared = (group: Moments) => boolean;

function rewardMetrics(
  { rewards, sizes }: { readonly rewards: MomentsTable; readonly sizes: MomentsTable },
  ofRows: OfRows,
  isCompared: IsCompared,
): Metrics {
  const all = ofRows(RowMoments.fromTable(rewards).sum);
  const compared = all.filter(isCompared);
  const magnitudes = magnitudesOf(sizes, ofRows, isCompared);
  return {
    ...meanMaxMin('group/reward_mean', momentsOf(all.map(({ mean }) => mean))),
    ...meanMaxMin('group/reward_std', momentsOf(compared.map((group) => group.std()))),
    'group/zero_std_ratio': share(compared, ({ min, max }, i) => isOneNumber(min, max, magnitudes[i])),
  };
}

function scoreShares(
  { scores, sizes }: { readonly scores: MomentsTable; readonly sizes: MomentsTable },
  ofRows: OfRows,
  isCompared: IsCompared,
  rightAbove: number,
): Metrics {
  const compared = ofRows(RowMoments.fromTable(scores).sum).filter(isCompared);
  const magnitudes = magnitudesOf(sizes, ofRows, isCompared);
  const isAbove = (score: number, group: number): boolean =>
    score > rightAbove && !isOneNumber(rightAbove, score, Math.max(magnitudes[group]!, Math.abs(rightAbove)));
  return {
    'group/all_right_ratio': share(compared, ({ min }, i) => isAbove(min, i)),
    'group/all_wrong_ratio': share(compared, ({ max }, i) => !isAbove(max, i)),
  };
}

/**
 * The largest Σ|x| of a row, by group that is compared: what the sum of a row is rounded relative to. Equal terms are all
 * rounded the same way, so their errors add up as the terms do; where terms cancel, as 5.1 − 4.1 do, the errors stay.
 *
 * @param sizes |x|, or x where a row has one term
 */
function magnitudesOf(sizes: MomentsTable, ofRows: OfRows, isCompared: IsCompared): number[] {
  return ofRows(RowMoments.fromTable(sizes).sum.map(Math.abs))
    .filter(isCompared)
    .map(({ max }) => max);
}

/** Fraction of groups for which `holds`; NaN for none, and where nobody knows of one. */
function share(groups: readonly Moments[], holds: (group: Moments, index: number) => boolean): number {
  if (groups.some(({ nan }) => nan > 0)) return NaN;
  return groups.filter(holds).length / groups.length;
}

/** @throws DtypeError for a list that holds anything but numbers */
function assertNumbers(where: string, values: unknown): asserts values is ArrayLike<number> {
  const list = isArrayLike(values) ? values : undefined;
  const stranger = list === undefined ? 0 : strangerAt(list, (value) => typeof value === 'number');
  if (stranger === -1) return;
  throw new DtypeError({
    where,
    input: 'values',
    expected: 'an array of numbers',
    received: list === undefined ? kindOf(values) : `${kindOf(list[stranger])} at ${stranger}`,
    remedy: 'convert it first, e.g. Float64Array.from(values, Number), or Array.from(await tensor.data())',
  });
}

/** @throws DtypeError for a list that holds anything but ids, ShapeError unless it has one for every row */
export function assertGroups(
  where: string,
  groups: unknown,
  rows: number,
  as = 'groups',
): asserts groups is ArrayLike<GroupId> {
  const list = isArrayLike(groups) ? groups : undefined;
  const stranger =
    list === undefined
      ? 0
      : strangerAt(list, (id) => typeof id === 'string' || (typeof id === 'number' && id === id));
  if (list === undefined || stranger !== -1) {
    throw new DtypeError({
      where,
      input: as,
      expected: 'an array of texts or numbers',
      received: list === undefined ? kindOf(groups) : `${kindOf(list[stranger])} at ${stranger}`,
      remedy: "pass the uid of every row's prompt",
    });
  }
  if (list.length === rows) return;
  throw new ShapeError({
    where,
    input: as,
    expected: `one id per row, ${rows}`,
    received: String(list.length),
    remedy: 'pass the ids of the same batch, repeated as the prompts were',
  });
}

/** @throws ValueError for a threshold that is NaN */
export function assertThreshold(where: string, rightAbove: number): void {
  if (!Number.isNaN(rightAbove)) return;
  throw new ValueError({
    where,
    input: 'options.rightAbove',
    expected: 'the score that a right answer exceeds',
    received: kindOf(rightAbove),
    remedy: 'leave it out for 0.5',
  });
}
