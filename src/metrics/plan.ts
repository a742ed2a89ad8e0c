/**
 * Plans: what a family of metrics asks of a part of the batch, and what becomes of the answer.
 *
 * A family never launches anything by itself. It plans channels over named tensors and masks, and a finish in float64;
 * all plans of a step over the same part run as one pass, which reads every tensor once, and are read back together.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import type { MissingInputError } from '../errors.js';
import { inputNames } from '../kernels/expression.js';
import { Pending } from '../kernels/index.js';
import {
  type MaskedExpression,
  type MatrixWindow,
  type MomentsPass,
  passTables,
} from '../kernels/moments/pass.js';
import { isDense } from '../kernels/moments/request.js';
import type { MomentsTable } from '../rows/index.js';
import { RESPONSE_TENSORS } from './batch/batch.js';

/** One row per row of the batch for every channel of a plan. */
export type PlanTables<K extends string> = Readonly<Record<K, MomentsTable>>;

/** A channel of a plan. */
export interface PlanChannel extends MaskedExpression {
  /**
   * Whether the finish reads only the total of the table, which may then have another number of rows. Where rows are short, such
   * channels are reduced as one long row: a record per row would cost more than the elements.
   */
  readonly isWhole?: boolean | undefined;
}

/** What a family asks of a `[rows, cols]` part of the batch. */
export interface Plan<T, K extends string = string> {
  /** The tensors that the channels name. A name means the same tensor in all plans of a pass. */
  readonly inputs: Readonly<Record<string, Tensor | MatrixWindow>>;
  /** The masks that the channels name. A name means the same mask in all plans of a pass. */
  readonly masks: Readonly<Record<string, MatrixWindow | undefined>>;
  readonly channels: Readonly<Record<K, PlanChannel>>;
  /** The family's result from the rows of its channels. */
  readonly finish: (tables: PlanTables<K>) => T;
}

/** An input that a batch lacks, and what is left out for it. */
export interface MissingInput {
  readonly error: MissingInputError;
  /** Patterns of keys. */
  readonly keys: string;
  /** Whether the options say that it must be there. */
  readonly isRequired?: boolean;
}

/** A plan for what the inputs of a family allow, and the inputs that the rest of it lacks. */
export interface PartialPlan<T> {
  readonly plan: Plan<T>;
  readonly missing: readonly MissingInput[];
}

/**
 * The plan of a function that is asked for all of its metrics.
 *
 * @throws MissingInputError for the first input that the batch lacks
 */
export function wholePlan<T>({ plan: whole, missing: [first] }: PartialPlan<T>): Plan<T> {
  if (first !== undefined) throw first.error;
  return whole;
}

/** A plan with the names of its channels inferred, for it to be kept among others. */
export function plan<T, K extends string>(of: Plan<T, K>): Plan<T> {
  return of;
}

/** The columns of the batch behind inputs and masks of plans, for error messages. */
const COLUMN_LABELS: Readonly<Record<string, string>> = {
  ...RESPONSE_TENSORS,
  response: RESPONSE_TENSORS.responseMask,
  attended: 'attention_mask',
  existingResponse: RESPONSE_TENSORS.responseMask,
  existingAttended: 'attention_mask',
};

/** Rows of at least so many elements hold more bytes than a record. */
const LONG_ROW = 16;

/**
 * Launches all plans over one part of the batch, as one pass where rows are long.
 *
 * @param where the public function that asks, for error messages
 * @param labels what the caller knows inputs and masks as
 * @returns the results of the plans, in their order
 * @throws BackendError for tensors on two backends
 */
export function runPlans<T extends readonly unknown[]>(
  where: string,
  size: { readonly rows: number; readonly cols: number },
  plans: { readonly [I in keyof T]: Plan<T[I]> },
  labels: Readonly<Record<string, string>> = COLUMN_LABELS,
): Pending<T> {
  const all = plans as readonly Plan<unknown>[];
  const inputs = Object.assign({}, ...all.map((one) => one.inputs)) as Plan<unknown>['inputs'];
  const masks = Object.assign({}, ...all.map((one) => one.masks)) as Plan<unknown>['masks'];
  const channels = all.flatMap((one, index) =>
    Object.entries(one.channels).map(([name, channel]) => [`${index} ${name}`, channel] as const),
  );
  const isShort = size.rows > 1 && size.cols < LONG_ROW;
  const isFlat = ([, { of, mask, isWhole = false }]: (typeof channels)[number]): boolean =>
    isShort &&
    isWhole &&
    [...inputNames(of).map((name) => inputs[name]!), mask === undefined ? undefined : masks[mask]].every(
      (part) => isWholeTensor(part, size.cols),
    );
  const [flat, byRow] = [channels.filter(isFlat), channels.filter((channel) => !isFlat(channel))];
  const launch = (
    part: typeof channels,
    { rows, cols }: typeof size,
    windows: Pick<MomentsPass, 'inputs' | 'masks'>,
  ) => passTables({ where, rows, cols, labels, channels: Object.fromEntries(part), ...windows });
  const launches = [
    ...(flat.length > 0
      ? [() => launch(flat, { rows: 1, cols: size.rows * size.cols }, stretched(inputs, masks, size))]
      : []),
    ...(byRow.length > 0 || flat.length === 0 ? [() => launch(byRow, size, { inputs, masks })] : []),
  ];
  return Pending.launchAll(launches).map((passes) => {
    const tables = Object.assign({}, ...passes) as Record<string, MomentsTable>;
    return all.map((one, index) =>
      one.finish(
        Object.fromEntries(Object.keys(one.channels).map((name) => [name, tables[`${index} ${name}`]!])),
      ),
    );
  }) as unknown as Pending<T>;
}

/** Whether the elements of a part, of so many columns, are all elements of its tensor, in order. */
function isWholeTensor(part: Tensor | MatrixWindow | undefined, cols: number): boolean {
  return part === undefined || !('stride' in part) || (isDense(part, cols) && part.form === undefined);
}

/** The inputs and masks as one row; of those that are no whole tensors no channel of this row makes use. */
function stretched(
  inputs: Plan<unknown>['inputs'],
  masks: Plan<unknown>['masks'],
  { rows, cols }: { readonly rows: number; readonly cols: number },
): { readonly inputs: Plan<unknown>['inputs']; readonly masks: Plan<unknown>['masks'] } {
  const stretch = <P extends Tensor | MatrixWindow | undefined>(part: P): P | MatrixWindow =>
    part !== undefined && 'stride' in part
      ? { tensor: part.tensor, stride: rows * cols, offset: 0, step: 1 }
      : part;
  const all = <P extends Tensor | MatrixWindow | undefined>(parts: Readonly<Record<string, P>>) =>
    Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, stretch(part)] as const));
  return { inputs: all(inputs), masks: all(masks) };
}
