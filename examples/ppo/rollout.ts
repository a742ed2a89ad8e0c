/**
 * Rollouts: draw prompts, let the actor answer them token by token, and lay both out as padded rows.
 *
 * Layout of a row, as trainers have it: the prompt on the right end of its `P` places (left-padded), then the response
 * from the left end of its `T` places (right-padded). Sampling happens on the host from the seeded stream.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as tf from '@tensorflow/tfjs';
import type { Network } from './policy.js';
import type { Random } from './random.js';
import {
  END,
  PADDING,
  RESPONSE_VOCABULARY,
  SEPARATOR,
  promptTokens,
  promptWidth,
  responseWidth,
  type TaskConfig,
} from './task.js';

/** Sampled responses on the host. */
export interface Rollout {
  readonly prompts: readonly (readonly number[])[];
  /** One list of sampled tokens per prompt, {@link END} included where the policy stopped by itself. */
  readonly responses: readonly (readonly number[])[];
  /** Prompt places per row. */
  readonly promptWidth: number;
  /** Response places per row. */
  readonly responseWidth: number;
  /** `[B, P+T]` token ids. */
  readonly tokens: Int32Array;
  /** `[B, P+T]` 1 at prompt and response tokens, 0 at padding. */
  readonly attention: Float32Array;
  /** `[B, T]` 1 at response tokens. */
  readonly responseMask: Float32Array;
  /** `[B, T]` log-probability of each sampled token as the sampler saw it; 0 at padding. */
  readonly logProbs: Float32Array;
}

/**
 * Lets the actor answer prompts.
 *
 * @param actor The policy; its head has one output per token that a response may hold.
 * @param random Where samples are drawn from; give each call its own stream.
 */
export async function sampleResponses(
  actor: Network,
  task: TaskConfig,
  prompts: readonly (readonly number[])[],
  random: Random,
): Promise<Rollout> {
  const batch = prompts.length;
  const prefix = promptWidth(task);
  const room = responseWidth(task);
  const width = prefix + room;
  const tokens = new Int32Array(batch * width).fill(PADDING);
  const attention = new Float32Array(batch * width);
  const responseMask = new Float32Array(batch * room);
  const logProbs = new Float32Array(batch * room);
  const responses = prompts.map((): number[] => []);
  prompts.forEach((prompt, row) => {
    const first = row * width + prefix - promptTokens(prompt);
    tokens.set([...prompt, SEPARATOR], first);
    attention.fill(1, first, row * width + prefix);
  });
  const running = prompts.map(() => true);
  for (let place = 0; place < room && running.includes(true); place += 1) {
    const logits = await nextLogits(actor, tokens, attention, batch, width, prefix + place);
    for (let row = 0; row < batch; row += 1) {
      if (running[row] !== true) continue;
      const { token, logProb } = sample(logits, row * RESPONSE_VOCABULARY, random.uniform());
      tokens[row * width + prefix + place] = token;
      attention[row * width + prefix + place] = 1;
      responseMask[row * room + place] = 1;
      logProbs[row * room + place] = logProb;
      responses[row]!.push(token);
      running[row] = token !== END;
    }
  }
  return {
    prompts,
    responses,
    promptWidth: prefix,
    responseWidth: room,
    tokens,
    attention,
    responseMask,
    logProbs,
  };
}

/** The logits of the token after the first `length` places of every row, `[B × RESPONSE_VOCABULARY]`. */
async function nextLogits(
  actor: Network,
  tokens: Int32Array,
  attention: Float32Array,
  batch: number,
  width: number,
  length: number,
): Promise<Float32Array> {
  const logits = tf.tidy(() => {
    const seen = tf.slice(tf.tensor2d(tokens, [batch, width], 'int32'), [0, 0], [batch, length]);
    const open = tf.slice(tf.tensor2d(attention, [batch, width]), [0, 0], [batch, length]);
    return actor.forward(seen, open, length - 1, 1);
  });
  const values = await logits.data<'float32'>();
  await nextTurn(); // a backend without a device answers at once, and Ctrl-C would never be heard
  logits.dispose();
  return values;
}

/** Draws from the softmax of one row of logits by inverting its cumulative distribution, in float64. */
function sample(logits: Float32Array, offset: number, draw: number): { token: number; logProb: number } {
  let top = -Infinity;
  for (let token = 0; token < RESPONSE_VOCABULARY; token += 1) top = Math.max(top, logits[offset + token]!);
  let total = 0;
  for (let token = 0; token < RESPONSE_VOCABULARY; token += 1)
    total += Math.exp(logits[offset + token]! - top);
  let left = draw * total;
  let token = 0;
  while (token < RESPONSE_VOCABULARY - 1) {
    left -= Math.exp(logits[offset + token]! - top);
    if (left < 0) break;
    token += 1;
  }
  return { token, logProb: logits[offset + token]! - top - Math.log(total) };
}
