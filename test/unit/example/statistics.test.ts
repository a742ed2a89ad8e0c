/** What the demo records and reports, against the same facts computed on the host from the step itself. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RunStatistics, type StepReport } from '../../../examples/ppo/statistics.js';
import { END } from '../../../examples/ppo/task.js';
import { train, type FinishedStep } from '../../../examples/ppo/trainer.js';
import { tinyConfig, useCpu } from './tiny-trainer.js';

/** A step, what was reported of it, and the tensors that were alive when it ended. */
interface Observed {
  readonly step: FinishedStep;
  readonly report: StepReport;
  readonly tensors: number;
}

const STEPS = 3;
const observed: Observed[] = [];
let folder: string;
let tensorsBefore: number;

beforeAll(async () => {
  await useCpu();
  folder = await mkdtemp(join(tmpdir(), 'ppo-statistics-'));
  tensorsBefore = tf.memory().numTensors;
  const statistics = await RunStatistics.open(tinyConfig, folder);
  await train(
    tinyConfig,
    { seed: 1, steps: STEPS },
    {
      stepStarted: () => {
        statistics.startStep();
      },
      phase: (phase, body) => statistics.phase(phase, body),
      episodesEnded: (rollout, scores) => {
        statistics.recordEpisodes(rollout, scores);
      },
      actorMicroBatch: (seen) => {
        statistics.recordActor(seen);
      },
      criticMicroBatch: (seen) => {
        statistics.recordCritic(seen);
      },
      stepEnded: async (step) => {
        const report = await statistics.finishStep(step);
        observed.push({ step, report, tensors: tf.memory().numTensors });
      },
    },
  );
  await statistics.close();
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

const mean = (numbers: readonly number[]): number =>
  numbers.reduce((sum, value) => sum + value, 0) / numbers.length;

describe('RunStatistics', () => {
  it('reports scores and lengths as the rollout has them', () => {
    for (const { step, report } of observed) {
      const { metrics } = report;
      const lengths = step.rollout.responses.map(({ length }) => length);
      const prompts = step.rollout.prompts.map(({ length }) => length + 1);
      // Scores went through float32.
      expect(metrics['critic/score/mean']).toBeCloseTo(mean(step.scores), 6);
      expect(metrics['ppo_actor/task_reward/avg']).toBeCloseTo(mean(step.scores), 6);
      expect(metrics['response_length/mean']).toBe(mean(lengths));
      expect(metrics['prompt_length/mean']).toBe(mean(prompts));
      expect(metrics['ppo_actor/seq_len/max']).toBe(Math.max(...lengths.map((n, row) => n + prompts[row]!)));
      expect(metrics['perf/total_num_tokens']).toBe(
        lengths.reduce((sum, n) => sum + n, 0) + prompts.reduce((sum, n) => sum + n, 0),
      );
      const unended = step.rollout.responses.filter((response) => response.at(-1) !== END).length;
      expect(metrics['ppo_actor/no_eos_ratios/avg']).toBe(unended / tinyConfig.batch);
    }
  });

  it('counts every valid token once per epoch, whatever the micro-batches were', () => {
    for (const { step, report } of observed) {
      const tokens = step.rollout.responses.reduce((sum, { length }) => sum + length, 0);
      expect(report.metrics['ppo_actor/n_valid_tokens']).toBe(tokens);
      expect(report.metrics['ppo_actor/n_tokens']).toBe(tinyConfig.batch * step.rollout.responseWidth);
      expect(report.metrics['ppo_actor/update/n_valid_tokens']).toBe(tokens * tinyConfig.update.epochs);
      expect(report.metrics['ppo_critic/update/n_valid_tokens']).toBe(tokens * tinyConfig.update.epochs);
    }
  });

  it('averages gradient norms over the optimiser steps', () => {
    for (const { step, report } of observed) {
      expect(step.actorGradientNorms).toHaveLength(2);
      expect(report.metrics['ppo_actor/update/grad_norm']).toBeCloseTo(mean(step.actorGradientNorms), 12);
      expect(report.metrics['ppo_critic/update/grad_norm__count']).toBe(2);
    }
  });

  it('reports advantages of mean 0 and a divergence that is not negative', () => {
    for (const { report } of observed) {
      // Whitened in float64 and rounded to float32: values are of order 1.
      expect(Math.abs(report.metrics['critic/advantages/mean']!)).toBeLessThan(1e-6);
      // k3 cancels terms of order 1 in float32.
      expect(report.metrics['ppo_actor/update/approx_kl/min']).toBeGreaterThan(-1e-6);
      expect(report.metrics['ppo_actor/update/entropy/max']).toBeLessThanOrEqual(Math.log(11) + 1e-6);
    }
  });

  it('times every phase under the names of both peers, and what the statistics cost', () => {
    for (const { report } of observed) {
      const { metrics } = report;
      expect(metrics['timeperf/rollout']).toBeGreaterThan(0);
      expect(metrics['timing_s/gen']).toBeGreaterThan(0);
      expect(metrics['timing_s/step']).toBeGreaterThan(metrics['timing_s/gen']!);
      expect(report.statisticsSeconds).toBeGreaterThan(0);
      expect(report.statisticsSeconds).toBeLessThan(report.stepSeconds);
    }
  });

  it('tells the episodes of training and evaluation apart, which run at the same time', () => {
    for (const { step, report } of observed) {
      const { metrics } = report;
      expect(metrics['rollout/accepted']).toBe(tinyConfig.batch);
      expect(metrics['rollout/reward__count']).toBe(tinyConfig.batch);
      expect(metrics['rollout/reward']).toBeCloseTo(mean(step.scores), 12);
      const evaluated = step.validation?.scores.flat();
      expect(metrics['eval-rollout/accepted']).toBe(evaluated?.length);
      if (evaluated !== undefined) expect(metrics['eval-rollout/reward']).toBeCloseTo(mean(evaluated), 12);
    }
  });

  it('reports validations where there was one', () => {
    const validated = observed.filter(({ report }) => 'val-core/sort/reward/mean@2' in report.metrics);
    expect(validated.map(({ report }) => report.step)).toEqual([2, 3]);
    for (const { step, report } of validated) {
      const scores = step.validation!.scores;
      expect(report.metrics['val-core/sort/reward/mean@2']).toBeCloseTo(mean(scores.flat()), 12);
      // Of two draws from two samples, half give both and the others one of them twice.
      const best = mean(scores.map((samples) => (mean(samples) + Math.max(...samples)) / 2));
      expect(report.metrics['val-core/sort/reward/best@2/mean']).toBeCloseTo(best, 12);
    }
  });

  it('writes one line of the journal per step, with the numbers that it reports', async () => {
    const lines = (await readFile(join(folder, 'metrics.jsonl'), 'utf8')).trimEnd().split('\n');
    const entries = lines.map((line) => JSON.parse(line) as { step: number; data: Record<string, unknown> });
    expect(entries.map(({ step }) => step)).toEqual([1, 2, 3]);
    entries.forEach(({ data }, at) => {
      expect(Object.keys(data)).toEqual(Object.keys(observed[at]!.report.metrics));
      expect(data['critic/score/mean']).toBe(observed[at]!.report.metrics['critic/score/mean']);
    });
  });

  it('holds no tensor from one step to the next, and none after the run', () => {
    expect(new Set(observed.map(({ tensors }) => tensors)).size).toBe(1);
    expect(tf.memory().numTensors).toBe(tensorsBefore);
  });
});
