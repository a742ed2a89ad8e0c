/** The PPO update on a fixed batch: it moves probabilities the right way, and its gradients are those of its loss. */
import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, it } from 'vitest';
import { Network } from '../../../examples/ppo/policy.js';
import {
  evaluateActor,
  evaluateCritic,
  updateActor,
  updateCritic,
  type ActorMicroBatch,
  type TrainingBatch,
} from '../../../examples/ppo/ppo.js';
import { Random } from '../../../examples/ppo/random.js';
import { RESPONSE_VOCABULARY, VOCABULARY } from '../../../examples/ppo/task.js';
import { tinyConfig, useCpu } from './tiny-trainer.js';

const ROWS = 4;
const PROMPT = 3;
const RESPONSE = 3;
/** The last token of rows 2 and 4 is padding. */
const MASK = [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0];

beforeAll(useCpu);

function network(outputs: number): Network {
  const config = { ...tinyConfig.body, vocabulary: VOCABULARY, length: PROMPT + RESPONSE, outputs };
  return new Network(config, new Random(5).stream(`${outputs}`));
}

/** A batch of fixed tokens whose old log-probabilities are the actor's own. */
function fixedBatch(actor: Network, advantages: number[]): TrainingBatch {
  const random = new Random(9);
  const shape: [number, number] = [ROWS, RESPONSE];
  const labels = Array.from({ length: ROWS * RESPONSE }, () => random.integer(0, RESPONSE_VOCABULARY - 1));
  const tokens = Array.from({ length: ROWS }, (_, row) => [
    ...Array.from({ length: PROMPT }, () => random.integer(0, 9)),
    ...labels.slice(row * RESPONSE, (row + 1) * RESPONSE),
  ]);
  const attention = tokens.map((_, row) => [1, 1, 1, ...MASK.slice(row * RESPONSE, (row + 1) * RESPONSE)]);
  const rows = {
    tokens: tf.tensor2d(tokens, [ROWS, PROMPT + RESPONSE], 'int32'),
    attention: tf.tensor2d(attention),
    labels: tf.tensor2d(labels, shape, 'int32'),
  };
  const { logProbs, entropy } = evaluateActor(actor, rows);
  entropy.dispose();
  return {
    ...rows,
    responseMask: tf.tensor2d(MASK, shape, 'bool'),
    oldLogProbs: logProbs,
    values: tf.zeros(shape),
    advantages: tf.tensor2d(advantages, shape),
    returns: tf.tensor2d(advantages, shape),
  };
}

/** Alternating signs; what stands at padding would drown the rest if it counted. */
const ADVANTAGES = MASK.map((valid, at) => (valid === 1 ? (at % 2 === 0 ? 1 : -1) : 1e6));

