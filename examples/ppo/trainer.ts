/**
 * The training loop: rollout, scores, old log-probabilities, values, advantages, both updates. Validation is a rollout as
 * well, of the policy that the step begins with, and runs beside the one to train on.
 *
 * Phases are timed by the clock on the wall: on a step with validation, each of the two includes turns of the other.
 *
 * It hands what it has to an observer and neither computes statistics nor prints. The order and the names of the
 * phases are those of verl's PPO trainer.
 */
import * as tf from '@tensorflow/tfjs';
import { withRollout } from '../../src/tracker/index.js';
import type { TrainerConfig } from './config.js';
import { estimateAdvantages, whiten } from './gae.js';
import { Network } from './policy.js';
import {
  evaluateActor,
  evaluateCritic,
  updateActor,
  updateCritic,
  type ActorMicroBatch,
  type CriticMicroBatch,
  type TrainingBatch,
} from './ppo.js';
import { Random } from './random.js';
import { sampleResponses, type Rollout } from './rollout.js';
import { RESPONSE_VOCABULARY, VOCABULARY, drawPrompt, promptWidth, responseWidth, score } from './task.js';
import { drawValidationPrompts, repeated, validationResult, type ValidationResult } from './validate.js';

/** The parts of a step that are timed. */
export type Phase =
  'gen' | 'reward' | 'old_log_prob' | 'values' | 'adv' | 'update_critic' | 'update_actor' | 'testing';

/** The tensors of a step: what it learnt from, and the rewards that led there. */
export interface StepTensors extends TrainingBatch {
  /** `[B, T]` float32: the verifier's score at the last token of each response. */
  readonly scores: tf.Tensor2D;
  /** `[B, T]` float32: log-probabilities as the sampler computed them. */
  readonly rolloutLogProbs: tf.Tensor2D;
}

/** Everything that a finished step has to show; its tensors are valid until `stepEnded` settles. */
export interface FinishedStep {
  /** From 1. */
  readonly step: number;
  readonly rollout: Rollout;
  /** Score per response, in [0, 1]. */
  readonly scores: readonly number[];
  readonly tensors: StepTensors;
  /** Global gradient norms before clipping, one per optimiser step. */
  readonly actorGradientNorms: readonly number[];
  readonly criticGradientNorms: readonly number[];
  readonly validation: ValidationResult | undefined;
}

/** Who watches a run. Micro-batch tensors are valid during the call only. */
export interface TrainingObserver {
  stepStarted(step: number): void;
  /** Runs one part of a step, and returns what it returns. */
  phase<T>(phase: Phase, body: () => Promise<T>): Promise<T>;
  criticMicroBatch(microBatch: CriticMicroBatch): void;
  actorMicroBatch(microBatch: ActorMicroBatch): void;
  /** Hears of responses and their scores in the context of their rollout: training or evaluation, see `withRollout`. */
  episodesEnded(rollout: Rollout, scores: readonly number[]): void;
  stepEnded(step: FinishedStep): Promise<void>;
}

/** What is learnt, and what learns it. */
interface Learner {
  readonly config: TrainerConfig;
  readonly random: Random;
  readonly actor: Network;
  readonly critic: Network;
  readonly actorOptimiser: tf.Optimizer;
  readonly criticOptimiser: tf.Optimizer;
  readonly validationPrompts: readonly (readonly number[])[];
}

/**
 * Trains on the active tfjs backend.
 *
 * @param seed Fixes prompts, samples and initial weights; on one backend that is the whole run.
 * @param signal Once aborted, the run ends after the step in progress.
 */
export async function train(
  config: TrainerConfig,
  { seed, steps, signal }: { seed: number; steps: number; signal?: AbortSignal },
  observer: TrainingObserver,
): Promise<void> {
  const random = new Random(seed);
  const body = {
    ...config.body,
    vocabulary: VOCABULARY,
    length: promptWidth(config.task) + responseWidth(config.task),
  };
  const learner: Learner = {
    config,
    random,
    actor: new Network({ ...body, outputs: RESPONSE_VOCABULARY }, random.stream('actor')),
    critic: new Network({ ...body, outputs: 1 }, random.stream('critic')),
    actorOptimiser: tf.train.adam(config.update.actorRate),
    criticOptimiser: tf.train.adam(config.update.criticRate),
    validationPrompts: drawValidationPrompts(
      config.task,
      config.validation,
      random.stream('validation prompts'),
    ),
  };
  try {
    for (let step = 1; step <= steps && signal?.aborted !== true; step += 1) {
      await runStep(learner, step, step === steps, observer);
    }
  } finally {
    learner.actor.dispose();
    learner.critic.dispose();
    learner.actorOptimiser.dispose();
    learner.criticOptimiser.dispose();
  }
}

