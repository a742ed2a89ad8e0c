/** The whole loop with tiny sizes on the cpu backend: reproducible, without leaks, consistent, and stoppable. */
import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, it } from 'vitest';
import { train, type FinishedStep } from '../../../examples/ppo/trainer.js';
import { END } from '../../../examples/ppo/task.js';
import { tinyConfig, useCpu, watchSteps } from './tiny-trainer.js';

beforeAll(useCpu);

/** What a run of a few steps was, bit for bit. */
async function curve(seed: number, steps: number): Promise<unknown[]> {
  const seen: unknown[] = [];
  await train(
    tinyConfig,
    { seed, steps },
    watchSteps(({ scores, rollout, actorGradientNorms, criticGradientNorms, tensors, validation }) => {
      seen.push({
        scores,
        responses: rollout.responses,
        actorGradientNorms,
        criticGradientNorms,
        validation,
        advantages: [...tensors.advantages.dataSync()],
      });
    }),
  );
  return seen;
}

async function firstStep(): Promise<{ step: FinishedStep; onHost: Record<string, number[]> }> {
  let kept: { step: FinishedStep; onHost: Record<string, number[]> } | undefined;
  await train(
    tinyConfig,
    { seed: 1, steps: 1 },
    watchSteps((step) => {
      const entries = Object.entries(step.tensors as unknown as Record<string, tf.Tensor>);
      kept = { step, onHost: Object.fromEntries(entries.map(([name, t]) => [name, [...t.dataSync()]])) };
    }),
  );
  return kept!;
}

describe('train', () => {
  it('gives the same run for the same seed, bit for bit, and another for another seed', async () => {
    const first = await curve(1, 2);
    expect(await curve(1, 2)).toEqual(first);
    expect(await curve(2, 2)).not.toEqual(first);
  });

  it('holds the same number of tensors after every step, and none after the run', async () => {
    const before = tf.memory().numTensors;
    const counts: number[] = [];
    await train(
      tinyConfig,
      { seed: 1, steps: 4 },
      watchSteps(() => {
        counts.push(tf.memory().numTensors);
      }),
    );
    expect(new Set(counts).size).toBe(1);
    expect(tf.memory().numTensors).toBe(before);
  });

  it('validates every so often and at the end', async () => {
    const validated: number[] = [];
    await train(
      tinyConfig,
      { seed: 1, steps: 3 },
      watchSteps(({ step, validation }) => {
        if (validation === undefined) return;
        validated.push(step);
        expect(validation.scores.map(({ length }) => length)).toEqual([2, 2, 2]);
      }),
    );
    expect(validated).toEqual([2, 3]);
  });

  it('ends after the step in which it was asked to', async () => {
    const controller = new AbortController();
    const steps: number[] = [];
    await train(
      tinyConfig,
      { seed: 1, steps: 5, signal: controller.signal },
      watchSteps(({ step }) => {
        steps.push(step);
        if (step === 2) controller.abort();
      }),
    );
    expect(steps).toEqual([1, 2]);
  });

  it('lays prompts out to the right, responses to the left, and scores the last token', async () => {
    const { step, onHost } = await firstStep();
    const { rollout, scores } = step;
    const width = rollout.promptWidth + rollout.responseWidth;
    rollout.responses.forEach((response, row) => {
      const prompt = rollout.prompts[row]!.length + 1;
      const attention = Array.from({ length: width }, (_, at) =>
        at >= rollout.promptWidth - prompt && at < rollout.promptWidth + response.length ? 1 : 0,
      );
      expect(onHost.attention!.slice(row * width, (row + 1) * width)).toEqual(attention);
      const perToken = onHost.scores!.slice(row * rollout.responseWidth, (row + 1) * rollout.responseWidth);
      expect(perToken[response.length - 1]).toBe(Math.fround(scores[row]!));
      expect(perToken.filter((value) => value !== 0).length).toBeLessThanOrEqual(1);
      expect(response.slice(0, -1)).not.toContain(END);
    });
  });

  it('samples with the log-probabilities that a forward pass over the whole sequence gives', async () => {
    const { onHost } = await firstStep();
    onHost.responseMask!.forEach((valid, at) => {
      if (valid === 0) return;
      // The same float32 network over padded and over growing sequences; logits are of order 1.
      expect(Math.abs(onHost.oldLogProbs![at]! - onHost.rolloutLogProbs![at]!)).toBeLessThan(1e-5);
    });
  });
});
