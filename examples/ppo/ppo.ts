/**
 * The PPO update: clipped losses of actor and critic, gradients accumulated over micro-batches, Adam.
 *
 * What a micro-batch computed is shown to an observer while its tensors are alive, and freed right after; the update
 * does not know what the observer does with it.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as tf from '@tensorflow/tfjs';
import type { UpdateConfig } from './config.js';
import type { Network } from './policy.js';

/** The rows that an update learns from, on the device. */
export interface TrainingBatch {
  /** `[B, P+T]` int32 token ids. */
  readonly tokens: tf.Tensor2D;
  /** `[B, P+T]` float32, 1 at tokens, 0 at padding. */
  readonly attention: tf.Tensor2D;
  /** `[B, T]` int32 response tokens; any valid id at padding. */
  readonly labels: tf.Tensor2D;
  /** `[B, T]` bool, true at response tokens. */
  readonly responseMask: tf.Tensor2D;
  /** `[B, T]` float32: log-probabilities under the policy that sampled. */
  readonly oldLogProbs: tf.Tensor2D;
  /** `[B, T]` float32: the critic's values before the update. */
  readonly values: tf.Tensor2D;
  /** `[B, T]` float32. */
  readonly advantages: tf.Tensor2D;
  /** `[B, T]` float32. */
  readonly returns: tf.Tensor2D;
}

/** The rows that a forward pass needs. */
export type Rows = Pick<TrainingBatch, 'tokens' | 'attention' | 'labels'>;

/** What one actor micro-batch computed, `[b, T]` each; valid during the observer's call only. */
export interface ActorMicroBatch {
  readonly mask: tf.Tensor2D;
  /** bool: response tokens where clipping raised the loss. */
  readonly clipped: tf.Tensor2D;
  readonly oldLogProbs: tf.Tensor2D;
  readonly newLogProbs: tf.Tensor2D;
  /** π_new / π_old. */
  readonly ratio: tf.Tensor2D;
  readonly entropy: tf.Tensor2D;
  readonly loss: tf.Tensor2D;
}

/** What one critic micro-batch computed, `[b, T]` each; valid during the observer's call only. */
export interface CriticMicroBatch {
  readonly mask: tf.Tensor2D;
  /** bool: response tokens where clipping raised the loss. */
  readonly clipped: tf.Tensor2D;
  readonly oldValues: tf.Tensor2D;
  readonly newValues: tf.Tensor2D;
  readonly returns: tf.Tensor2D;
  readonly loss: tf.Tensor2D;
}

/**
 * What the actor thinks of given responses, from one forward pass.
 *
 * @returns `[b, T]` log π(label) and entropy of π at every response place, in nats.
 */
export function evaluateActor(actor: Network, rows: Rows): { logProbs: tf.Tensor2D; entropy: tf.Tensor2D } {
  return tf.tidy(() => {
    const all = tf.logSoftmax(responseOutputs(actor, rows));
    const chosen = tf.cast(tf.oneHot(rows.labels, actor.config.outputs), 'float32');
    return {
      logProbs: tf.sum<tf.Tensor2D>(tf.mul(all, chosen), -1),
      entropy: tf.neg(tf.sum<tf.Tensor2D>(tf.mul(tf.exp(all), all), -1)),
    };
  });
}

/** The critic's values `[b, T]`: one per response token, from what is known before that token. */
export function evaluateCritic(critic: Network, rows: Rows): tf.Tensor2D {
  return tf.tidy(() => tf.squeeze<tf.Tensor2D>(responseOutputs(critic, rows), [2]));
}

/**
 * Updates the actor. Loss: mean over a mini-batch's tokens of max(−A r, −A clip(r, 1 − ε, 1 + ε)) − c·entropy.
 *
 * @returns The global gradient norm before clipping, one per optimiser step.
 * @source Schulman et al. 2017, "Proximal policy optimization algorithms", eq. 7 and 9
 */
export function updateActor(
  actor: Network,
  optimiser: tf.Optimizer,
  batch: TrainingBatch,
  config: UpdateConfig,
  observe: (microBatch: ActorMicroBatch) => void,
): Promise<number[]> {
  return descend(actor, optimiser, batch, config, observe, (rows) => {
    const { logProbs: newLogProbs, entropy } = evaluateActor(actor, rows);
    const ratio = tf.exp(tf.sub<tf.Tensor2D>(newLogProbs, rows.oldLogProbs));
    const free = tf.neg(tf.mul(rows.advantages, ratio));
    const bounded = tf.neg(tf.mul(rows.advantages, tf.clipByValue(ratio, 1 - config.clip, 1 + config.clip)));
    const loss: tf.Tensor2D = tf.maximum(free, bounded);
    const mask = rows.responseMask;
    const clipped: tf.Tensor2D = tf.logicalAnd(mask, tf.greater(bounded, free));
    const objective: tf.Tensor2D = tf.sub(loss, tf.mul(entropy, config.entropy));
    return {
      objective,
      seen: { mask, clipped, oldLogProbs: rows.oldLogProbs, newLogProbs, ratio, entropy, loss },
    };
  });
}

/**
 * Updates the critic. Loss: mean over a mini-batch's tokens of ½ max((V − R)², (V_clip − R)²), where V_clip keeps V
 * within ε of its value before the update.
 *
 * @returns The global gradient norm before clipping, one per optimiser step.
 */
