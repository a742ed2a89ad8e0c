/** What makes histograms, and what can be asked of them. Not a test. */
import type * as tf from '@tensorflow/tfjs-core';
import { Histogram, type QuantileOptions, maskedHistograms } from '../../../src/kernels/index.js';
import { tensor } from './batch.js';
import { type Rows, count, options } from './row.js';

const two = (): Histogram => Histogram.fromRow([1, 0, 0, 0, 1985, 2]);

export const histogramCalls: Rows = {
  maskedHistograms: () => ({
    parameters: [
      { fits: { x: tensor() }, takes: [] },
      { fits: tensor(), takes: ['undefined'] },
    ],
    isAsync: true,
    call: (values: { x: tf.Tensor }, mask?: tf.Tensor) => maskedHistograms(values, mask),
  }),
  'Histogram.fromRow': () => ({
    parameters: [{ fits: [1, 0, 0, 0], takes: [] }],
    call: (row: number[]) => Histogram.fromRow(row),
  }),
  'Histogram#merge': () => ({
    parameters: [{ fits: two(), takes: [] }],
    call: (other: Histogram) => two().merge(other),
  }),
  'Histogram#quantile': () => ({
    parameters: [{ fits: 0.5, takes: [] }, options()],
    call: (q: number, given?: QuantileOptions) => two().quantile(q, given),
  }),
  'Histogram#quantile{options}': () => ({
    parameters: [{ ...count, takes: ['undefined'] }, count, { fits: 'ignore', takes: ['undefined'] }],
    call: (min?: number, max?: number, nonFinite?: 'ignore') => two().quantile(0.5, { min, max, nonFinite }),
  }),
};
