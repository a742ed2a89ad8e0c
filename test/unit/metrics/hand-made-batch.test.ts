/** What a hand-made batch and the options of a step are told when a name is in the wrong place or misspelt. */
import * as tf from '@tensorflow/tfjs-core';
import '@tensorflow/tfjs-backend-cpu';
import { beforeAll, describe, expect, it } from 'vitest';
import { MissingInputError, TensortallyError, ValueError } from '../../../src/errors.js';
import { computeDataMetrics, computeStepMetrics, correctedStep } from '../../../src/metrics/index.js';
import { StatsTracker } from '../../../src/tracker/index.js';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

async function refusalOf(use: () => unknown): Promise<TensortallyError> {
  const refusal = await Promise.resolve()
    .then(use)
    .catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(TensortallyError);
  return refusal as TensortallyError;
}

describe('a hand-made batch', () => {
  const batch = (more: object): never => ({ batchSize: 1, responseMask: tf.ones([1, 2]), ...more }) as never;

  it.each([
    ['attention_mask', 'attentionMask'],
    ['attentionmask', 'attentionMask'],
    ['logProb', 'logProbs'],
    ['log_probs', 'logProbs'],
    ['vpreds', 'valuePredictions'],
    ['ref_log_prob', 'refLogProbs'],
    ['isWeights', 'rolloutIsWeights'],
    ['token_level_scores', 'tokenLevelScores'],
    ['advantage', 'advantages'],
    ['__num_turns__', 'numTurns'],
    ['responseWdith', 'responseWidth'],
  ])('with %s is told of %s', async (name, right) => {
    const column = tf.ones([1, 2]);
    for (const compute of [computeDataMetrics, computeStepMetrics]) {
      const refusal = await refusalOf(() => compute(batch({ [name]: column })));
      expect(refusal).toBeInstanceOf(ValueError);
      expect(refusal).toMatchObject({ input: `batch.${name}` });
      expect(refusal.remedy).toMatch(new RegExp(`^write ${right},`));
    }
  });

  it('may carry names of its own, and misspelt ones that are undefined', async () => {
    const own = { uid: ['a'], environment: 'b', attention_mask: undefined, advantages: tf.ones([1, 2]) };
    const metrics = await computeStepMetrics(batch(own), { onSkipped: () => undefined });
    expect(Object.keys(metrics)).not.toEqual([]);
  });
});

describe('options of a step', () => {
  const batch = { batchSize: 1 };

  it('belong into the object of their family, and the refusal shows it', async () => {
    const misplaced = [
      ['rolloutIs', 'rolloutCorrection: { rolloutIs }'],
      ['rolloutRs', 'rolloutCorrection: { rolloutRs }'],
      ['clipRatioHigh', 'policy: { clipRatioHigh }'],
    ] as const;
    for (const [name, remedy] of misplaced) {
      const { message } = await refusalOf(() => computeStepMetrics(batch, { [name]: 'token' }));
      expect(message).toContain(`options.${name}: `);
      expect(message).toContain(remedy);
    }
  });

  it('of a corrected step are named where they are missing', async () => {
    const refusal = await refusalOf(() => (correctedStep as (b: object) => unknown)(batch));
    expect(refusal).toBeInstanceOf(MissingInputError);
    expect(refusal.remedy).toContain("correctedStep(batch, { rolloutCorrection: { rolloutIs: 'token' } })");
  });
});

describe('a stat call of another form is shown the right one', () => {
  const tracker = new StatsTracker();
  const stat = tracker.stat.bind(tracker) as unknown as (...args: unknown[]) => void;

  it.each<[string, unknown[], string]>([
    ['the denominator first', ['n', { x: 1 }], "call it as stat({ x }, { denominator: 'n' })"],
    ['it among the values', [{ denominator: 'n', x: 1 }], "call it as stat({ x }, { denominator: 'n' })"],
    ['no options', [{ x: 1 }], "call it as stat({ x }, { denominator: '"],
  ])('%s', async (_, args, remedy) => {
    const refusal = await refusalOf(() => {
      stat(...args);
    });
    expect(refusal.remedy).toContain(remedy);
    if (args.length === 1) expect(refusal.expected).toContain('a second argument { denominator }');
  });
});
