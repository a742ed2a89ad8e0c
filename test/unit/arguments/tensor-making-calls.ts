/** Metrics functions that take or make bare tensors: whitening, response masks, loads of experts. Not a test. */
import * as tf from '@tensorflow/tfjs-core';
import { computeMoeMetrics, maskedWhiten, responseMaskFromEos } from '../../../src/index.js';
import { mask, tensor } from './batch.js';
import { flag, options, type Parameter, type Rows } from './row.js';

const given = (fits: tf.Tensor): Parameter => ({ fits, takes: [] });
const experts = (): tf.Tensor => tf.zeros([2, 2, 1, 1], 'int32');

export const tensorMakingCalls: Rows = {
  maskedWhiten: () => ({
    parameters: [given(tf.tensor1d([1, 2])), { fits: mask(), takes: ['undefined'] }, options()],
    isAsync: true,
    call: maskedWhiten,
  }),
  'maskedWhiten{option}': () => ({
    parameters: [flag],
    isAsync: true,
    call: (shiftMean: boolean) => maskedWhiten(tensor(), tensor(), { shiftMean }),
  }),
  responseMaskFromEos: () => ({
    parameters: [given(tensor()), { fits: [1, 2], takes: ['number'] }],
    call: responseMaskFromEos,
  }),
  'responseMaskFromEos{token}': () => ({
    parameters: [{ fits: 1, takes: ['number'] }],
    call: (token: number) => responseMaskFromEos(tensor(), [token]),
  }),
  computeMoeMetrics: () => ({
    parameters: [given(experts()), given(tensor()), { fits: { numExperts: 2 }, takes: [] }],
    isAsync: true,
    call: computeMoeMetrics,
  }),
  'computeMoeMetrics{numExperts}': () => ({
    parameters: [{ fits: 2, takes: ['number'] }],
    isAsync: true,
    call: (numExperts: number) => computeMoeMetrics(experts(), tensor(), { numExperts }),
  }),
};
