/** `scaling`: what one element costs, from tensors that fit into a cache to tensors that do not. */
import * as tf from '@tensorflow/tfjs-core';
import { maskedMoments } from '../../src/index.js';
import { statisticsOf } from '../float64.js';
import { bell, deviceBytes, onDevice, seeded } from '../inputs.js';
import { OURS, type Scenario, type Size, type Way, type Work } from '../scenario.js';

/** @param elements of each tensor; the first is what the others are compared with */
function size(...elements: number[]): Size {
  const label = elements.map(exponential).join(', ');
  return { label: `elements: ${label}`, prepare: () => prepare(elements) };
}

export const scaling: Scenario = {
  name: 'scaling',
  describe: 'Cost per element of masked moments over sizes (ratios are per element)',
  sizes: {
    tiny: size(1e3, 1e4),
    small: size(1e4, 1e5),
    medium: size(1e5, 1e6, 3e6),
    large: size(1e5, 1e6, 1e7, 3e7),
  },
};

function prepare(elements: readonly number[]): Work {
  const random = seeded(2);
  const tensors: tf.Tensor[] = [];
  const way = (length: number): Way => {
    const selected = Uint8Array.from({ length }, () => (random() < 0.7 ? 1 : 0));
    const array = bell(random, length, 1, 2);
    const [x, mask] = [onDevice(array, [length]), onDevice(selected, [length])];
    tensors.push(x, mask);
    const { count, mean, m2, min, max } = statisticsOf(array, selected);
    return {
      run: async () => maskedMoments(x, mask),
      numbers: async () => {
        const found = await maskedMoments(x, mask);
        return { count: found.count, mean: found.mean, m2: found.m2, min: found.min, max: found.max };
      },
      expected: { count, mean, m2, min, max },
      closeness: OURS,
      share: { units: length, inputBytes: deviceBytes([x, mask]) },
    };
  };
  const [smallest, ...others] = elements;
  const ways = {
    ours: way(smallest!),
    ...Object.fromEntries(others.map((length) => [exponential(length), way(length)])),
  };
  return {
    inputBytes: deviceBytes(tensors),
    ways,
    dispose: () => {
      tf.dispose(tensors);
    },
  };
}

/** 1e6 */
function exponential(elements: number): string {
  return elements.toExponential().replace('+', '');
}
