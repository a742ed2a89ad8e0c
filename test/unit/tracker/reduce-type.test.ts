/** The table of reduce types, and that counts stay exact where float32 ends. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { ValueError } from '../../../src/errors.js';
import { initBackend, liftRow, mergeRows, emptyRow } from '../../../src/kernels/index.js';
import {
  exportedNames,
  exportedNumbers,
  tensorReduceTypes,
} from '../../../src/tracker/records/reduce-type.js';
import { StatsTracker, type TensorReduceType } from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';

beforeAll(async () => {
  await initBackend('cpu');
});

describe('a reduce type', () => {
  const row = [1, 2, 6].map(liftRow).reduce(mergeRows);

  it.each([
    ['avg_min_max', { 'k/avg': 3, 'k/min': 1, 'k/max': 6 }, {}],
    ['avg', { k: 3 }, {}],
    ['sum', { k: 9 }, { k: 0 }],
    ['min', { k: 1 }, {}],
    ['max', { k: 6 }, {}],
    ['scalar', { k: 3, k__count: 3 }, {}],
    ['denominator', { k: 3 }, { k: 0 }],
  ] as const)('%s exports its names, and what is left of them for nothing', (type, full, empty) => {
    expect(exportedNames('k', type)).toEqual(Object.keys(full));
    expect(Object.fromEntries(exportedNumbers('k', type, row))).toEqual(full);
    expect(Object.fromEntries(exportedNumbers('k', type, emptyRow))).toEqual(empty);
  });

  it('of stat is one of the table', () => {
    expect(tensorReduceTypes).toEqual(['avg_min_max', 'histogram', 'avg', 'sum', 'min', 'max']);
    const tracker = new StatsTracker();
    tf.tidy(() => {
      tracker.denominator({ m: mask(1) });
      for (const wrong of ['scalar', 'AVG', 'median', 'toString', null, 3]) {
        expect(() => {
          tracker.stat({ v: values(1) }, { denominator: 'm', reduceType: wrong as TensorReduceType });
        }).toThrow(ValueError);
      }
    });
    tracker.dispose();
  });
});

describe('a count', () => {
  it('is exact beyond 2^24, from a stat as from the mask itself', async () => {
    const tracker = new StatsTracker();
    tf.tidy(() => {
      const big = tf.ones([2 ** 22 + 1], 'bool');
      const v = tf.concat([tf.fill([2 ** 22], 2), tf.tensor1d([NaN])]);
      for (let i = 0; i < 5; i++) {
        tracker.denominator({ counted: big, alone: big });
        tracker.stat({ v }, { denominator: 'counted', reduceType: 'sum' });
      }
    });
    expect(await tracker.export()).toEqual({ alone: 5 * (2 ** 22 + 1), counted: 5 * (2 ** 22 + 1), v: NaN });
  });
});
