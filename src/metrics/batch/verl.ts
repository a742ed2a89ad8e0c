/** Batches from tensors under verl's names. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertNamed, assertOptions } from '../../arguments.js';
import { ShapeError, ValueError } from '../../errors.js';
import { assertNumericTensor } from '../../kernels/residency.js';
import { meantName } from '../../meant-name.js';
import { Told, warn } from '../../warning.js';
import {
  LISTS,
  RESPONSE_TENSORS,
  ROW_COLUMNS,
  type ResponseField,
  type RolloutBatch,
  assertBatch,
  assertWidth,
  columnsOf,
  rowsOf,
} from './batch.js';
import { WEIGHTS_AS_RETURNED } from './fields.js';
import { UNREAD_LISTS, UNREAD_TENSORS } from './names.js';

type NameIn<T> = T[keyof T];

/** The columns that can be tensors. What is null or undefined is not there. */
export type VerlTensors = Readonly<
  Partial<
    Record<
      | NameIn<typeof RESPONSE_TENSORS>
      | NameIn<typeof ROW_COLUMNS>
      | (typeof UNREAD_TENSORS)[number]
      | 'attention_mask'
      | 'isWeights',
      Tensor | null | undefined
    >
  >
>;

/** The columns that can be lists: numbers where a metric reads them. What is null or undefined is not there. */
export type VerlLists = Readonly<
  Partial<Record<NameIn<typeof LISTS> | NameIn<typeof ROW_COLUMNS>, ArrayLike<number> | null | undefined>>
> &
  Readonly<Partial<Record<(typeof UNREAD_LISTS)[number], unknown>>>;

/** Options of `batchFromVerl`. */
export interface BatchOptions {
  /** T, where neither `response_mask` nor `responses` tells it. */
  readonly responseWidth?: number | undefined;
  /** Called with every column that no metric reads, and why. Without it names that verl does not have are warned of once. */
  readonly onSkipped?: ((column: string, reason: string) => void) | undefined;
}

const WHERE = 'batchFromVerl';

const TENSOR_NAMES: readonly string[] = [
  'attention_mask',
  ...Object.values(RESPONSE_TENSORS),
  ...Object.values(ROW_COLUMNS),
  WEIGHTS_AS_RETURNED,
];
const LIST_NAMES: readonly string[] = [...Object.values(LISTS), ...Object.values(ROW_COLUMNS)];

/**
 * A batch from tensors and arrays under verl's snake_case names.
 *
 * T is the width of `response_mask`, else of `responses`, else `responseWidth`; where T is 1, a tensor `[B]` is as good as
 * `[B, 1]`. What is null or undefined is not there. A name that is close to a known one is refused; what no metric reads
 * is left out, and `onSkipped` is called with it.
 *
 * Without prompt columns all tokens are response. Where rows of such a batch begin with tokens that `response_mask` leaves out, they
 * most likely have prompts: the first function that counts lengths warns of it, once, and `batchFromAreal` takes that form.
 *
 * @param tensors e.g. `{ attention_mask: [B, P + T], response_mask: [B, T], advantages: [B, T], … }`; weights are taken
 *   as `rollout_is_weights`, or as `isWeights`, as `computeRolloutCorrection` returns them
 * @param nonTensor `__num_turns__`, `tool_call_counts`, `prompt_length`, `response_length` (B numbers each) and
 *   `global_token_num`
 * @throws ShapeError for tensors that do not fit together; DtypeError and DisposedTensorError for unusable ones;
 *   ValueError for a misspelt name, a column in the wrong record, and weights under both names
 * @example  const batch = batchFromVerl({ attention_mask, response_mask, advantages, returns, values });
 */
export function batchFromVerl(
  tensors: VerlTensors,
  nonTensor: VerlLists = {},
  options: BatchOptions = {},
): RolloutBatch {
  assertNamed(WHERE, 'tensors', tensors, {
    expected: 'a record of tensors by name',
    remedy: 'call it as batchFromVerl({ response_mask, advantages, … })',
  });
  assertNamed(WHERE, 'nonTensor', nonTensor, {
    expected: 'a record of arrays by name',
    remedy: 'leave it out if there are none',
  });
  assertOptions(WHERE, options, { responseWidth: 'any', onSkipped: 'function' });
  const columns = tensors as Readonly<Record<string, Tensor | null | undefined>>;
  const given = (name: string): Tensor | undefined => {
    const tensor = Object.hasOwn(columns, name) ? columns[name] : undefined;
    if (tensor === undefined || tensor === null) return undefined;
    assertNumericTensor(WHERE, name, tensor);
    return tensor;
  };
  const listed = (name: string): ArrayLike<number> | undefined =>
    Object.hasOwn(nonTensor, name)
      ? ((nonTensor as Readonly<Record<string, ArrayLike<number> | null>>)[name] ?? undefined)
      : undefined;
  const unread = [
    ...strangers('tensors', tensors, TENSOR_NAMES, UNREAD_TENSORS, LIST_NAMES),
    ...strangers('nonTensor', nonTensor, LIST_NAMES, UNREAD_LISTS, TENSOR_NAMES),
  ];
  const fields: Partial<Record<keyof RolloutBatch, unknown>> = {};
  for (const [field, name] of Object.entries(RESPONSE_TENSORS)) {
    const tensor = given(name);
    if (tensor !== undefined) fields[field as ResponseField] = tensor;
  }
  const weights = given(WEIGHTS_AS_RETURNED);
  if (weights !== undefined) fields.rolloutIsWeights = theWeights(weights, given('rollout_is_weights'));
  for (const [field, name] of Object.entries(ROW_COLUMNS)) {
    const column = given(name) ?? listed(name);
    if (column !== undefined) fields[field as keyof typeof ROW_COLUMNS] = column;
  }
  const attentionMask = given('attention_mask');
  if (attentionMask !== undefined) fields.attentionMask = attentionMask;
  for (const [field, name] of Object.entries(LISTS)) {
    const list = listed(name);
    if (list !== undefined) fields[field as keyof typeof LISTS] = list;
  }
  const responseWidth =
    widthOf({ response_mask: given('response_mask'), responses: given('responses') }, options) ??
    widthOfSteps(fields);
  const batch = { ...fields, responseWidth, batchSize: rowsOf(fields) } as RolloutBatch;
  assertBatch(WHERE, batch);
  report(unread, options.onSkipped);
  return batch;
}