describe('updateActor', () => {
  it('raises the probability of tokens with positive advantage and lowers the others', async () => {
    const actor = network(RESPONSE_VOCABULARY);
    const batch = fixedBatch(actor, ADVANTAGES);
    const config = { ...tinyConfig.update, epochs: 1, miniBatch: ROWS, entropy: 0 };
    await updateActor(actor, tf.train.adam(1e-3), batch, config, () => undefined);
    const moved = tf.sub(evaluateActor(actor, batch).logProbs, batch.oldLogProbs).dataSync<'float32'>();
    const gain = (sign: number): number =>
      moved.reduce((sum, value, at) => (MASK[at] === 1 && ADVANTAGES[at] === sign ? sum + value : sum), 0);
    expect(gain(1)).toBeGreaterThan(0);
    expect(gain(-1)).toBeLessThan(0);
  });

  it('gives the same gradient norm for one micro-batch as for several', async () => {
    const norms = [];
    for (const microBatch of [ROWS, 1]) {
      const actor = network(RESPONSE_VOCABULARY);
      const config = { ...tinyConfig.update, epochs: 1, miniBatch: ROWS, microBatch };
      norms.push(
        ...(await updateActor(
          actor,
          tf.train.adam(1e-3),
          fixedBatch(actor, ADVANTAGES),
          config,
          () => undefined,
        )),
      );
    }
    expect(norms[0]).toBeGreaterThan(0);
    // Sums of at most 12 float32 terms in another order.
    expect(Math.abs(norms[0]! - norms[1]!)).toBeLessThan(1e-5 * norms[0]!);
  });

  it('reports ratios of 1 and nothing clipped while the policy is the one that sampled', async () => {
    const actor = network(RESPONSE_VOCABULARY);
    const config = { ...tinyConfig.update, epochs: 1, miniBatch: ROWS, microBatch: ROWS };
    const seen: { ratio: number[]; clipped: number[] }[] = [];
    await updateActor(
      actor,
      tf.train.adam(1e-3),
      fixedBatch(actor, ADVANTAGES),
      config,
      ({ ratio, clipped }: ActorMicroBatch) => {
        seen.push({ ratio: [...ratio.dataSync()], clipped: [...clipped.dataSync()] });
      },
    );
    expect(seen).toHaveLength(1);
    expect(seen[0]!.ratio).toEqual(MASK.map(() => 1));
    expect(seen[0]!.clipped).toEqual(MASK.map(() => 0));
  });

  it('does not move for tokens that are clipped already', async () => {
    const actor = network(RESPONSE_VOCABULARY);
    const batch = fixedBatch(actor, MASK);
    // Ratios of e^0.5 > 1.2 with positive advantages: the clipped loss is flat.
    const clipped = { ...batch, oldLogProbs: tf.sub<tf.Tensor2D>(batch.oldLogProbs, 0.5) };
    const config = { ...tinyConfig.update, epochs: 1, miniBatch: ROWS, entropy: 0 };
    const norms = await updateActor(actor, tf.train.adam(1e-3), clipped, config, () => undefined);
    expect(norms).toEqual([0]);
  });
});

describe('updateCritic', () => {
  it('moves values towards returns', async () => {
    const critic = network(1);
    const batch = fixedBatch(network(RESPONSE_VOCABULARY), ADVANTAGES);
    const returns = tf.fill<tf.Rank.R2>([ROWS, RESPONSE], 0.5);
    const config = { ...tinyConfig.update, epochs: 4 };
    await updateCritic(critic, tf.train.adam(1e-2), { ...batch, returns }, config, () => undefined);
    const values = evaluateCritic(critic, batch).dataSync<'float32'>();
    expect(values.every((value, at) => MASK[at] === 0 || (value > 0 && value < 1))).toBe(true);
  });
});

describe('Network', () => {
  it('does not look at later tokens or at padding', () => {
    const actor = network(RESPONSE_VOCABULARY);
    const logits = (tokens: number[], attention: number[]): number[] => [
      ...actor.forward(tf.tensor2d([tokens], undefined, 'int32'), tf.tensor2d([attention]), 0, 3).dataSync(),
    ];
    // A head of zeros hides everything: give it something to show.
    const head = actor.parameters.get('head')!;
    head.assign(
      tf.tensor2d(
        Array.from({ length: head.size }, (_, at) => Math.sin(at)),
        [8, RESPONSE_VOCABULARY],
      ),
    );
    // Place 0 is padding in all of them; what it holds itself is never used.
    const whole = logits([1, 2, 3, 4], [0, 1, 1, 1]);
    const later = logits([1, 2, 3, 9], [0, 1, 1, 1]);
    const padded = logits([7, 2, 3, 4], [0, 1, 1, 1]);
    const earlier = logits([1, 5, 3, 4], [0, 1, 1, 1]);
    expect(later.slice(RESPONSE_VOCABULARY)).toEqual(whole.slice(RESPONSE_VOCABULARY));
    expect(padded.slice(RESPONSE_VOCABULARY)).toEqual(whole.slice(RESPONSE_VOCABULARY));
    expect(earlier.slice(2 * RESPONSE_VOCABULARY)).not.toEqual(whole.slice(2 * RESPONSE_VOCABULARY));
  });
});
