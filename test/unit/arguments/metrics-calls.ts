/** The public functions on batches. Not a test. */
import type * as tf from '@tensorflow/tfjs-core';
import {
  batchFromAreal,
  batchFromVerl,
  computeDataMetrics,
  computeThroughputMetrics,
  computeTimingMetrics,
} from '../../../src/index.js';
import { correctionCalls } from './correction-calls.js';
import { diagnosticsCalls } from './diagnostics-calls.js';
import { policyCalls } from './policy-calls.js';
import { stepCalls } from './step-calls.js';
import { tensorMakingCalls } from './tensor-making-calls.js';
import { validationCalls } from './validation-calls.js';
import { batch, columns, mask, tensor } from './batch.js';
import { count, flag, number, options, record, type Parameter, type Rows } from './row.js';

const column: Parameter = { fits: [1, 2], takes: ['undefined', 'null'] };
const rowColumn: Parameter = { fits: [1, 2], takes: ['undefined'] };
const batchTensor: Parameter = { fits: undefined, takes: ['undefined'] };

export const metricsCalls: Rows = {
  batchFromAreal: () => ({
    // Without masks there are no sequences, unlike a batch of which a column is left out.
    parameters: [{ fits: { attention_mask: tensor(), loss_mask: tensor() }, takes: [] }, options()],
    call: (...given: Parameters<typeof batchFromAreal>) => {
      batchFromAreal(...given).dispose();
    },
  }),
  batchFromVerl: () => ({
    parameters: [record(columns()), options(), options()],
    call: batchFromVerl,
  }),
  'batchFromVerl{tensor}': () => ({
    parameters: [{ fits: tensor(), takes: ['undefined', 'null'] }],
    call: (given: tf.Tensor) => batchFromVerl({ ...columns(), old_log_probs: given }),
  }),
  'batchFromVerl{column}': () => ({
    parameters: [column, column, column, column, { fits: [1], takes: ['undefined', 'null', 'array'] }],
    call: (...given: number[][]) => {
      const [prompt_length, response_length, __num_turns__, tool_call_counts, global_token_num] = given;
      const lists = { prompt_length, response_length, __num_turns__, tool_call_counts, global_token_num };
      batchFromVerl(columns(), lists);
    },
  }),
  'batchFromVerl{responseWidth}': () => ({
    parameters: [{ fits: 2, takes: ['undefined', 'number'] }],
    call: (responseWidth: number) =>
      batchFromVerl({ prompt_length: mask(), response_length: mask() }, {}, { responseWidth }),
  }),
  computeDataMetrics: () => ({
    parameters: [{ fits: batch(), takes: [] }, options()],
    isAsync: true,
    call: computeDataMetrics,
  }),
  'computeDataMetrics{option}': () => ({
    parameters: [flag, count, count, { fits: 'recommended', takes: ['undefined'] }],
    isAsync: true,
    call: (
      useCritic: boolean,
      maxResponseLength: number,
      maxPromptLength: number,
      semantics: 'recommended',
    ) => computeDataMetrics(batch(), { useCritic, maxResponseLength, maxPromptLength, semantics }),
  }),
  'computeDataMetrics{batch}': () => ({
    parameters: [{ fits: 2, takes: [] }, batchTensor, rowColumn, rowColumn, rowColumn],
    isAsync: true,
    call: (batchSize: number, oldLogProbs: tf.Tensor, promptLength: [], numTurns: [], toolCallCounts: []) => {
      const changed = { batchSize, oldLogProbs, promptLength, numTurns, toolCallCounts };
      return computeDataMetrics({ ...batch(), ...changed });
    },
  }),
  computeTimingMetrics: () => ({
    parameters: [{ fits: batch(), takes: [] }, record({ gen: 1 }), options()],
    isAsync: true,
    call: computeTimingMetrics,
  }),
  'computeTimingMetrics{seconds}': () => ({
    parameters: [number(1), { fits: 'recommended', takes: ['undefined'] }],
    isAsync: true,
    call: (gen: number, semantics: 'recommended') => computeTimingMetrics(batch(), { gen }, { semantics }),
  }),
  computeThroughputMetrics: () => ({
    parameters: [{ fits: batch(), takes: [] }, { fits: { step: 1 }, takes: [] }, number(1), options()],
    isAsync: true,
    call: computeThroughputMetrics,
  }),

  ...correctionCalls,
  ...diagnosticsCalls,
  ...policyCalls,
  ...stepCalls,
  ...tensorMakingCalls,
  ...validationCalls,
};
