/**
 * Batches in AReaL's form: sequences of prompt and response together, without a column in which all responses begin.
 *
 * Where a row's response begins is told by `loss_mask`, or by `versions` where that mask was cleared. What follows is counted as
 * verl counts it: everything up to there is prompt, everything behind it that the attention mask has is response, tool output and
 * later user turns included.
 */
import * as tf from '@tensorflow/tfjs-core';
import { assertNamed, assertOptions } from '../../arguments.js';
import { MissingInputError, ShapeError, ValueError } from '../../errors.js';
import { type NamedTensor, assertNumericTensor } from '../../kernels/residency.js';
import { selectionOf, tidyWhere } from '../../kernels/resident-ops.js';
import { meantName } from '../../meant-name.js';
import { Told, warn } from '../../warning.js';
import { type RolloutBatch, assertBatch } from './batch.js';

/** Columns of a trajectory: place t is about token t. */
interface TrajectoryColumns<T> {
  /** `[B, L]`: the tokens that exist. */
  readonly attention_mask: T;
  /** `[B, L]`: tokens that the policy wrote and that take part in the loss. */
  readonly loss_mask: T;
  /** `[B, L]`: log π of the policy that generated, nats. */
  readonly logprobs?: T | null | undefined;
  /**
   * `[B, L]`: version of the policy that generated the token, from 0; −1 on tokens of the prompt and of the environment. A response
   * begins at its first token of `versions` ≥ 0 or of `loss_mask`, whichever comes first. Leave it out if it does not mark the prompt: on `cpu` and `wasm` a warning tells once of
   * rows that have no prompt by it, and of which `loss_mask` leaves out the beginning (`TENSORTALLY_AREAL_VERSIONS`).
   */
  readonly versions?: T | null | undefined;
  /** `[B]` or `[B, 1]`: the score of the sequence; or `[B, L]`, scores of tokens. */
  readonly rewards?: T | null | undefined;
  readonly input_ids?: T | null | undefined;
}

/** What a forward pass gives, `[B, L]`: in AReaL place t is about token t + 1, which the logits at t predict. */
interface ForwardColumns<T> {
  /** log π of the policy at the start of the update, nats. */
  readonly prox_logp?: T | null | undefined;
  /** log π of the reference policy, nats. */
  readonly ref_logp?: T | null | undefined;
  /** log π of the policy that is updated, nats. */
  readonly new_logp?: T | null | undefined;
  /** Entropy of the policy, nats. */
  readonly entropy?: T | null | undefined;
  /** The critic's predictions. */
  readonly values?: T | null | undefined;
}

/** What the trainer makes of both, `[B, L]`, in the places of `loss_mask`. */
interface AdvantageColumns<T> {
  readonly advantages?: T | null | undefined;
  readonly returns?: T | null | undefined;
  /** Scores minus penalties; without them the scores. */
  readonly tot_rewards?: T | null | undefined;
}

/** The columns of `batchFromAreal`. */
export type ArealTensors = TrajectoryColumns<tf.Tensor> &
  ForwardColumns<tf.Tensor> &
  AdvantageColumns<tf.Tensor>;

/** Options of `batchFromAreal`. */
export interface ArealBatchOptions {
  /**
   * Whether loss_mask and logprobs are rolled one place to the left, as AReaL's `compute_advantages` leaves them: there place t is about
   * token t + 1, as in the columns of a forward pass and of advantages. attention_mask, versions and rewards are not rolled.
   * Default false; to be said where columns of a forward pass and of advantages come together.
   */
  readonly isRolled?: boolean | undefined;
}

/** A batch that holds tensors of its own beside the caller's. */
export interface OwningBatch extends RolloutBatch {
  /** Disposes the tensors that were made for the batch; a `tf.tidy` around the call does that as well. */
  dispose(): void;
}

const WHERE = 'batchFromAreal';

/** All columns; a new one cannot be left out. */
const COLUMNS = {
  attention_mask: 'any',
  loss_mask: 'any',
  logprobs: 'any',
  versions: 'any',
  rewards: 'any',
  input_ids: 'any',
  prox_logp: 'any',
  ref_logp: 'any',
  new_logp: 'any',
  entropy: 'any',
  values: 'any',
  advantages: 'any',
  returns: 'any',
  tot_rewards: 'any',
} as const satisfies Record<keyof ArealTensors, 'any'>;

const FORWARD = {
  prox_logp: 'oldLogProbs',
  ref_logp: 'refLogProbs',
  new_logp: 'logProbs',
  entropy: 'entropys',
  values: 'values',
} as const satisfies Record<keyof ForwardColumns<unknown>, keyof RolloutBatch>;

const ADVANTAGES = {
  advantages: 'advantages',
  returns: 'returns',
  tot_rewards: 'tokenLevelRewards',
} as const satisfies Record<keyof AdvantageColumns<unknown>, keyof RolloutBatch>;

