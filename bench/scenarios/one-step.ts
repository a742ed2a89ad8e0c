/** `one-step`: the metrics of a step whose rows are single steps, `[N]`, beside those of one row of N tokens. */
import * as tf from '@tensorflow/tfjs-core';
import { batchFromVerl, computeStepMetrics } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { statisticsOf } from '../float64.js';
import { bell, deviceBytes, onDevice, seeded } from '../inputs.js';
import { OURS, type Scenario, type Size, type Way, type Work } from '../scenario.js';

function size(steps: number): Size {
  return { label: `${steps} steps`, prepare: () => prepare(steps) };
}

export const oneStep: Scenario = {
  name: 'one-step',
  describe: 'Metrics of N rows of one step beside those of one row of N tokens',
  sizes: { tiny: size(64), small: size(2 ** 12), medium: size(2 ** 16), large: size(2 ** 20) },
};

const COLUMNS = [
  'old_log_probs',
  'log_probs',
  'rollout_log_probs',
  'advantages',
  'returns',
  'values',
] as const;

function prepare(steps: number): Work {
  const random = seeded(17);
  const chosen = Uint8Array.from({ length: steps }, () => (random() < 0.9 ? 1 : 0));
  const arrays = COLUMNS.map((name) => {
    const mean = name.endsWith('log_probs') ? -1 : 0;
    return [name, bell(random, steps, mean, 0.2)] as const;
  });
  const expected: Record<string, number> = {};
  for (const [name, array] of arrays) {
    if (name.endsWith('log_probs')) continue;
    const { mean, min, max } = statisticsOf(array, chosen);
    Object.assign(expected, {
      [`critic/${name}/mean`]: mean,
      [`critic/${name}/min`]: min,
      [`critic/${name}/max`]: max,
    });
  }
  const tensors: tf.Tensor[] = [];
  const way = (shape: readonly number[]): Way => {
    const columns = Object.fromEntries(arrays.map(([name, array]) => [name, onDevice(array, shape)]));
    const response_mask = onDevice(chosen, shape);
    tensors.push(response_mask, ...Object.values(columns));
    const batch = batchFromVerl({ response_mask, ...columns });
    const run = (): Promise<Numbers> =>
      computeStepMetrics(batch, { rolloutCorrection: { rolloutIs: 'token' }, onSkipped: () => undefined });
    const numbers = async (): Promise<Numbers> => {
      const found = await run();
      return Object.fromEntries(Object.keys(expected).map((key) => [key, found[key]!]));
    };
    return { run, numbers, expected, closeness: OURS };
  };
  const ways = { ours: way([steps]), 'one row': way([1, steps]) };
  return {
    inputBytes: deviceBytes(tensors) / 2,
    ways,
    dispose: () => {
      tf.dispose(tensors);
    },
  };
}
