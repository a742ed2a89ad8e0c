/**
 * Plans: what a family of metrics asks of a part of the batch, and what becomes of the answer.
 *
 * A family never launches anything by itself. It plans channels over named tensors and masks, and a finish in float64;
 * all plans of a step over the same part run as one pass, which reads every tensor once, and are read back together.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import type { MissingInputError } from '../errors.js';
import type { MomentsTable, Pending } from '../kernels/index.js';
import { type MaskedExpression, type MatrixWindow, passTables } from '../kernels/moments/pass.js';
import { RESPONSE_TENSORS } from './batch.js';

/** One row per row of the batch for every channel of a plan. */
export type PlanTables<K extends string> = Readonly<Record<K, MomentsTable>>;

/** What a family asks of a `[rows, cols]` part of the batch. */
export interface Plan<T, K extends string = string> {
  /** The tensors that the channels name. A name means the same tensor in all plans of a pass. */
  readonly inputs: Readonly<Record<string, Tensor | MatrixWindow>>;
  /** The masks that the channels name. A name means the same mask in all plans of a pass. */
  readonly masks: Readonly<Record<string, MatrixWindow | undefined>>;
  readonly channels: Readonly<Record<K, MaskedExpression>>;
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

/**
 * Launches all plans over one part of the batch as one pass.
 *
 * @param where the public function that asks, for error messages
 * @param labels what the caller knows inputs and masks as
 * @returns the results of the plans, in their order
 * @throws BackendError for tensors on two backends
 */
export function runPlans<T extends readonly unknown[]>(
  where: string,
  { rows, cols }: { readonly rows: number; readonly cols: number },
  plans: { readonly [I in keyof T]: Plan<T[I]> },
  labels: Readonly<Record<string, string>> = COLUMN_LABELS,
): Pending<T> {
  const all = plans as readonly Plan<unknown>[];
  const channels = all.flatMap((one, index) =>
    Object.entries(one.channels).map(([name, channel]) => [`${index} ${name}`, channel] as const),
  );
  return passTables({
    where,
    rows,
    cols,
    labels,
    inputs: Object.assign({}, ...all.map(({ inputs }) => inputs)) as Plan<unknown>['inputs'],
    masks: Object.assign({}, ...all.map(({ masks }) => masks)) as Plan<unknown>['masks'],
    channels: Object.fromEntries(channels),
  }).map((tables) =>
    all.map((one, index) =>
      one.finish(
        Object.fromEntries(Object.keys(one.channels).map((name) => [name, tables[`${index} ${name}`]!])),
      ),
    ),
  ) as unknown as Pending<T>;
}