/**
 * A batch from AReaL's columns over whole sequences, padded to L.
 *
 * Rows have the prompt and response lengths that the masks tell, also where loss masks have gaps; a row in which nothing was
 * generated has a response of no token. The score of a sequence is put on its last token.
 *
 * @param tensors `{ attention_mask, loss_mask, logprobs, versions, rewards, … }`, see `ArealTensors`
 * @returns the batch, for all functions that take one, with tensors of its own on the back end of the masks: `[B]` lengths, scores
 *   of tokens, and columns of a forward pass moved to the places of their tokens. Nothing is read back
 * @throws MissingInputError without masks, or where it must be said whether columns are rolled; ShapeError, DtypeError,
 *   DisposedTensorError, BackendError, ValueError naming all columns that do not exist
 * @source AReaL, workflow/rlvr.py; trainer/ppo/actor.py, compute_advantages
 * @example
 *   const batch = batchFromAreal({ attention_mask, loss_mask, logprobs, versions, rewards });
 *   const metrics = await computeStepMetrics(batch);
 *   batch.dispose();
 */
export function batchFromAreal(tensors: ArealTensors, options: ArealBatchOptions = {}): OwningBatch {
  const call = 'call it as batchFromAreal({ attention_mask, loss_mask, logprobs, rewards })';
  assertNamed(WHERE, 'tensors', tensors, { expected: 'a record of tensors by name', remedy: call });
  assertOptions(WHERE, options, { isRolled: 'boolean' });
  const given = withoutNulls(tensors);
  assertColumns(given);
  for (const [name, tensor] of Object.entries(given)) assertNumericTensor(WHERE, name, tensor);
  for (const name of ['attention_mask', 'loss_mask'] as const) assertNumericTensor(WHERE, name, given[name]);
  const { attention_mask: attentionMask, loss_mask: lossMask, logprobs, rewards } = tensors;
  for (const [name, tensor] of Object.entries(given)) assertShape(name, tensor, attentionMask.shape);
  const isRolled = options.isRolled ?? assertToldApart(given);

  const named: NamedTensor[] = Object.entries(given).map(([name, tensor]) => ({ name, tensor }));
  const own = tidyWhere(WHERE, named, () => ({
    ...lengthsOf(given, isRolled),
    ...(rewards && { tokenLevelScores: scoresOf(rewards, attentionMask) }),
    ...fieldsOf(FORWARD, given, isRolled ? tf.clone : movedRight),
  }));
  const { tokenLevelScores } = own as { readonly tokenLevelScores?: tf.Tensor };
  const [batchSize, responseWidth] = attentionMask.shape as [number, number];
  const batch: RolloutBatch = {
    batchSize,
    responseWidth,
    isFullSequence: true,
    attentionMask,
    responseMask: lossMask,
    rolloutLogProbs: logprobs ?? undefined,
    tokenLevelRewards: tokenLevelScores,
    ...fieldsOf(ADVANTAGES, given, (tensor) => tensor),
    ...own,
  };
  assertBatch(WHERE, batch);
  return {
    ...batch,
    dispose: () => {
      tf.dispose(Object.values(own));
    },
  };
}

type Given = Readonly<Record<string, tf.Tensor>>;

/** @throws ValueError naming all columns that there are not: a misspelt one would leave its metrics out in silence */
function assertColumns(given: Given): void {
  const strangers = Object.keys(given).filter((name) => !Object.hasOwn(COLUMNS, name));
  if (strangers.length === 0) return;
  const known = Object.keys(COLUMNS);
  const meant = strangers.flatMap((name) => {
    const column = meantName(name, known);
    return column === undefined ? [] : [`${column} for ${name}`];
  });
  throw new ValueError({
    where: WHERE,
    input: strangers.map((name) => `tensors.${name}`).join(', '),
    expected: `the columns ${known.join(', ')}`,
    received: strangers.length === 1 ? 'a column that does not exist' : 'columns that do not exist',
    remedy: `${meant.length === 0 ? '' : `did you mean ${meant.join(', ')}? `}spell them as these, or leave them out`,
  });
}

function withoutNulls(tensors: ArealTensors): Given {
  return Object.fromEntries(
    Object.entries(tensors).filter(([, tensor]) => tensor !== undefined && tensor !== null),
  );
}

/** The columns that there are, by field of the batch. */
function fieldsOf(
  names: Readonly<Record<string, string>>,
  given: Given,
  of: (tensor: tf.Tensor) => tf.Tensor,
): Record<string, tf.Tensor> {
  return Object.fromEntries(
    Object.entries(names).flatMap(([name, field]) => (given[name] ? [[field, of(given[name])]] : [])),
  );
}

/**
 * Whether the columns are rolled, where nobody said so: they are not, since AReaL rolls them when it computes advantages.
 *
 * @throws MissingInputError where that cannot be known, and matters
 */
