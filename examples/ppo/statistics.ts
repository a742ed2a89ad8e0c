/**
 * Everything that the trainer has to do with tensortally: what it records, when, and what a step's numbers are.
 *
 * Reading this file shows what a trainer adds to have its metrics: records where the tensors are, one export per step.
 */
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { batchFromVerl, computeStepMetrics, processValidationMetrics } from '../../src/metrics/index.js';
import { StatsLogger, StatsTracker, reportEpisode } from '../../src/tracker/index.js';
import type { TrainerConfig } from './config.js';
import type { ActorMicroBatch, CriticMicroBatch } from './ppo.js';
import type { Rollout } from './rollout.js';
import { END, promptTokens, responseWidth } from './task.js';
import type { FinishedStep, Phase } from './trainer.js';
import type { ValidationResult } from './validate.js';

/** A step's metrics, and what they cost. */
export interface StepReport {
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  /** Wall-clock seconds of the whole step, statistics and validation included. */
  readonly stepSeconds: number;
  /** Seconds of it that went into records, metrics, their read-back and the journal. */
  readonly statisticsSeconds: number;
}

/** The tracker's name of each phase, as AReaL's trainers call it. */
const TIMING_NAMES: Readonly<Record<Phase, string>> = {
  gen: 'rollout',
  reward: 'reward',
  old_log_prob: 'recompute_logp',
  values: 'critic_values',
  adv: 'compute_advantage',
  update_critic: 'critic_train_step',
  update_actor: 'train_step',
  testing: 'eval',
};

/** The statistics of one run. */
export class RunStatistics {
  private readonly tracker = new StatsTracker();
  private readonly actor = this.tracker.child('ppo_actor');
  private readonly actorUpdate = this.actor.child('update');
  private readonly criticUpdate = this.tracker.child('ppo_critic/update');
  private timing: Record<string, number> = {};
  private started = 0;
  private spent = 0;

  private constructor(
    private readonly config: TrainerConfig,
    private readonly logger: StatsLogger,
  ) {}

  /**
   * Opens the journal `metrics.jsonl` in a folder.
   *
   * @throws LogWriteError if the folder cannot be written, ValueError if it holds a journal
   */
  static async open(config: TrainerConfig, folder: string): Promise<RunStatistics> {
    const logger = await StatsLogger.create({
      experimentName: 'ppo',
      trialName: 'demo',
      fileroot: folder,
      console: false,
      jsonl: { path: join(folder, 'metrics.jsonl'), existing: 'refuse' },
    });
    return new RunStatistics(config, logger);
  }

  /** Starts the clock of a step. */
  startStep(): void {
    this.timing = {};
    this.started = performance.now();
    this.spent = 0;
  }

