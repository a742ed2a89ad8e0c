/**
 * Plans that end in one number over the response tokens: a mean, or a mean of row means. Records of such plans are what
 * the policy metrics are made of, one plan per key.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { type Expression, constant } from '../../kernels/expression.js';
import type { MatrixWindow } from '../../kernels/moments/pass.js';
import { Moments, type MomentsRow, type MomentsTable } from '../../rows/index.js';
import { type RolloutBatch, isOneStep, responseWidthOf } from '../batch/batch.js';
import { requireResponseTokens } from '../batch/response-windows.js';
import { stepMoments } from '../batch/steps.js';
import { type Metrics, momentsOf } from '../numbers/statistics.js';
import { type Plan, plan } from '../plan.js';
import type { Semantics } from '../semantics.js';

/** The tokens that a number is about. */
export interface ResponsePart {
  /** `[B, T]` tensors by the names that expressions use. */
  readonly inputs: Readonly<Record<string, Tensor>>;
  /** The tokens that count; undefined for all. */
  readonly response: MatrixWindow | undefined;
  /** T */
  readonly cols: number;
  /** See `isOneStep`. */
  readonly isOneStep?: boolean;
}

/**
 * The tokens that numbers of a batch are about.
 *
 * @throws MissingInputError as `requireResponseTokens`
 */
export function responsePart(
  where: string,
  batch: RolloutBatch,
  inputs: Readonly<Record<string, Tensor>>,
): ResponsePart {
  const response = requireResponseTokens(where, batch);
  return { inputs, response, cols: responseWidthOf(batch)!, isOneStep: isOneStep(batch) };
}

/** Inputs and masks of a plan over the response tokens. */
export function partTokens({ inputs, response }: ResponsePart): Pick<Plan<never>, 'inputs' | 'masks'> {
  return { inputs, masks: { response } };
}

/** Mean of `of` over all response tokens. */
export function meanPlan(part: ResponsePart, of: Expression, semantics: Semantics): Plan<number> {
  return plan({
    ...partTokens(part),
    channels: { mean: { of, mask: 'response', isWhole: true } },
    finish: ({ mean }) => maskedMean(mean.total(), semantics),
  });
}

/** Mean over rows of the mean of `of` over the response tokens of the row. */
export function sequenceMeanPlan(part: ResponsePart, of: Expression, semantics: Semantics): Plan<number> {
  // The mean of a row of one step is that step; a preset counts rows without one, too.
  if (part.isOneStep) {
    return semantics === 'recommended' ? meanPlan(part, of, semantics) : stepMeanPlan(part, of, semantics);
  }
  return plan({
    ...partTokens(part),
    channels: { rowMean: { of, mask: 'response' } },
    finish: ({ rowMean }) => sequenceMean(rowMean, semantics),
  });
}

/** The same of rows of one step, with the rows that have none. */
function stepMeanPlan(part: ResponsePart, of: Expression, semantics: Semantics): Plan<number> {
  return plan({
    ...partTokens(part),
    channels: {
      stepMean: { of, mask: 'response', isWhole: true },
      rows: { of: constant(1), mask: undefined, isWhole: true },
    },
    finish: ({ stepMean, rows }) => meanOfSteps(stepMean, rows, semantics),
  });
}

function meanOfSteps(steps: MomentsTable, rows: MomentsTable, semantics: Semantics): number {
  return stepMoments(steps, { semantics, rows: rows.total().count }).mean;
}

/** Mean of what a row is about; the mean of nothing is NaN, in verl 0. */
function maskedMean(row: MomentsRow, semantics: Semantics): number {
  if (row.count === 0) return semantics === 'recommended' ? NaN : 0;
  return new Moments(row).mean;
}

/** Rows without a token are no sequences; in verl they are, of mean 0. */
function sequenceMean(table: MomentsTable, semantics: Semantics): number {
  const rows = semantics === 'recommended' ? [...table].filter(({ count }) => count > 0) : [...table];
  return momentsOf(rows.map((row) => maskedMean(row, semantics))).mean;
}

/** One plan for many over the same part: the number of each, under its key. */
export function recordPlan(
  plans: Readonly<Record<string, Plan<number>>>,
  finish: (tables: RecordTables) => Metrics,
): Plan<Metrics> {
  const all = Object.entries(plans);
  return plan({
    inputs: Object.assign({}, ...all.map(([, { inputs }]) => inputs)) as Plan<never>['inputs'],
    masks: Object.assign({}, ...all.map(([, { masks }]) => masks)) as Plan<never>['masks'],
    channels: Object.fromEntries(
      all.flatMap(([key, { channels }]) =>
        Object.entries(channels).map(([name, channel]) => [`${key} ${name}`, channel]),
      ),
    ),
    finish,
  });
}

/** The tables of a `recordPlan`: a key, a space, and the name of the channel, which says what the number is. */
export type RecordTables = Readonly<Record<string, MomentsTable>>;

/** A loss from the channels of its plan. */
export type LossOf = (tables: {
  /** The loss of the selected tokens. */
  readonly selected?: MomentsTable | undefined;
  /** Where its sums are taken of products with the mask. */
  readonly products?: MomentsTable | undefined;
  /** The loss of all selected steps, where every sequence is one. */
  readonly steps?: MomentsTable | undefined;
}) => number;

/** The numbers of a `recordPlan`. */
export function recordMetricsOf(tables: RecordTables, semantics: Semantics, lossOf: LossOf): Metrics {
  const metrics: Metrics = {};
  for (const [name, table] of Object.entries(tables)) {
    const cut = name.lastIndexOf(' ');
    const key = name.slice(0, cut);
    switch (name.slice(cut + 1)) {
      case 'mean':
        metrics[key] = maskedMean(table.total(), semantics);
        break;
      case 'rowMean':
        metrics[key] = sequenceMean(table, semantics);
        break;
      case 'stepMean':
        metrics[key] = meanOfSteps(table, tables[`${key} rows`]!, semantics);
        break;
      case 'selected':
        metrics[key] = lossOf({ selected: table, products: tables[`${key} products`] });
        break;
      case 'steps':
        metrics[key] = lossOf({ steps: table });
        break;
    }
  }
  return metrics;
}

/** The channels that a number of a `recordPlan` can have, in the order of their names. */
const RECORD_FORMS = ['mean', 'rowMean', 'rows stepMean', 'selected', 'products selected', 'steps'];

/** Whether these are the channels of a `recordPlan` of some of these keys. */
export function areRecords(channels: readonly string[], keys: readonly string[]): boolean {
  const forms = new Map<string, string[]>();
  for (const name of channels) {
    const cut = name.lastIndexOf(' ');
    const key = name.slice(0, cut);
    if (!keys.includes(key)) return false;
    forms.set(key, [...(forms.get(key) ?? []), name.slice(cut + 1)]);
  }
  return [...forms.values()].every((form) => RECORD_FORMS.includes(form.sort().join(' ')));
}