export function updateCritic(
  critic: Network,
  optimiser: tf.Optimizer,
  batch: TrainingBatch,
  config: UpdateConfig,
  observe: (microBatch: CriticMicroBatch) => void,
): Promise<number[]> {
  return descend(critic, optimiser, batch, config, observe, (rows) => {
    const newValues = evaluateCritic(critic, rows);
    const oldValues = rows.values;
    const moved = tf.add(oldValues, tf.clipByValue(tf.sub(newValues, oldValues), -config.clip, config.clip));
    const free = tf.square(tf.sub(newValues, rows.returns));
    const bounded = tf.square(tf.sub(moved, rows.returns));
    const loss: tf.Tensor2D = tf.mul(tf.maximum(free, bounded), 0.5);
    const mask = rows.responseMask;
    const clipped: tf.Tensor2D = tf.logicalAnd(mask, tf.greater(bounded, free));
    return { objective: loss, seen: { mask, clipped, oldValues, newValues, returns: rows.returns, loss } };
  });
}

/** The network's outputs `[b, T, outputs]` at the places that predict the response tokens. */
function responseOutputs(network: Network, rows: Rows): tf.Tensor3D {
  const responseWidth = rows.labels.shape[1];
  return network.forward(
    rows.tokens,
    rows.attention,
    rows.tokens.shape[1] - responseWidth - 1,
    responseWidth,
  );
}

/** A micro-batch's loss per token, and the tensors that an observer may see. */
interface TokenLoss<Seen> {
  readonly objective: tf.Tensor2D;
  readonly seen: Seen;
}

/** Minimises the token mean of a loss: epochs, mini-batches, micro-batches with accumulated gradients. */
async function descend<Seen extends { readonly [K in keyof Seen]: tf.Tensor }>(
  network: Network,
  optimiser: tf.Optimizer,
  batch: TrainingBatch,
  config: UpdateConfig,
  observe: (seen: Seen) => void,
  tokenLoss: (rows: TrainingBatch) => TokenLoss<Seen>,
): Promise<number[]> {
  const rows = batch.tokens.shape[0];
  const norms: tf.Scalar[] = [];
  for (let epoch = 0; epoch < config.epochs; epoch += 1) {
    for (let first = 0; first < rows; first += config.miniBatch) {
      const mini = sliceRows(batch, first, Math.min(config.miniBatch, rows - first));
      norms.push(step(network, optimiser, mini, config, observe, tokenLoss));
      tf.dispose(Object.values(mini) as tf.Tensor[]);
      await nextTurn(); // lets Ctrl-C be heard
    }
  }
  // Read once at the end: a read in the loop would stall the device between optimiser steps.
  const all = tf.stack(norms);
  const values = await all.data<'float32'>();
  tf.dispose([all, norms]);
  return [...values];
}

/** One optimiser step; returns the gradient norm before clipping, on the device. */
function step<Seen extends { readonly [K in keyof Seen]: tf.Tensor }>(
  network: Network,
  optimiser: tf.Optimizer,
  mini: TrainingBatch,
  config: UpdateConfig,
  observe: (seen: Seen) => void,
  tokenLoss: (rows: TrainingBatch) => TokenLoss<Seen>,
): tf.Scalar {
  return tf.tidy(() => {
    const tokens = tf.sum(tf.cast(mini.responseMask, 'float32'));
    const rows = mini.tokens.shape[0];
    let total: tf.NamedTensorMap = {};
    for (let first = 0; first < rows; first += config.microBatch) {
      const micro = sliceRows(mini, first, Math.min(config.microBatch, rows - first));
      let seen: Seen | undefined;
      const { grads, value } = tf.variableGrads(() => {
        const loss = tokenLoss(micro);
        seen = loss.seen;
        // The tape's own scope would free what the observer is about to see.
        for (const tensor of Object.values<tf.Tensor>(loss.seen)) tf.keep(tensor);
        return tf.div(tf.sum(tf.mul(loss.objective, tf.cast(micro.responseMask, 'float32'))), tokens);
      }, network.variables);
      observe(seen!);
      tf.dispose([value, ...Object.values<tf.Tensor>(seen!), ...(Object.values(micro) as tf.Tensor[])]);
      total = accumulate(total, grads);
    }
    // One by one: `addN` wants more storage buffers at once than a WebGPU device must have.
    const squares = Object.values(total).map((gradient) => tf.sum(tf.square(gradient)));
    const norm = tf.sqrt(squares.reduce((sum, square) => tf.add(sum, square)));
    const scale = tf.minimum(1, tf.div(config.gradientNorm, tf.add(norm, 1e-6)));
    for (const [name, gradient] of Object.entries(total)) total[name] = tf.mul(gradient, scale);
    optimiser.applyGradients(total);
    return norm as tf.Scalar;
  });
}

/** Adds gradients by name; the sums replace both, so a mini-batch holds one set of gradients however many it adds. */
function accumulate(total: tf.NamedTensorMap, grads: tf.NamedTensorMap): tf.NamedTensorMap {
  const sums: tf.NamedTensorMap = {};
  for (const [name, gradient] of Object.entries(grads)) {
    const before = total[name];
    sums[name] = before === undefined ? gradient : tf.add(before, gradient);
    if (before !== undefined) tf.dispose([before, gradient]);
  }
  return sums;
}

/** `count` rows from row `first` of every tensor of a batch. */
function sliceRows(batch: TrainingBatch, first: number, count: number): TrainingBatch {
  const cut = (tensor: tf.Tensor2D): tf.Tensor2D => tf.slice(tensor, [first, 0], [count, tensor.shape[1]]);
  return {
    tokens: cut(batch.tokens),
    attention: cut(batch.attention),
    labels: cut(batch.labels),
    responseMask: cut(batch.responseMask),
    oldLogProbs: cut(batch.oldLogProbs),
    values: cut(batch.values),
    advantages: cut(batch.advantages),
    returns: cut(batch.returns),
  };
}
