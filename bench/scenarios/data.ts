/** `data`: verl's data metrics of a rollout batch, critic included. */
import * as tf from '@tensorflow/tfjs-core';
import { batchFromVerl, computeDataMetrics } from '../../src/index.js';
import { composedDataMetrics } from '../composed/data.js';
import { dataNumbers } from '../data-numbers.js';
import { deviceBytes } from '../inputs.js';
import { hostTensors } from '../peers/torch.js';
import { type RolloutShape, rollout, rolloutShapes, rolloutTensors } from '../rollout.js';
import { FLOAT32_PEER, OURS, type Scenario, type Size, type Work } from '../scenario.js';

/** Rollouts in all sizes; prompts are a quarter as wide as responses, as in long-answer training. */
export function rolloutSizes(prepare: (shape: RolloutShape) => Work): Scenario['sizes'] {
  const size = (rows: number, responseWidth: number): Size => ({
    label: `[${rows}, ${responseWidth}]`,
    prepare: () => prepare({ rows, responseWidth, promptWidth: responseWidth / 4 }),
  });
  return { tiny: size(8, 32), small: size(64, 512), medium: size(256, 2048), large: size(1024, 4096) };
}

export const data: Scenario = {
  name: 'data',
  describe: "verl's data metrics of a batch [rows, response tokens]",
  sizes: rolloutSizes(prepare),
};

function prepare(shape: RolloutShape): Work {
  const host = rollout(shape, 3);
  const tensors = rolloutTensors(host, shape);
  const batch = batchFromVerl(tensors);
  const expected = dataNumbers(host, shape);
  return {
    inputBytes: deviceBytes(Object.values(tensors)),
    ways: {
      ours: {
        run: () => computeDataMetrics(batch),
        numbers: () => computeDataMetrics(batch),
        expected,
        closeness: OURS,
      },
      composed: {
        run: () => composedDataMetrics(tensors),
        numbers: () => composedDataMetrics(tensors),
        expected,
        closeness: FLOAT32_PEER,
      },
    },
    torch: {
      task: 'data',
      tensors: hostTensors(host, rolloutShapes(shape)),
      parameters: {},
      expected,
      closeness: FLOAT32_PEER,
    },
    dispose: () => {
      tf.dispose(Object.values(tensors));
    },
  };
}