function assertToldApart(given: Given): false {
  const hasAny = (names: object): boolean => Object.keys(names).some((name) => name in given);
  if (!hasAny(FORWARD) || !hasAny(ADVANTAGES)) return false;
  throw new MissingInputError({
    where: WHERE,
    input: 'options.isRolled',
    expected: 'true or false, since there are columns of a forward pass and of advantages',
    received: 'nothing',
    remedy:
      'pass true behind compute_advantages, which rolls loss_mask and logprobs one place to the left, else false',
  });
}

function assertShape(name: string, tensor: tf.Tensor, shape: readonly number[]): void {
  const [rows, cols] = shape;
  const fits = tensor.rank === 2 && tensor.shape[0] === rows && tensor.shape[1] === cols;
  const isPerRow = name === 'rewards' && tensor.shape[0] === rows && tensor.size === rows && tensor.rank <= 2;
  if (fits || isPerRow) return;
  throw new ShapeError({
    where: WHERE,
    input: name,
    expected:
      name === 'attention_mask'
        ? '[batch, sequence]'
        : `the shape of attention_mask, [${shape.join(', ')}]${name === 'rewards' ? `, or [${rows}]` : ''}`,
    received: `[${tensor.shape.join(', ')}]`,
    remedy: 'pass whole sequences, prompt and response, padded to one length',
  });
}

/** The places 0, 1, 2, … of a sequence. */
function placesOf(mask: tf.Tensor): tf.Tensor {
  return tf.expandDims(tf.range(0, mask.shape[1]!, 1, 'float32'), 0);
}

/** `[B]` int32: tokens before the first that was generated, and all others. */
function lengthsOf(given: Given, isRolled: boolean): { promptLength: tf.Tensor; responseLength: tf.Tensor } {
  const attended = selectionOf(given.attention_mask!);
  const [rows, cols] = attended.shape as [number, number];
  if (rows * cols === 0) {
    return { promptLength: tf.zeros([rows], 'int32'), responseLength: tf.zeros([rows], 'int32') };
  }
  const ofLoss = selectionOf(given.loss_mask!);
  const { versions } = given;
  const places = placesOf(attended);
  const placeWhere = (selected: tf.Tensor, shift: number): tf.Tensor =>
    tf.min(tf.where(selected, tf.add(tf.zeros([rows, cols]), tf.add(places, shift)), cols), 1, true);
  const byLoss = placeWhere(ofLoss, isRolled ? 1 : 0);
  // Versions stay where they were when the others are rolled.
  const byVersion = versions && placeWhere(tf.greaterEqual(versions, tf.scalar(0, versions.dtype)), 0);
  const start = byVersion ? tf.minimum(byLoss, byVersion) : byLoss;
  const count = (selected: tf.Tensor): tf.Tensor => tf.sum(tf.cast(selected, 'int32'), 1);
  const promptLength = count(tf.logicalAnd(attended, tf.less(places, start)));
  if (byVersion)
    tellContradiction(tf.logicalAnd(tf.less(byVersion, byLoss), tf.less(byLoss, cols)), promptLength);
  return { promptLength, responseLength: tf.sub(count(attended), promptLength) };
}

const told = new Told();

/** Rows without a prompt by their versions, of which `loss_mask` leaves out the beginning; looked for where it costs no transfer. */
function tellContradiction(startsLater: tf.Tensor, promptLength: tf.Tensor): void {
  if (!['cpu', 'wasm'].includes(tf.getBackend())) return;
  const rows = tf.logicalAnd(tf.reshape(startsLater, promptLength.shape), tf.equal(promptLength, 0));
  if (!rows.dataSync().some(Boolean) || told.fresh(['versions']).length === 0) return;
  warn(
    'TENSORTALLY_AREAL_VERSIONS',
    `${WHERE}: versions say of every token of a row that the policy generated it, and loss_mask leaves out its beginning; ` +
      'put -1 on the tokens of the prompt, or leave versions out',
  );
}

/** `[B, L]`: scores of sequences on their last tokens. */
function scoresOf(rewards: tf.Tensor, attentionMask: tf.Tensor): tf.Tensor {
  const [rows, cols] = attentionMask.shape as [number, number];
  const scores = tf.cast(rewards, 'float32');
  if (rewards.rank === 2 && rewards.shape[1] === cols) return scores;
  if (rows * cols === 0) return tf.zeros([rows, cols]);
  const places = tf.add(tf.zeros([rows, cols]), placesOf(attentionMask));
  const last = tf.max(tf.where(selectionOf(attentionMask), places, -1), 1, true);
  return tf.where(tf.equal(places, last), tf.reshape(scores, [rows, 1]), tf.zeros([rows, cols]));
}

/** Every number at the place of the token that it is about; none is about the first. */
function movedRight(tensor: tf.Tensor): tf.Tensor {
  const [rows, cols] = tensor.shape as [number, number];
  if (rows * cols === 0) return tf.clone(tensor);
  return tf.concat([tf.zeros([rows, 1], tensor.dtype), tf.slice(tensor, [0, 0], [rows, cols - 1])], 1);
}