  /** Times a phase, for verl's metrics and for the tracker. */
  async phase<T>(phase: Phase, body: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await this.tracker.recordTiming(TIMING_NAMES[phase], body);
    } finally {
      this.timing[phase] = (performance.now() - start) / 1000;
    }
  }

  /**
   * Records responses of the rollout that the caller runs in: training under `rollout/`, evaluation under
   * `eval-rollout/`, however the two take turns.
   */
  recordEpisodes({ responses }: Rollout, scores: readonly number[]): void {
    this.measured(() => {
      responses.forEach((response, row) => {
        reportEpisode(this.tracker, {
          outcome: 'accepted',
          values: { reward: scores[row]!, response_len: response.length },
        });
      });
    });
  }

  /** Records what an actor micro-batch computed. Its tensors may be freed right after. */
  recordActor(seen: ActorMicroBatch): void {
    this.measured(() => {
      const { ratio, clipped, newLogProbs, oldLogProbs, entropy, loss } = seen;
      // k3 of KL(old ‖ new): never negative but for rounding, and of far less variance than the mean difference.
      const divergence = tf.sub(tf.sub(ratio, 1), tf.sub(newLogProbs, oldLogProbs));
      this.actorUpdate.denominator({ n_valid_tokens: seen.mask, clipped_tokens: clipped });
      this.actorUpdate.stat(
        {
          importance_weight: ratio,
          approx_kl: divergence,
          new_logp: newLogProbs,
          old_logp: oldLogProbs,
          entropy,
          actor_loss: loss,
          clip_ratio: tf.cast(clipped, 'float32'),
        },
        { denominator: 'n_valid_tokens' },
      );
      this.actorUpdate.stat(
        { clipped_new_logp: newLogProbs, clipped_old_logp: oldLogProbs },
        { denominator: 'clipped_tokens' },
      );
    });
  }

  /** Records what a critic micro-batch computed. Its tensors may be freed right after. */
  recordCritic(seen: CriticMicroBatch): void {
    this.measured(() => {
      const { clipped, newValues, oldValues, returns, loss } = seen;
      this.criticUpdate.denominator({ n_valid_tokens: seen.mask, clipped_tokens: clipped });
      this.criticUpdate.stat(
        {
          new_value: newValues,
          old_value: oldValues,
          target_value: returns,
          critic_loss: loss,
          clip_ratio: tf.cast(clipped, 'float32'),
        },
        { denominator: 'n_valid_tokens' },
      );
    });
  }

  /** Ends a step: its rollout's statistics, verl's metrics, one export, one line in the journal. */
  async finishStep(finished: FinishedStep): Promise<StepReport> {
    const timing = { ...this.timing, step: (performance.now() - this.started) / 1000 };
    this.measured(() => {
      this.recordBatch(finished);
    });
    const start = performance.now();
    const { tensors, rollout } = finished;
    const batch = batchFromVerl(
      {
        attention_mask: tensors.attention,
        response_mask: tensors.responseMask,
        token_level_scores: tensors.scores,
        token_level_rewards: tensors.scores,
        advantages: tensors.advantages,
        returns: tensors.returns,
        values: tensors.values,
        old_log_probs: tensors.oldLogProbs,
        rollout_log_probs: tensors.rolloutLogProbs,
      },
      { global_token_num: sequenceLengths(rollout) },
    );
    const [ofStep, tracked] = await Promise.all([
      computeStepMetrics(batch, {
        timing,
        nGpus: 1,
        maxResponseLength: responseWidth(this.config.task),
        families: ['data', 'rolloutCorrection', 'debug', 'timing', 'throughput'],
      }),
      this.tracker.export(),
    ]);
    const metrics = { ...ofStep, ...tracked, ...validationMetrics(finished.validation) };
    await this.logger.commit(0, finished.step, finished.step, metrics);
    this.spent += performance.now() - start;
    return {
      step: finished.step,
      metrics,
      stepSeconds: (performance.now() - this.started) / 1000,
      statisticsSeconds: this.spent / 1000,
    };
  }

  /** Completes the journal and frees what is recorded but was never exported. */
  async close(): Promise<void> {
    this.tracker.dispose();
    await this.logger.close();
  }

  /** The batch as a whole: its sequences, its tokens, and how the optimisers moved. */
  private recordBatch({ rollout, scores, tensors, ...norms }: FinishedStep): void {
    const lengths = tf.tensor1d(sequenceLengths(rollout), 'float32');
    const ended = rollout.responses.map((response) => response.at(-1) === END);
    const isRight = scores.map((score) => score === 1);
    this.actor.denominator({
      n_seqs: tf.ones([scores.length], 'bool'),
      n_tokens: tf.ones(tensors.responseMask.shape, 'bool'),
      n_valid_tokens: tensors.responseMask,
      correct_n_seqs: tf.tensor1d(isRight, 'bool'),
      incorrect_n_seqs: tf.tensor1d(
        isRight.map((right) => !right),
        'bool',
      ),
    });
    this.actor.stat({ correct_seq_len: lengths }, { denominator: 'correct_n_seqs' });
    this.actor.stat({ incorrect_seq_len: lengths }, { denominator: 'incorrect_n_seqs' });
    this.actor.stat({ advantages: tensors.advantages }, { denominator: 'n_valid_tokens' });
    this.actor.stat(
      {
        task_reward: tf.tensor1d([...scores]),
        prompt_len: tf.tensor1d(rollout.prompts.map(promptTokens), 'float32'),
        seq_len: lengths,
        no_eos_ratios: tf.tensor1d(
          ended.map((end) => (end ? 0 : 1)),
          'float32',
        ),
      },
      { denominator: 'n_seqs' },
    );
    const { update } = this.config;
    this.actor.scalar({ eps_clip: update.clip });
    for (const grad_norm of norms.actorGradientNorms) {
      this.actorUpdate.scalar({ grad_norm, lr: update.actorRate });
    }
    for (const grad_norm of norms.criticGradientNorms) {
      this.criticUpdate.scalar({ grad_norm, lr: update.criticRate });
    }
  }

  /** Runs host code that belongs to the statistics, frees its tensors and adds its time to their cost. */
  private measured(record: () => void): void {
    const start = performance.now();
    tf.tidy(record);
    this.spent += performance.now() - start;
  }
}

/** Prompt and response tokens per row. */
function sequenceLengths({ prompts, responses }: Rollout): number[] {
  return responses.map(({ length }, row) => length + promptTokens(prompts[row]!));
}

/** What the samples per validation prompt say, under verl's names. */
function validationMetrics(validation: ValidationResult | undefined): Record<string, number> {
  if (validation === undefined) return {};
  const samples = validation.scores.flatMap((scores, prompt) =>
    scores.map((reward) => ({ uid: String(prompt), reward })),
  );
  const sources = samples.map(() => 'sort');
  const uids = samples.map(({ uid }) => uid);
  return processValidationMetrics(sources, uids, { reward: samples.map(({ reward }) => reward) }).metrics;
}
