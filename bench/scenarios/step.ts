/** `step`: every metric of a training step, launched together and read back once. */
import * as tf from '@tensorflow/tfjs-core';
import { batchFromVerl, collect } from '../../src/index.js';
import { dataMetrics } from '../../src/metrics/data.js';
import { throughputMetrics } from '../../src/metrics/throughput.js';
import { timingMetrics } from '../../src/metrics/timing.js';
import type { Numbers } from '../agreement.js';
import { dataNumbers, lengthsOf } from '../data-numbers.js';
import { deviceBytes } from '../inputs.js';
import { hostTensors } from '../peers/torch.js';
import { type Rollout, type RolloutShape, rollout, rolloutShapes, rolloutTensors } from '../rollout.js';
import { FLOAT32_PEER, OURS, type Scenario, type Work } from '../scenario.js';
import { rolloutSizes } from './data.js';

/** Seconds of a step's stages, as a trainer's timers have them. */
const TIMINGS = {
  gen: 41.5,
  ref: 6.25,
  values: 5.5,
  adv: 0.5,
  update_critic: 12,
  update_actor: 24,
  step: 93,
};
const GPUS = 8;

export const step: Scenario = {
  name: 'step',
  describe: 'All metrics of a step (data, timing, throughput) in one read-back',
  sizes: rolloutSizes(prepare),
};

function prepare(shape: RolloutShape): Work {
  const host = rollout(shape, 4);
  const tensors = rolloutTensors(host, shape);
  const batch = batchFromVerl(tensors);
  const ours = async (): Promise<Numbers> => {
    const parts = await collect(
      dataMetrics(batch),
      timingMetrics(batch, TIMINGS),
      throughputMetrics(batch, TIMINGS, GPUS),
    );
    return Object.assign({}, ...parts);
  };
  const expected = { ...dataNumbers(host, shape), ...timeNumbers(host, shape) };
  return {
    inputBytes: deviceBytes(Object.values(tensors)),
    ways: { ours: { run: ours, numbers: ours, expected, closeness: OURS } },
    torch: {
      task: 'step',
      tensors: hostTensors(host, rolloutShapes(shape)),
      parameters: { timings: TIMINGS, gpus: GPUS },
      expected,
      closeness: FLOAT32_PEER,
    },
    dispose: () => {
      tf.dispose(Object.values(tensors));
    },
  };
}

/** Seconds, milliseconds per token and throughput in plain loops. */
function timeNumbers(host: Rollout, shape: RolloutShape): Numbers {
  const { prompt, response } = lengthsOf(host, shape);
  const total = (lengths: Float64Array): number => lengths.reduce((sum, n) => sum + n, 0);
  const tokens = total(prompt) + total(response);
  const perToken: Record<string, number> = { gen: total(response) };
  for (const stage of ['ref', 'values', 'adv', 'update_critic', 'update_actor']) perToken[stage] = tokens;
  const numbers: Record<string, number> = {
    'perf/total_num_tokens': tokens,
    'perf/time_per_step': TIMINGS.step,
    'perf/throughput': tokens / TIMINGS.step / GPUS,
  };
  for (const [stage, seconds] of Object.entries(TIMINGS)) {
    numbers[`timing_s/${stage}`] = seconds;
    if (stage in perToken) numbers[`timing_per_token_ms/${stage}`] = (1000 * seconds) / perToken[stage]!;
  }
  return numbers;
}