/** One step of PPO. */
async function runStep(
  learner: Learner,
  step: number,
  isLast: boolean,
  observer: TrainingObserver,
): Promise<void> {
  const { config, random, actor, critic } = learner;
  observer.stepStarted(step);
  const promptsFrom = random.stream(`prompts ${step}`);
  const prompts = Array.from({ length: config.batch }, () => drawPrompt(config.task, promptsFrom));
  const { every, samplesPerPrompt } = config.validation;
  const isTesting = step % every === 0 || isLast;
  const [{ rollout, scores }, validation] = await Promise.all([
    withRollout({ isEval: false }, async () => {
      const responses = random.stream(`responses ${step}`);
      const sampled = await observer.phase('gen', () =>
        sampleResponses(actor, config.task, prompts, responses),
      );
      const scored = await observer.phase('reward', () =>
        Promise.resolve(sampled.responses.map((response, row) => score(prompts[row]!, response))),
      );
      observer.episodesEnded(sampled, scored);
      return { rollout: sampled, scores: scored };
    }),
    isTesting
      ? withRollout({ isEval: true }, () =>
          observer.phase('testing', async () => {
            const asked = repeated(learner.validationPrompts, samplesPerPrompt);
            const answers = random.stream(`validation ${step}`);
            const sampled = await sampleResponses(actor, config.task, asked, answers);
            const scored = sampled.responses.map((response, row) => score(asked[row]!, response));
            observer.episodesEnded(sampled, scored);
            return validationResult(scored, samplesPerPrompt);
          }),
        )
      : undefined,
  ]);
  const given = placeOnDevice(rollout, scores);
  const { oldLogProbs } = await observer.phase('old_log_prob', async () => {
    const { logProbs, entropy } = evaluateActor(actor, given);
    entropy.dispose();
    // The read makes the time of this phase its own: without it the device would still work in the next one.
    await logProbs.data();
    return { oldLogProbs: logProbs };
  });
  const { values, valuesOnHost } = await observer.phase('values', async () => {
    const values = evaluateCritic(critic, given);
    return { values, valuesOnHost: await values.data<'float32'>() };
  });
  const { advantages, returns } = await observer.phase('adv', () =>
    Promise.resolve(advantagesOf(rollout, scores, valuesOnHost, config)),
  );
  const tensors: StepTensors = { ...given, oldLogProbs, values, advantages, returns };
  const criticGradientNorms = await observer.phase('update_critic', () =>
    updateCritic(critic, learner.criticOptimiser, tensors, config.update, (seen) => {
      observer.criticMicroBatch(seen);
    }),
  );
  const actorGradientNorms = await observer.phase('update_actor', () =>
    updateActor(actor, learner.actorOptimiser, tensors, config.update, (seen) => {
      observer.actorMicroBatch(seen);
    }),
  );
  await observer.stepEnded({
    step,
    rollout,
    scores,
    tensors,
    actorGradientNorms,
    criticGradientNorms,
    validation,
  });
  tf.dispose(Object.values(tensors) as tf.Tensor[]);
}

/** Scores at the last token of each response, `[B, T]` row-major. */
function scoresPerToken(rollout: Rollout, scores: readonly number[]): Float32Array {
  const perToken = new Float32Array(rollout.responseMask.length);
  rollout.responses.forEach((response, row) => {
    perToken[row * rollout.responseWidth + response.length - 1] = scores[row]!;
  });
  return perToken;
}

/** What the rollout gave, as tensors. */
function placeOnDevice(
  rollout: Rollout,
  scores: readonly number[],
): Omit<StepTensors, 'oldLogProbs' | 'values' | 'advantages' | 'returns'> {
  const rows = rollout.prompts.length;
  const whole: [number, number] = [rows, rollout.promptWidth + rollout.responseWidth];
  const response: [number, number] = [rows, rollout.responseWidth];
  const labels = new Int32Array(rows * rollout.responseWidth);
  rollout.responses.forEach((tokens, row) => {
    labels.set(tokens, row * rollout.responseWidth);
  });
  return {
    tokens: tf.tensor2d(rollout.tokens, whole, 'int32'),
    attention: tf.tensor2d(rollout.attention, whole),
    labels: tf.tensor2d(labels, response, 'int32'),
    responseMask: tf.tensor2d(Uint8Array.from(rollout.responseMask), response, 'bool'),
    scores: tf.tensor2d(scoresPerToken(rollout, scores), response),
    rolloutLogProbs: tf.tensor2d(rollout.logProbs, response),
  };
}

/** Whitened advantages and returns; the reward of a token is its score, there is no KL penalty. */
function advantagesOf(
  rollout: Rollout,
  scores: readonly number[],
  values: Float32Array,
  config: TrainerConfig,
): { advantages: tf.Tensor2D; returns: tf.Tensor2D } {
  const { responseMask: mask, responseWidth: width } = rollout;
  const estimate = estimateAdvantages(scoresPerToken(rollout, scores), values, mask, width, config.gae);
  const shape: [number, number] = [rollout.prompts.length, width];
  return {
    advantages: tf.tensor2d(whiten(estimate.advantages, mask), shape),
    returns: tf.tensor2d(estimate.returns, shape),
  };
}