/** T of a batch, from the first tensor that has it, else as given. */
function widthOf(
  tensors: Readonly<Record<string, Tensor | undefined>>,
  { responseWidth }: BatchOptions,
): number | undefined {
  const [name, tensor] = Object.entries(tensors).find(([, found]) => found !== undefined) ?? [];
  if (tensor !== undefined && tensor.rank !== 2 && tensor.rank !== 1) {
    throw new ShapeError({
      where: WHERE,
      input: name!,
      expected: '[batch, response], or [batch] for one step a row',
      received: `[${tensor.shape.join(', ')}]`,
      remedy: 'pass all tensors of one batch, padded to one width',
    });
  }
  const width = tensor === undefined ? responseWidth : columnsOf(tensor);
  if (width !== undefined) assertWidth(WHERE, width);
  return width;
}

/** 1 for a batch whose tensors have one number per row; else undefined. */
function widthOfSteps(fields: Partial<Record<keyof RolloutBatch, unknown>>): 1 | undefined {
  const tensors = (Object.keys(RESPONSE_TENSORS) as ResponseField[]).flatMap((field) => {
    const tensor = fields[field] as Tensor | undefined;
    return tensor === undefined ? [] : [tensor];
  });
  return tensors.length > 0 && tensors.every(({ rank }) => rank === 1) ? 1 : undefined;
}

/** The weights of the batch, which came under the name that `computeRolloutCorrection` gives them. */
function theWeights(returned: Tensor, named: Tensor | undefined): Tensor {
  if (named === undefined || named === returned) return returned;
  throw new ValueError({
    where: WHERE,
    input: WEIGHTS_AS_RETURNED,
    expected: 'weights under one name',
    received: 'another tensor than rollout_is_weights',
    remedy: 'pass isWeights or rollout_is_weights, whichever the loss applies',
  });
}

/** A column that no metric reads. */
interface UnreadColumn {
  readonly name: string;
  /** Whether verl's batches have it. */
  readonly isKnown: boolean;
}

/**
 * The columns that no metric reads.
 *
 * @param elsewhere names that belong into the other record
 * @throws ValueError for a name that means another one, and for a column in the wrong record
 */
function strangers(
  record: 'tensors' | 'nonTensor',
  columns: object,
  names: readonly string[],
  unread: readonly string[],
  elsewhere: readonly string[],
): UnreadColumn[] {
  return Object.entries(columns).flatMap(([name, column]: [string, unknown]): UnreadColumn[] => {
    if (column === undefined || column === null || names.includes(name)) return [];
    if (unread.includes(name)) return [{ name, isKnown: true }];
    if (elsewhere.includes(name)) throw misplaced(record, name);
    // A name that means a column which nobody reads does no harm.
    const meant = meantName(name, [...names, ...unread, ...elsewhere]);
    if (meant === undefined || unread.includes(meant)) return [{ name, isKnown: false }];
    throw new ValueError({
      where: WHERE,
      input: name,
      expected: `a name of a column, such as ${meant}`,
      received: 'one that does not exist',
      remedy: `write ${meant}, or leave the column out`,
    });
  });
}

function misplaced(record: 'tensors' | 'nonTensor', name: string): ValueError {
  const isTensor = record === 'nonTensor';
  return new ValueError({
    where: WHERE,
    input: name,
    expected: isTensor ? 'a tensor among the tensors' : 'a list in nonTensor',
    received: `a column of ${record}`,
    remedy: isTensor
      ? `call it as batchFromVerl({ ${name}, … })`
      : `call it as batchFromVerl(tensors, { ${name}: Array.from(await ${name}.data()) })`,
  });
}

const told = new Told();

function report(unread: readonly UnreadColumn[], onSkipped: BatchOptions['onSkipped']): void {
  if (onSkipped !== undefined) {
    for (const { name, isKnown } of unread) {
      onSkipped(name, isKnown ? 'no metric reads it' : 'no column of this name is known');
    }
    return;
  }
  const fresh = told.fresh(unread.filter(({ isKnown }) => !isKnown).map(({ name }) => name));
  if (fresh.length === 0) return;
  warn(
    'TENSORTALLY_UNKNOWN_COLUMN',
    `${WHERE}: no metric reads ${fresh.map((name) => JSON.stringify(name.slice(0, 60))).join(', ')}; ` +
      'pass onSkipped to hear of such columns, or leave them out',
  );
}
